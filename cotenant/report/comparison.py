"""Two compared runs for people: what changed, stage by stage."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cotenant.report.fold import folded, folded_parts
from cotenant.report.gate_words import interval_text, number_of, number_text
from cotenant.report.table import GAP, display_width, pad
from cotenant.report.text import safe
from cotenant.units import counted

_HEADER: Final = ("stage", "metric", "A", "B", "difference", "interval", "")
_INTERVAL: Final = _HEADER.index("interval")
_UNDER_WORD: Final = " " * 8
_LEAST_ROOM: Final = 20
_WORDS: Final = {"regression": "WORSE", "improvement": "better", "inconclusive": "?", "same": ""}
_CHANGES: Final = ("regression", "improvement")


def render(comparison: Mapping[str, Any], width: int | None = None) -> str:
    """The object of `compare --json` as text: what changed or could not be told; the rest is counted.

    Folded to `width` columns; None: a row of the table is a line, however long.
    """
    stages = comparison["stages"]
    by_value = comparison["decision"] == "point"
    rows = [
        _row(stage["name"], entry, by_value) for stage in stages for entry in stage["metrics"] if _told(entry)
    ]
    same = sum(not _told(entry) for stage in stages for entry in stage["metrics"])
    lines = folded(_about(comparison["a"]), width, "A  ") + folded(_about(comparison["b"]), width, "B  ")
    for text in _remarks(comparison):
        lines += folded(text, width, "!  ")
    if rows:
        lines += ["", *_table([_HEADER, *rows], width)]
    if same:
        within = "" if by_value else f"{'its interval' if same == 1 else 'their intervals'} and "
        are = f"{counted(same, 'metric')} {'is' if same == 1 else 'are'}"
        text = f"{are} the same within {within}the least difference that matters"
        lines += ["", *folded(text, width)]
    return "\n".join([*lines, "", *folded(verdict_line(comparison), width, rest=_UNDER_WORD)]) + "\n"


def _remarks(comparison: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the comparison as a whole, or with a stage of it."""
    yield from map(safe, (*comparison["why"].values(), *comparison["caveats"]))
    for stage in comparison["stages"]:
        if "verdict" in stage["why"]:
            yield f"{safe(stage['name'], 40)}: {safe(stage['why']['verdict'])}"
    for key, name in (("only_in_a", "A"), ("only_in_b", "B")):
        if comparison[key]:
            yield f"only {name} has {safe(', '.join(comparison[key]))}"


def verdict_text(entry: Mapping[str, Any], words: Mapping[str, str], by_value: bool) -> str:
    """The verdict on a metric in these words, or why there is none; `by_value`: its interval was not asked,
    which is said where that leaves the difference in doubt."""
    if entry["verdict"] is None:
        return safe(entry["why"]["verdict"], 100)
    doubt = by_value and entry["verdict"] in _CHANGES and _may_be_zero(entry)
    return words[entry["verdict"]] + (" by its value alone" if doubt else "")


def _may_be_zero(entry: Mapping[str, Any]) -> bool:
    """Whether the interval of the difference holds zero, or does not end before it."""
    low, high = number_of(entry, "low"), number_of(entry, "high")
    return not ((low is not None and low > 0) or (high is not None and high < 0))


def _told(entry: Mapping[str, Any]) -> bool:
    return bool(entry["verdict"] != "same")


def _about(run: Mapping[str, Any]) -> str:
    return f"{safe(run['run_id'], 80)} ({safe(run['scenario'], 40)})"


def _row(stage: str, entry: Mapping[str, Any], by_value: bool) -> tuple[str, ...]:
    metric = str(entry["metric"])
    return (
        safe(stage, 40),
        safe(metric, 60),
        number_text(metric, number_of(entry, "a")),
        number_text(metric, number_of(entry, "b")),
        number_text(metric, number_of(entry, "difference"), signed=True),
        interval_text(metric, entry),
        verdict_text(entry, _WORDS, by_value),
    )


def verdict_line(comparison: Mapping[str, Any]) -> str:
    """The verdict in one word and what it rests on."""
    pairs = sum(stage["pairs"] or 0 for stage in comparison["stages"])
    how = f"{counted(pairs, 'utterance')} paired" if comparison["paired"] else "not paired"
    by_value = comparison["decision"] == "point"
    decided = "decided by point estimates" if by_value else "95 % intervals"
    entries = [entry for stage in comparison["stages"] for entry in stage["metrics"]]
    worse = [entry for entry in entries if entry["verdict"] == "regression"]
    doubtful = sum(map(_may_be_zero, worse)) if by_value else 0
    open_ = "the interval of 1 leaves" if doubtful == 1 else f"the intervals of {doubtful} leave"
    doubt = f"; {open_} it open" if doubtful else ""
    said = {
        "fail": f"WORSE   {counted(len(worse), 'metric')} of B{doubt}",
        "pass": "OK      B is not worse than A",
        "inconclusive": "UNCLEAR nothing is known to be worse, but not all could be compared",
    }[comparison["verdict"]]
    return f"{said} ({how}, {decided})"


def _table(all_rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """A line a row; where the words at its end are too long they are folded, else each metric has lines of
    its own."""
    # By values alone no interval was asked for.
    asked = any(row[_INTERVAL] != "-" for row in all_rows[1:])
    rows = [[cell for at, cell in enumerate(row) if asked or at != _INTERVAL] for row in all_rows]
    widths = [max(display_width(row[at]) for row in rows) for at in range(len(rows[0]))]
    last = len(widths) - 1
    before = sum(widths[:last]) + len(GAP) * last
    if width is not None and width - before < min(_LEAST_ROOM, widths[last]):
        return _stacked(all_rows[1:], width)
    lines: list[str] = []
    for row in rows:
        cells = [pad(cell, widths[at], right=at > 1) for at, cell in enumerate(row[:last])]
        lines += folded(row[last], width, GAP.join([*cells, ""]), " " * before)
    return lines


def _stacked(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Stage by stage: each metric with its verdict, below it the values."""
    lines: list[str] = []
    stage = ""
    for name, metric, *values, interval, word in rows:
        if name != stage:
            lines += folded(name, width)
        stage = name
        lines += folded(f"{metric}: {word}", width, "  ", "    ")
        parts = [f"{what} {value}" for what, value in zip(_HEADER[2:5], values, strict=True)]
        parts += [f"interval {interval}"] if interval != "-" else []
        lines += folded_parts(parts, width, "    ")
    return lines
