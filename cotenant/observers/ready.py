"""What an observer's log tells: its line of JSON once it is ready or has given up, and what it said last.
Pure."""

import json
from typing import Any, Final

_LONGEST: Final = 300


def report(log_text: str) -> dict[str, Any]:
    """The log of an observer that says when it is ready, as the manifest keeps it.

    `ready` is None where it has said nothing yet. With it go the keys of its line: `kind`, `message` and
    `advice` of one that gave up, `notes` ({kind, text, advice} each) and what else one that works tells;
    `said`, where there is one, is the last line that is no JSON (why it ended).
    """
    told: dict[str, Any] = {"ready": None}
    said = ""
    for line in log_text.splitlines():
        fields = _fields(line)
        if fields is not None:
            told = fields
        elif line.strip():
            said = line.strip()
    return {**told, "said": said[:_LONGEST]} if said else told


def sentences(name: str, told: dict[str, Any]) -> list[str]:
    """A report in words, for the start of a run: why there is none, or what cannot be trusted here."""
    if told["ready"] is False:
        return [f"{name}: {told.get('message', 'it did not start')}; {told.get('advice', 'see its log')}"]
    notes = told.get("notes") or []
    return [": ".join((name, "; ".join(filter(None, (note["text"], note["advice"]))))) for note in notes]


def _fields(line: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("ready"), bool) else None
