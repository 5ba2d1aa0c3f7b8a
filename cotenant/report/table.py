"""The table of stages, wide or one stage under the other, aligned by hand so that no markup is ever read."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.report.text import not_measured, number, safe, stalled_text
from cotenant.units import format_ms, format_share

Entry = Mapping[str, Any]
GAP: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its heading, its cell, and its rank: the highest ranks are left out first where room is
    short."""

    heading: str
    cell: Callable[[Entry], str]
    rank: int


def _ms(path: str, *, signed: bool = False) -> Callable[[Entry], str]:
    return lambda entry: format_ms(number(entry, path), signed=signed)


def _plain(path: str) -> Callable[[Entry], str]:
    def cell(entry: Entry) -> str:
        value = number(entry, path)
        return "-" if value is None else f"{value:.0f}"

    return cell


def tokens_per_s(entry: Entry) -> float | None:
    """All tokens of all the stage's LLM loads, a second."""
    loads = entry.get("llm", {})
    values = [load["tokens_per_s"] for load in loads.values() if load.get("tokens_per_s") is not None]
    return sum(values) if values else None


def _tokens(entry: Entry) -> str:
    value = tokens_per_s(entry)
    return "-" if value is None else f"{value:.1f}"


def verdict_word(entry: Entry) -> str:
    """PASS, FAIL or INCONCLUSIVE; INVALID alone where what the gates say does not count, `no gate` where none
    was asked of the stage, `not measured` where nothing was."""
    if not_measured(entry):
        return "not measured"
    if entry["validity"] == "invalid":
        return "INVALID"
    return str(entry["verdict"]).upper() if entry["verdict"] != "pass" or entry["gates"] else "no gate"


COLUMNS: Final[Sequence[Column]] = (
    Column(heading="TTFA p95", cell=_ms("speech.ttfa_ms.p95"), rank=2),
    Column(heading="playback p95", cell=_ms("speech.time_to_playback_ms.p95"), rank=6),
    Column(heading="gap p99", cell=_ms("speech.chunk_gap_ms.p99"), rank=7),
    Column(heading="underruns", cell=_plain("speech.underruns"), rank=5),
    Column(heading="stalled", cell=stalled_text, rank=8),
    Column(heading="clean", cell=lambda entry: format_share(number(entry, "speech.clean_share")), rank=1),
    Column(heading="headroom p5", cell=_ms("speech.headroom_ms.p5", signed=True), rank=4),
    Column(heading="fps p5", cell=_plain("face.fps_p5"), rank=3),
    Column(heading="LLM tok/s", cell=_tokens, rank=9),
)


def table_lines(stages: Sequence[Entry], width: int) -> list[str]:
    """The table within `width` columns: less important columns go first, then each stage gets lines of its
    own."""
    if width >= 80:
        for fewest in range(len(COLUMNS), 4, -1):
            chosen = [column for column in COLUMNS if column.rank <= fewest]
            lines = _grid(stages, chosen)
            if max(map(display_width, lines)) <= width:
                return [*lines, *_left_out(fewest)]
    return _stacked(stages, width)


def _left_out(fewest: int) -> list[str]:
    gone = [column.heading for column in COLUMNS if column.rank > fewest]
    return [f"(wider terminals also show {', '.join(gone)})"] if gone else []


def _grid(stages: Sequence[Entry], columns: Sequence[Column]) -> list[str]:
    heads = ["stage", *(column.heading for column in columns), "verdict"]
    rows = [
        [safe(stage["name"], 40), *(column.cell(stage) for column in columns), verdict_word(stage)]
        for stage in stages
    ]
    return grid([heads, *rows], left=(0, len(heads) - 1))


def grid(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    """Rows of cells as lines, the columns aligned to the right but for those in `left`."""
    widths = [max(display_width(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [pad(cell, widths[index], right=index not in left) for index, cell in enumerate(row)]
        lines.append(GAP.join(cells).rstrip())
    return lines


def _stacked(stages: Sequence[Entry], width: int) -> list[str]:
    lines: list[str] = []
    for stage in stages:
        word = verdict_word(stage)
        name = safe(stage["name"], max(8, width - len(word) - 2))
        lines.append(f"{pad(name, max(8, width - len(word) - 2), right=False)}{GAP}{word}")
        line = " "
        for column in COLUMNS:
            cell = column.cell(stage)
            if cell == "-":
                continue
            piece = f" {column.heading} {cell}"
            if len(line) + len(piece) + 1 > width and line.strip():
                lines.append(line.rstrip(","))
                line = " "
            line += piece + ","
        lines.append(line.rstrip(","))
    return lines


def display_width(text: str) -> int:
    """Terminal columns: wide East Asian characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def pad(text: str, width: int, *, right: bool) -> str:
    """`text` filled up with spaces to so many terminal columns."""
    room = " " * max(0, width - display_width(text))
    return room + text if right else text + room
