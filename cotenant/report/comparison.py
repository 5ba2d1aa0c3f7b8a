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
_LOOKS: Final = {"regression": "looks worse", "improvement": "looks better"}


def render(comparison: Mapping[str, Any], width: int | None = None) -> str:
    """The object of `compare --json` as text: what changed or could not be told; the rest is counted.

    Folded to `width` columns; None: a row of the table is a line, however long.
    """
    stages = comparison["stages"]
    by_value = comparison["decision"] == "point"
    rows = [
        _row(stage["name"], entry, by_value) for stage in stages for entry in stage["metrics"] if _told(entry)
    ]
    rest = list(_rest([entry for stage in stages for entry in stage["metrics"] if not _told(entry)]))
    lines = folded(_about(comparison["a"]), width, "A  ") + folded(_about(comparison["b"]), width, "B  ")
    for text in _remarks(comparison):
        lines += folded(text, width, "!  ")
    if rows:
        lines += ["", *_table([_HEADER, *rows], width)]
    lines += [""] if rest else []
    for text in rest:
        lines += folded(text, width)
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
    which is said where that leaves the difference in doubt, as a value is that the interval left open."""
    if entry["verdict"] is None:
        return safe(entry["why"]["verdict"], 100)
    if entry["verdict"] not in _CHANGES and (looks := _LOOKS.get(str(entry.get("by_value")))):
        return f"{looks}, no interval confirms it"
    doubt = by_value and entry["verdict"] in _CHANGES and _may_be_zero(entry)
    return words[entry["verdict"]] + (" by its value alone" if doubt else "")


def _may_be_zero(entry: Mapping[str, Any]) -> bool:
    """Whether the interval of the difference holds zero, or does not end before it."""
    low, high = number_of(entry, "low"), number_of(entry, "high")
    return not ((low is not None and low > 0) or (high is not None and high < 0))


def _told(entry: Mapping[str, Any]) -> bool:
    return bool(entry["verdict"] != "same")


def _rest(alike: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the table leaves out: metrics that are the same, and those whose values differ by more than that
    where the interval, which decides, does not say so."""
    better, worse = _by_value(alike, "improvement"), _by_value(alike, "regression")
    if same := len(alike) - better - worse:
        are = "metric is" if same == 1 else "metrics are"
        yield f"{same} {are} the same within the least difference that matters"
    looks = [(count, how) for count, how in ((better, "better"), (worse, "worse")) if count]
    if looks:
        told = " and ".join(f"{counted(count, 'metric')} {_look(count)} {how}" for count, how in looks)
        one = better + worse == 1
        yield f"{told} by {'its value' if one else 'their values'}, which no interval confirms"


def _by_value(entries: Sequence[Mapping[str, Any]], word: str) -> int:
    return sum(entry["verdict"] is not None and entry.get("by_value") == word for entry in entries)


def _look(count: int) -> str:
    return "looks" if count == 1 else "look"


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
    said = {"fail": _worse, "pass": _no_worse, "inconclusive": _unclear}[comparison["verdict"]]
    return f"{said(comparison, entries)} ({how}, {decided})"


def _worse(comparison: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    worse = [entry for entry in entries if entry["verdict"] == "regression"]
    doubtful = sum(map(_may_be_zero, worse)) if comparison["decision"] == "point" else 0
    said = f"WORSE   {counted(len(worse), 'metric')} of B"
    if doubtful == len(worse):
        alone = "its value" if doubtful == 1 else "their values"
        said += f", by {alone} alone: no interval confirms {'it' if doubtful == 1 else 'one'}"
    elif doubtful:
        said += f", {doubtful} of them by {'its value' if doubtful == 1 else 'their values'} alone"
    better = _by_value(entries, "improvement")
    return said + (f"; {better} {_look(better)} better" if better else "")


def _no_worse(_: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    better = _better(entries)
    return "OK      B is not worse than A" + (f"; it {better}" if better else "")


def _unclear(comparison: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    better, worse = _by_value(entries, "improvement"), _by_value(entries, "regression")
    said = []
    if better:
        said.append(f"B looks better in {counted(better, 'metric')}, worse in {worse or 'none'}")
    elif worse:
        said.append(f"B looks worse in {counted(worse, 'metric')}")
    else:
        said.append("nothing is known to be worse")
    if alone := better + worse - _proven(entries):
        said.append(f"no interval confirms {'it' if alone == better + worse else f'{alone} of these'}")
    if open_ := sum(entry["verdict"] == "inconclusive" and not entry.get("by_value") for entry in entries):
        said.append(f"{counted(open_, 'metric')} could not be told")
    if stages := [safe(stage["name"], 40) for stage in comparison["stages"] if "verdict" in stage["why"]]:
        said.append(f"{', '.join(stages)} could not be compared")
    if only := comparison["only_in_a"]:
        said.append(f"B has no {safe(', '.join(only))}")
    if not entries and not stages and not only:
        said.append("nothing could be compared")
    return "UNCLEAR " + "; ".join(said)


def _better(entries: Sequence[Mapping[str, Any]]) -> str:
    """`looks better in 24 metrics, by their values alone`; `""` where it does in none."""
    better, proven = _by_value(entries, "improvement"), _proven(entries)
    if not better or better == proven:
        return f"is better in {counted(better, 'metric')}" if better else ""
    alone = "by its value alone" if better == 1 else "by their values alone"
    return f"looks better in {counted(better, 'metric')}, {f'{better - proven} ' if proven else ''}{alone}"


def _proven(entries: Sequence[Mapping[str, Any]]) -> int:
    """How many are better beyond their interval."""
    better = [
        entry for entry in entries if entry["verdict"] is not None and entry.get("by_value") == "improvement"
    ]
    return sum(not _may_be_zero(entry) for entry in better)


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
