"""Two compared runs for people: what changed, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.report.gate_words import interval_text, number_of, number_text
from cotenant.report.table import GAP, pad
from cotenant.report.text import counted, safe

_HEADER: Final = ("stage", "metric", "A", "B", "difference", "interval", "")
_WORDS: Final = {"regression": "WORSE", "improvement": "better", "inconclusive": "?", "same": ""}
_CHANGES: Final = ("regression", "improvement")


def render(comparison: Mapping[str, Any]) -> str:
    """The object of `compare --json` as text: what changed or could not be told; the rest is counted."""
    stages = comparison["stages"]
    by_value = comparison["decision"] == "point"
    rows = [
        _row(stage["name"], entry, by_value) for stage in stages for entry in stage["metrics"] if _told(entry)
    ]
    same = sum(not _told(entry) for stage in stages for entry in stage["metrics"])
    lines = [f"A  {_about(comparison['a'])}", f"B  {_about(comparison['b'])}"]
    lines += [f"!  {safe(text)}" for text in (*comparison["why"].values(), *comparison["caveats"])]
    for stage in stages:
        if "verdict" in stage["why"]:
            lines.append(f"!  {safe(stage['name'], 40)}: {safe(stage['why']['verdict'])}")
    for key, name in (("only_in_a", "A"), ("only_in_b", "B")):
        if comparison[key]:
            lines.append(f"!  only {name} has {safe(', '.join(comparison[key]))}")
    if rows:
        lines += ["", *_table([_HEADER, *rows])]
    if same:
        within = "" if by_value else f"{'its interval' if same == 1 else 'their intervals'} and "
        are = f"{counted(same, 'metric')} {'is' if same == 1 else 'are'}"
        lines += ["", f"{are} the same within {within}the least difference that matters"]
    return "\n".join([*lines, "", verdict_line(comparison)]) + "\n"


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


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        GAP.join(pad(cell, widths[at], right=1 < at < last) for at, cell in enumerate(row)).rstrip()
        for row in rows
    ]
