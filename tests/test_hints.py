"""Every kind of failure has a hint, one line, in one place; and notes tell it."""

from cotenant.errors import HINTS
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
