"""The page of two runs: the verdict of `compare`, both tables, both spreads."""

import json
from typing import Any

from cotenant.records import Recording
from cotenant.report.page.base import read_base
from cotenant.report.page.compare import compare_data, fallback
from cotenant.report.page.html import render
from cotenant.verdict.compare_runs import compare_runs
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from tests.report.pages import TEMPLATE, unpacked
from tests.verdict.recordings import good_run


def data_of(a: Recording, b: Recording) -> dict[str, Any]:
    options = JudgeOptions()
    runs = [(read_base(run, options), judge(run, options)) for run in (a, b)]
    data = compare_data(compare_runs(a, b), runs[0], runs[1])
    found: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    return found


def test_what_is_worse_stands_first_and_every_difference_in_the_table() -> None:
    a, b = good_run(utterances=6).build(), good_run(utterances=6, late_ms=900.0, share=0.5).build()
    data = data_of(a, b)
    assert data["kind"] == "compare"
    assert data["comparison"] == compare_runs(a, b)
    text = fallback(data)
    assert '<h1 class="verdict verdict-fail">WORSE</h1>' in text
    metrics = [entry for stage in data["comparison"]["stages"] for entry in stage["metrics"]]
    assert text.count("data-metric=") == len(metrics) > 5
    worse = sum(entry["verdict"] == "regression" for entry in metrics)
    assert text.count(">WORSE") == worse + 1 > 1, "the heading says it too"
    assert 'id="stages-a"' in text
    assert 'id="stages-b"' in text
    page = render(TEMPLATE, title="two", fallback=text, data=data)
    assert unpacked(page) == data


def test_both_spreads_of_each_stage() -> None:
    a, b = good_run(utterances=6).build(), good_run(utterances=6, late_ms=900.0, share=0.5).build()
    spread = data_of(a, b)["distributions"]["headroom_ms"]
    assert [*spread] == ["alone", "alone/again", "crowd"]
    assert [spread["crowd"][name]["n"] for name in "AB"] == [12, 12]
    assert spread["crowd"]["B"]["values"][0] < 0 < spread["crowd"]["A"]["values"][0]


def test_a_stage_of_one_run_only_has_no_spread_in_the_other() -> None:
    a, b = good_run(utterances=2), good_run(utterances=2)
    b.scenario["stages"] = b.scenario["stages"][:1]
    data = data_of(a.build(), b.build())
    assert data["distributions"]["ttfa_ms"]["crowd"]["B"] is None
    assert "only A has crowd" in fallback(data)


def test_hostile_text_is_text() -> None:
    a = good_run(utterances=1).build()
    manifest = {**a.manifest, "run_id": "</li><script>", "device": {"kind": "cpu", "name": "<img src=x>"}}
    data = data_of(Recording(manifest=manifest, tables=a.tables), a)
    text = fallback(data)
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;img src=x&gt;" in text
