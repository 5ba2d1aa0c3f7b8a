"""Pages of recordings built by hand, and their data read back as a browser reads it."""

import base64
import gzip
import json
import re
from typing import Any

from cotenant.records import Recording
from cotenant.report.page.base import read_base
from cotenant.report.page.data import page_data
from cotenant.report.page.fallback import render as render_fallback
from cotenant.report.page.html import Template, render
from cotenant.report.page.utterances import MOST_CHUNKS, Extras
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge

TEMPLATE = Template(
    page="""<!doctype html><html><head><meta charset="utf-8"><!--cotenant:csp-->
<title><!--cotenant:title--></title><!--cotenant:style page.css--></head><body>
<!--cotenant:fallback--><!--cotenant:data--><!--cotenant:plotly--><!--cotenant:script page.js--></body></html>
""",
    files={"page.css": "body { color: black }", "page.js": "console.log(1)"},
    plotly="window.Plotly = {}",
)
NOTHING = Extras(audio={}, texts={})


def data_of(
    recording: Recording, extras: Extras = NOTHING, *, positions: int = 9, **options: Any
) -> dict[str, Any]:
    """The data of the page as it is made, through JSON."""
    judging = JudgeOptions(**options)
    summary = judge(recording, judging)
    data = page_data(recording, judging, summary, read_base(recording, judging), extras, positions=positions)
    found: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    return found


def page_of(recording: Recording, template: Template = TEMPLATE) -> str:
    """The page's HTML."""
    data = data_of(recording)
    title = f"{data['console']['verdict_word']}: {data['run']['scenario']}"
    return render(
        template, title=title, fallback=render_fallback(data["summary"], data["console"]), data=data
    )


def unpacked(page: str) -> dict[str, Any]:
    """The data that a page holds."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    outer = json.loads(found[1])
    assert outer["encoding"] == "gzip+base64"
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(outer["data"])))
    return data


__all__ = ["MOST_CHUNKS", "NOTHING", "TEMPLATE", "data_of", "page_of", "unpacked"]
