"""The pages of recorded runs, and pages around any data."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cotenant.cli.page_file import read_template, write_page
from cotenant.records import Recording
from cotenant.report.page.html import render
from cotenant.run_dir.reader import read
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge

# As much of plotly as the page's scripts call.
BLANK: Final = "window.Plotly = { react: (box) => { box.on = () => {}; }, relayout() {}, purge() {} };"


def page_of(run: Path) -> Path:
    """The run's page, as `cotenant report` writes it, beside the run."""
    recording = read(run)
    page = run.parent / f"{run.name}.html"
    write_page(run, recording, judge(recording, JudgeOptions()), JudgeOptions(), page, "--html")
    return page


def judged(run: Path, lookahead_ms: float | None = None) -> dict[str, Any]:
    recording: Recording = read(run)
    ns = None if lookahead_ms is None else round(lookahead_ms * 1e6)
    return judge(recording, JudgeOptions(lookahead_ns=ns))


def page_with(
    data: Mapping[str, Any], path: Path, fallback: str = "<p>fallback</p>", *, drawn: bool = True
) -> Path:
    """A page around any data: what no recording of a second could hold.

    Not `drawn`: its plots stay blank. A browser reads plotly for longer than it shows all the rest, and what
    is said beside the plots does without.
    """
    template = read_template("page.html")
    if not drawn:
        template = replace(template, plotly=BLANK)
    text = render(template, title="by hand", fallback=fallback, data=data)
    path.write_text(text, encoding="utf-8")
    return path


def data_of(page: Path) -> dict[str, Any]:
    """The data that a written page holds."""
    import base64
    import gzip
    import re

    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    packed = base64.b64decode(json.loads(found.group(1))["data"])
    return dict(json.loads(gzip.decompress(packed)))
