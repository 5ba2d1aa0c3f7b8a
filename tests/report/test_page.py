"""The page as a file: the same bytes twice, nothing breaks out of it, nothing runs but its own scripts."""

import base64
import hashlib
import html
import html.parser
import re
from dataclasses import replace
from typing import Any

import pytest

from cotenant.records import Recording
from cotenant.report.page.html import packed, render
from tests.report.pages import TEMPLATE, data_of, page_of, unpacked
from tests.verdict.recordings import Builder, S, good_run

HOSTILE = (
    "</script><script>alert(1)</script><!--<script>\u2028\u2029'\"><img src=x onerror=alert(2)>&lt;\udcff"
)


class Reader(html.parser.HTMLParser):
    """Every element and attribute of a page, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._inside = tag == "script" and dict(attrs).get("type") is None

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def hostile_run() -> Recording:
    """The same text in every place that a user, a file or a service fills freely (names of a scenario are
    letters and digits)."""
    builder = good_run(utterances=3, late_ms=900.0, share=0.5)
    text = HOSTILE.replace("\udcff", "")
    builder.scenario["about"] = text
    builder.scenario["tenants"]["llm"]["model"] = text
    builder.scenario["load"]["voices"]["text"] = [text] * 12
    for row in builder.rows["streams"][:4]:
        row |= {"end": "error", "error_kind": text, "error": text, "tenant": text}
    builder.rows["streams"][-1] |= {"end": text}
    builder.fault(text, 12 * S)
    builder.rows["gpu"].append(
        {"t0": 11 * S, "t1": 12 * S, "gpu": text, "metric": text, "value": 1.0, "status": "ok"}
    )
    builder.rows["host"].append({"t": 12 * S, "source": text, "metric": "rss_bytes", "value": 1.0})
    builder.rows["engine"].append({"t": 12 * S, "tenant": text, "metric": text, "value": 1.0})
    builder.rows["canary"].append({"t": 12 * S, "latency": 1000, "device": text})
    recording = builder.build()
    told = {
        "run_id": text,
        "status": text,
        "error": text,
        "device": {"kind": "gpu", "name": text},
        "versions": {text: text},
    }
    return replace(recording, manifest={**recording.manifest, **told})


def test_the_same_run_gives_the_same_bytes() -> None:
    first, second = (page_of(good_run(utterances=3).build()) for _ in range(2))
    assert first == second


def test_the_data_comes_back_whole() -> None:
    recording = good_run(utterances=3, late_ms=900.0, share=0.5).build()
    assert unpacked(page_of(recording)) == data_of(recording)


def test_hostile_text_is_text() -> None:
    page = page_of(hostile_run())
    plain = read(page_of(good_run(utterances=3, late_ms=900.0, share=0.5).build()))
    found = read(page)
    assert set(found.tags) <= set(plain.tags)
    assert found.tags.count("script") == plain.tags.count("script") == 3
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert HOSTILE[:20] not in page
    assert "\u2028" not in re.sub(r"<(section|title).*?</\1>", "", page, flags=re.DOTALL)
    data = unpacked(page)
    assert data["run"]["device"] == data["run"]["about"] == HOSTILE.replace("\udcff", "")
    assert HOSTILE.replace("\udcff", "") in [entry["error"] for entry in data["utterances"]]


def test_lone_surrogates_of_a_run_id_do_not_stop_the_page() -> None:
    builder = good_run(utterances=2)
    recording = builder.build()
    recording = replace(recording, manifest={**recording.manifest, "run_id": HOSTILE})
    assert page_of(recording).encode("utf-8")


def test_only_the_scripts_of_the_page_may_run() -> None:
    page = page_of(good_run(utterances=2).build())
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    policy = dict(part.strip().split(" ", 1) for part in found[1].replace("&#x27;", "'").split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in read(page).scripts
    ]
    assert policy["script-src"].split() == hashes
    assert "unsafe-eval" not in found[1]
    assert "unsafe-inline" not in policy["script-src"]
    assert page.index("Content-Security-Policy") < page.index("<style>") < page.index("<script")


def test_a_script_cannot_end_its_own_element() -> None:
    script = 'let a = "</script><!-- <script>"; let b = /<\\/SCRIPT/i;\r\n'
    template = replace(TEMPLATE, files={**TEMPLATE.files, "page.js": script})
    page = render(template, title="t", fallback="", data={})
    assert len(read(page).scripts) == 2
    assert page.count("</script>") == 3
    assert '"\\x3c/script>\\x3c!-- <script>"' in page


def test_a_style_cannot_end_its_own_element() -> None:
    template = replace(TEMPLATE, files={**TEMPLATE.files, "page.css": 'a::after { content: "</style><b>" }'})
    assert "b" not in read(render(template, title="t", fallback="", data={})).tags


@pytest.mark.parametrize(
    "place", ["<!--cotenant:nothing-->", "<!--cotenant:script gone.js-->", "<!--cotenant:style-->"]
)
def test_a_template_that_asks_for_what_is_not_there_is_a_fault(place: str) -> None:
    with pytest.raises(ValueError, match="template"):
        render(replace(TEMPLATE, page=place), title="t", fallback="", data={})


def test_text_of_the_data_is_no_place_of_the_template() -> None:
    page = render(TEMPLATE, title="<!--cotenant:plotly-->", fallback="<!--cotenant:data-->", data={"a": 1})
    assert page.count("window.Plotly") == 1
    assert page.count('id="data"') == 1


def test_data_without_a_number_is_a_fault() -> None:
    with pytest.raises(ValueError, match="JSON"):
        packed({"x": float("nan")})


def test_without_scripts_verdict_table_and_gates_are_there() -> None:
    recording = good_run(utterances=3, late_ms=900.0, share=0.5).build()
    page, data = page_of(recording), data_of(recording)
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert f">{data['console']['verdict_word']}</h1>" in text
    for stage in data["summary"]["stages"]:
        assert f'<tr data-stage="{stage["name"]}"><th scope="row">{stage["name"]}</th>' in text
    gates: list[Any] = [gate for stage in data["summary"]["stages"] for gate in stage["gates"]]
    assert text.count("data-gate=") == len(gates) > 3
    assert text.count('class="verdict-fail"') == sum(
        [gate["verdict"] == "fail" for gate in gates]
        + [stage["verdict"] == "fail" for stage in data["summary"]["stages"]]
    )


def test_without_scripts_the_reason_stands_in_the_banner_too() -> None:
    recording = good_run(utterances=3, late_ms=900.0, share=0.5).build()
    page, console = page_of(recording), data_of(recording)["console"]
    assert console["first_why"]
    before, after = page.split('<p class="first-cause"><span class="label">why</span> ')
    assert before.index("<h1") < before.index('class="sentence"')
    assert html.unescape(after.split("</p>")[0]) == console["first_why"]
    for name in ("why", "mend", "notes"):
        assert f"<dt>{name}</dt>" in after or not console[name]


def test_of_a_run_that_could_not_run_the_banner_says_why() -> None:
    recording = Builder(status="failed").build()
    error = "all 2 warm-up requests failed: HTTP 401"
    page = page_of(replace(recording, manifest={**recording.manifest, "error": error}))
    assert '<h1 class="verdict verdict-could-not-run">COULD NOT RUN</h1>' in page
    assert '<p class="sentence">all 2 warm-up requests failed: HTTP 401</p>' in page
    data = unpacked(page)
    assert data["what_if"] is None
    assert data["console"]["first_why"] is None
