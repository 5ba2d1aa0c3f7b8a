"""Two compared runs for people: what changed, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.report.gate_words import interval_text, number_of, number_text
from cotenant.report.table import GAP, pad
from cotenant.report.text import counted, safe

_HEADER: Final = ("stage", "metric", "A", "B", "difference", "interval", "")
_WORDS: Final = {"regression": "WORSE", "improvement": "better", "inconclusive": "?", "same": ""}


def render(comparison: Mapping[str, Any]) -> str:
    """The object of `compare --json` as text: what changed or could not be told; the rest is counted."""
    stages = comparison["stages"]
    rows = [_row(stage["name"], entry) for stage in stages for entry in stage["metrics"] if _told(entry)]
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
        lines += [
            "",
            f"{counted(same, 'metric')} {'is' if same == 1 else 'are'} the same within "
            f"{'its interval' if same == 1 else 'their intervals'} and the least difference that matters",
        ]
    return "\n".join([*lines, "", verdict_line(comparison)]) + "\n"


def verdict_text(entry: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The verdict on a metric in these words, or why there is none."""
    return words[entry["verdict"]] if entry["verdict"] is not None else safe(entry["why"]["verdict"], 100)


def _told(entry: Mapping[str, Any]) -> bool:
    return bool(entry["verdict"] != "same")


def _about(run: Mapping[str, Any]) -> str:
    return f"{safe(run['run_id'], 80)} ({safe(run['scenario'], 40)})"


def _row(stage: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    metric = str(entry["metric"])
    return (
        safe(stage, 40),
        safe(metric, 60),
        number_text(metric, number_of(entry, "a")),
        number_text(metric, number_of(entry, "b")),
        number_text(metric, number_of(entry, "difference"), signed=True),
        interval_text(metric, entry),
        verdict_text(entry, _WORDS),
    )


def verdict_line(comparison: Mapping[str, Any]) -> str:
    """The verdict in one word and what it rests on."""
    pairs = sum(stage["pairs"] or 0 for stage in comparison["stages"])
    how = f"{counted(pairs, 'utterance')} paired" if comparison["paired"] else "not paired"
    decided = "point estimates" if comparison["decision"] == "point" else "95 % intervals"
    worse = sum(e["verdict"] == "regression" for stage in comparison["stages"] for e in stage["metrics"])
    said = {
        "fail": f"WORSE   {counted(worse, 'metric')} of B",
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
