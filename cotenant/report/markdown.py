"""A judged run as Markdown for a pull request or a job's summary: the verdict first, always under 60 KiB."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cotenant.report.gate_words import number_of, number_text, sentence, title
from cotenant.report.notes import notes
from cotenant.report.table import COLUMNS, verdict_word
from cotenant.report.text import could_not_run, error_text, run_word, safe
from cotenant.report.why import first_cause
from cotenant.units import counted, format_ms

LIMIT_BYTES: Final = 60 * 1024
# Kept for what closes the text: the sentence about what was left out and the end of a block.
_RESERVE_BYTES: Final = 1024
# The table of stages leaves this to the gates.
_FOR_GATES_BYTES: Final = 16 * 1024
_NAME_LENGTH: Final = 80
_TEXT_LENGTH: Final = 300
_CAUSE_LENGTH: Final = 600
_ERROR_LENGTH: Final = 900
_TOP_GATES: Final = 8
# An underscore within a word and a single colon are no markup.
_SPECIAL: Final = re.compile(r"[\\`*\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)")
_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Found in the rendered text, where an entity does not help: people, issues, hosts.
_FOUND_LATER: Final = re.compile(r"@|#(?=\d)|\bwww(?=\.)|\bGH(?=-\d)", re.IGNORECASE)
_ORDER: Final = {"fail": 0, "inconclusive": 1}

_STAGE_HEADER: Final = ("stage", *(column.heading for column in COLUMNS), "verdict")

_Stage = Mapping[str, Any]


def render(summary: Mapping[str, Any], manifest: Mapping[str, Any] | None = None) -> str:
    """The Markdown text, less than 60 KiB of UTF-8; what did not fit is said. Names are shown as they are,
    never as markup, links or mentions."""
    text = _Text()
    text.add(_head(summary))
    if could_not_run(summary):
        # Gates that nothing was measured for are no findings.
        _notes(text, summary, manifest)
        return text.text()
    text.add(_worst_gates(summary["stages"]))
    stages = summary["stages"]
    shown = text.table(_STAGE_HEADER, [_stage_row(stage) for stage in stages], keep_bytes=_FOR_GATES_BYTES)
    _left_out(text, len(stages) - shown, "stage")
    gates = [(stage, gate) for stage in stages for gate in stage["gates"]]
    text.close(f"<details><summary>{counted(len(gates), 'gate')}</summary>\n\n")
    # Where not all fit, those that did not pass come first.
    rows = [_gate_row(stage, gate) for stage, gate in gates]
    if not text.fits(rows):
        gates.sort(key=lambda pair: _ORDER.get(str(pair[1]["verdict"]), 2))
        rows = [_gate_row(stage, gate) for stage, gate in gates]
    shown = text.table(("stage", "gate", "found", "verdict"), rows)
    _left_out(text, len(gates) - shown, "gate")
    text.close("</details>\n")
    _notes(text, summary, manifest)
    return text.text()


def _notes(text: "_Text", summary: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> None:
    if told := notes(summary, manifest):
        text.close(f"\n<details><summary>{counted(len(told), 'note')}</summary>\n\n")
        shown = sum(text.add(f"- {escape(note, _TEXT_LENGTH)}\n") for note in told)
        text.close("\n")
        _left_out(text, len(told) - shown, "note")
        text.close("</details>\n")


class _Text:
    """Text that grows up to a number of bytes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = LIMIT_BYTES - _RESERVE_BYTES

    def add(self, part: str) -> bool:
        """Adds a part if it fits."""
        size = len(part.encode())
        if size > self._left:
            return False
        self._left -= size
        self._parts.append(part)
        return True

    def close(self, part: str) -> None:
        """Adds one of the few short parts that the reserve is for."""
        self._parts.append(part)

    def fits(self, parts: Iterable[str]) -> bool:
        return sum(len(part.encode()) for part in parts) <= self._left

    def table(self, header: Sequence[str], rows: Sequence[str], keep_bytes: int = 0) -> int:
        """Adds a table with as many rows as fit, `keep_bytes` being kept free; returns how many."""
        if not rows:
            return 0
        rule = "|".join("---" for _ in header)
        if not self.add(f"| {' | '.join(header)} |\n|{rule}|\n"):
            return 0
        for shown, row in enumerate(rows):
            if self._left < keep_bytes or not self.add(row):
                self.close("\n")
                return shown
        self.close("\n")
        return len(rows)

    def text(self) -> str:
        return "".join(self._parts)


def escape(text: object, length: int = _NAME_LENGTH) -> str:
    """Text as Markdown shows it literally: on one line, no markup, no HTML, no link, nobody mentioned."""
    line = safe(text, length)
    line = _FOUND_LATER.sub(lambda match: match[0] + "\N{ZERO WIDTH SPACE}", line)
    return _SPECIAL.sub(lambda match: _NAMED.get(match[0], f"&#{ord(match[0])};"), line)


def _head(summary: Mapping[str, Any]) -> str:
    lines = [f"## {run_word(summary)}: {escape(summary['scenario'])}\n"]
    player = summary["player"]
    facts = [
        f"lookahead {format_ms(summary['lookahead_ms'])} ({escape(player['start'])})",
        "point estimates" if summary["decision"] == "point" else "intervals",
        f"run {escape(summary['run_id'])}",
    ]
    if summary["status"] != "complete":
        facts.insert(0, f"**the run is not complete ({escape(summary['status'])})**")
    lines.append(", ".join(facts) + "\n")
    if error := error_text(summary):
        lines.append(f"- **{escape(error, _ERROR_LENGTH)}**")
    if could_not_run(summary):
        return "\n".join(lines) + "\n"
    for reason in [summary.get("verdict_because"), *summary["invalid_because"][:_TOP_GATES]]:
        if reason:
            lines.append(f"- {escape(reason, _TEXT_LENGTH)}")
    return "\n".join(lines).rstrip("\n") + "\n\n"


def _worst_gates(stages: Sequence[_Stage]) -> str:
    red = [
        (stage, gate)
        for verdict in _ORDER
        for stage in stages
        for gate in stage["gates"]
        if gate["verdict"] == verdict and gate.get("level") != "warn"
    ]
    red.sort(key=lambda pair: pair[0]["validity"] == "invalid")
    lines = [
        f"- **{_counting(stage, gate)}** {escape(stage['name'])}: {escape(title(gate), _TEXT_LENGTH)}; "
        f"{escape(sentence(gate), _TEXT_LENGTH)}"
        for stage, gate in red[:_TOP_GATES]
    ]
    if len(red) > _TOP_GATES:
        lines.append(f"- and {len(red) - _TOP_GATES} more, below")
    for stage in {stage["name"]: stage for stage, _ in red[:_TOP_GATES]}.values():
        if (cause := first_cause(stage)) is not None:
            lines.append(f"- why {escape(stage['name'])}: {escape(cause, _CAUSE_LENGTH)}")
    return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "")


def _counting(stage: _Stage, gate: Mapping[str, Any]) -> str:
    """What counts of a gate's verdict."""
    return "INVALID" if stage["validity"] == "invalid" else str(gate["verdict"]).upper()


def _left_out(text: _Text, count: int, what: str) -> None:
    if count > 0:
        were, them = ("was", "it") if count == 1 else ("were", "them all")
        left = f"{counted(count, what)} {were} left out to keep this under 60 KiB"
        text.close(f"{left}; summary.json has {them}.\n\n")


def _stage_row(stage: _Stage) -> str:
    cells = [escape(stage["name"]), *(column.cell(stage) for column in COLUMNS), f"**{verdict_word(stage)}**"]
    return f"| {' | '.join(cells)} |\n"


def _gate_row(stage: _Stage, gate: Mapping[str, Any]) -> str:
    found = number_text(str(gate["metric"]), number_of(gate, "value"))
    why = sentence(gate) if gate["verdict"] != "pass" or found == "-" else f"{found}, n = {gate.get('n', 0)}"
    level = " (warning)" if gate.get("level") == "warn" else ""
    cells = [
        escape(stage["name"]),
        escape(title(gate), _TEXT_LENGTH),
        escape(why, _TEXT_LENGTH),
        str(gate["verdict"]).upper() + level,
    ]
    return f"| {' | '.join(cells)} |\n"
