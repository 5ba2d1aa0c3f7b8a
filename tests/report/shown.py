"""What is printed of a recording that a test has made."""

from typing import Any

from cotenant.report.console import render
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import Builder


def shown(builder: Builder, width: int = 120, **options: Any) -> str:
    recording = builder.build()
    summary = judge(recording, JudgeOptions(**{"decision": "point", **options}))
    return render(summary, recording.manifest, width)
