"""The Markdown of a judged run: the verdict first, bounded, and nothing that a name can do to it."""

import re
from typing import Any

import pytest

from cotenant.report.markdown import LIMIT_BYTES, escape, render
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import good_run

HOSTILE = (
    "a|b`c` <script>alert(1)</script> @someone #12 ![x](http://evil/) **b** _i_ $x$ \n\n# head \x1b[0m \u202e"
)


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    return judge(good_run(late_ms=1300.0, share=0.5).build(), JudgeOptions())


def columns(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def test_verdict_first_then_stages_then_gates(judged: dict[str, Any]) -> None:
    text = render(judged)
    assert text.startswith("## FAIL: by-hand\n")
    order = [
        text.index(part) for part in ("**FAIL** crowd: speech.clean_share", "| stage | TTFA", "<details>")
    ]
    assert order == sorted(order)
    assert text.rstrip().endswith("</details>")
    assert "| crowd |" in text
    gates = text[text.index("<details>") :]
    assert gates.count("\n| crowd |") == len(judged["stages"][1]["gates"])
    assert "left out" not in text


def test_invalid_and_incomplete_are_said_at_the_top(judged: dict[str, Any]) -> None:
    stages = [{**stage, "validity": "invalid"} for stage in judged["stages"]]
    changed = {
        **judged, "validity": "invalid", "invalid_because": ["crowd: our own timing error"],
        "status": "failed", "stages": stages,
    }  # fmt: skip
    head = render(changed)[:300]
    assert "INVALID" in head.splitlines()[0]
    assert "not complete" in head
    assert "our own timing error" in head
    top = render(changed).split("<details>")[0]
    assert "**INVALID** crowd: speech.clean_share" in top
    assert "FAIL" not in top


def test_a_name_stays_a_name(judged: dict[str, Any]) -> None:
    stages = [{**stage, "name": HOSTILE} for stage in judged["stages"]]
    text = render({**judged, "scenario": HOSTILE, "run_id": HOSTILE, "stages": stages})
    for forbidden in ("<script", "@someone", " #12", "](", "`", "**b**", "\x1b", "\u202e", "\n# head", "$x"):
        assert forbidden not in text, forbidden
    for line in text.splitlines():
        if line.startswith("| "):
            assert columns(line) in (4, 11)


@pytest.mark.parametrize("text", ["speech.clean_share", "llm-long-prefill", "tts alone 2", "95 %"])
def test_plain_names_are_left_alone(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(("stages", "gates"), [(4, 400), (3000, 1), (300, 40)])
def test_always_under_its_limit_and_says_what_is_left_out(
    judged: dict[str, Any], stages: int, gates: int
) -> None:
    last = judged["stages"][1]
    many = [
        {**last, "name": f"{HOSTILE}{number}", "gates": [last["gates"][0]] * (gates - 1) + [last["gates"][2]]}
        for number in range(stages)
    ]
    text = render({**judged, "stages": many, "invalid_because": [HOSTILE * 20] * 500})
    assert len(text.encode()) < LIMIT_BYTES
    assert re.search(r"\d+ gates were left out", text)
    assert text.startswith("## FAIL")
    assert text.rstrip().endswith("</details>")
    # Those that failed come first.
    first = text[text.index("<details>") :].split("|---|---|---|---|\n")[1].splitlines()[0]
    assert first.endswith("FAIL |")
