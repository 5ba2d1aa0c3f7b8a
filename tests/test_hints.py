"""Every kind of failure has a hint, one line, in one place; and notes tell it."""

from typing import Any

import pytest

from cotenant.errors import HINTS, hint_of
from cotenant.records import ERROR_KINDS
from cotenant.report.notes import notes


def test_every_kind_has_one_line() -> None:
    assert set(HINTS) == set(ERROR_KINDS)
    assert all("\n" not in hint and 20 < len(hint) < 160 for hint in HINTS.values())


def test_the_notes_tell_the_hint_of_what_happened_most() -> None:
    llm = {"failed": 3, "errors": {"timeout": 1, "unauthorized": 2}}
    stage = {
        "name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [],
        "llm": {"decode": llm},
        "face": {"streams": 5, "failed": 2, "errors": {"truncated": 2}},
        "speech": {"streams": 4, "failed": 1, "errors": {"rate_limited": 1}, "delayed": 0},
    }  # fmt: skip
    summary = {
        "device": "gpu", "status": "complete", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    found = notes(summary)
    assert f"all: 3 requests of decode failed (timeout 1, unauthorized 2); {HINTS['unauthorized']}" in found
    assert f"all: 2 of 5 clips failed (truncated 2); {HINTS['truncated']}" in found
    assert f"all: 1 of 4 utterances failed (rate_limited 1); {HINTS['rate_limited']}" in found


@pytest.mark.parametrize("error", ERROR_KINDS)
@pytest.mark.parametrize("kind", ["speech", "face", "llm"])
def test_each_kind_of_failure_is_told_with_its_hint_for_each_kind_of_service(kind: str, error: str) -> None:
    failed = {"streams": 4, "failed": 2, "errors": {error: 2}, "delayed": 0}
    part = {"llm": {"asked": failed}} if kind == "llm" else {kind: failed}
    stage = {"name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [], **part}
    summary = {
        "device": "gpu", "status": "complete", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    (line,) = (line for line in notes(summary) if f"failed ({error} 2)" in line)
    assert line.endswith(HINTS[error])


@pytest.mark.parametrize("engine", ["builtin", "launch", "attach"])
@pytest.mark.parametrize("kind", ["voices", "faces", "completions"])
def test_a_server_that_the_run_itself_started_has_ended_where_it_refuses(kind: str, engine: str) -> None:
    failed = {"streams": 4, "failed": 2, "errors": {"refused": 2}, "delayed": 0}
    parts: dict[str, dict[str, Any]] = {
        "voices": {"speech": failed}, "faces": {"face": failed}, "completions": {"llm": {"asked": failed}},
    }  # fmt: skip
    stage = {
        "name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [], **parts[kind],
    }  # fmt: skip
    summary = {
        "device": "gpu", "status": "failed", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    other = {"tenant": "far", "kind": "voices" if kind != "voices" else "faces"}
    scenario = {
        "tenants": {"near": {"engine": engine}, "far": {"engine": "attach"}},
        "load": {"asked": {"tenant": "near", "kind": kind}, "other": other},
        "stages": [{"name": "alone", "load": ["other"]}, {"name": "all", "load": ["asked", "other"]}],
    }
    line = next(line for line in notes(summary, {"scenario": scenario}) if "failed (refused 2)" in line)
    ended = "the server of near, which the run itself started, has ended: see logs/near*.log"
    assert line.endswith(HINTS["refused"] if engine == "attach" else ended)
    unknown = next(line for line in notes(summary) if "failed (refused 2)" in line)
    assert unknown.endswith(HINTS["refused"])


def test_only_a_refusal_tells_of_an_end() -> None:
    assert hint_of("timeout", ["tts"]) == HINTS["timeout"]
    assert hint_of("refused") == HINTS["refused"]
    assert hint_of("no such kind", ["tts"]) == ""
