"""The page of two runs: what of B is worse than A, both tables, and how their utterances are spread."""

from collections.abc import Mapping
from typing import Any

from cotenant.report import comparison as text
from cotenant.report.gate_words import interval_text, number_of, number_text
from cotenant.report.page.base import Base
from cotenant.report.page.data import VERSION, console_part, run_part
from cotenant.report.page.distributions import distributions
from cotenant.report.page.fallback import stages_table, table
from cotenant.report.page.html import escape
from cotenant.report.text import safe

Entry = Mapping[str, Any]
_CLASSES = {"regression": "fail", "improvement": "pass", "inconclusive": "inconclusive", "same": "none"}
_WORDS = {"regression": "WORSE", "improvement": "better", "inconclusive": "not known", "same": "same"}


def compare_data(comparison: Entry, a: tuple[Base, Entry], b: tuple[Base, Entry]) -> dict[str, Any]:
    """The data of the page; `a` and `b` are each a run and its summary."""
    spread = [distributions(base) for base, _ in (a, b)]
    return {
        "version": VERSION,
        "kind": "compare",
        "comparison": comparison,
        "verdict_sentence": text.verdict_line(comparison),
        "runs": {
            name: {
                "run": run_part(base, summary),
                "console": console_part(summary, base.recording.manifest),
                "summary": summary,
            }
            for name, (base, summary) in (("A", a), ("B", b))
        },
        "distributions": {
            metric: {
                stage: {name: found[metric].get(stage) for name, found in zip("AB", spread, strict=True)}
                for stage in dict.fromkeys([*spread[0][metric], *spread[1][metric]])
            }
            for metric in spread[0]
        },
    }


def fallback(data: Entry) -> str:
    """Everything but the plots, as HTML."""
    comparison, runs = data["comparison"], data["runs"]
    word, _, sentence = str(data["verdict_sentence"]).partition(" ")
    about = "".join(
        f"<li><strong>{name}</strong> {escape(one['run']['id'])}: {escape(one['console']['heading'])}; "
        f"{escape(one['console']['verdict_word'])}</li>"
        for name, one in runs.items()
    )
    said = [*comparison["why"].values(), *comparison["caveats"]]
    said += [f"{stage['name']}: {stage['why']['verdict']}" for stage in comparison["stages"] if stage["why"]]
    said += [f"only A has {stage}" for stage in comparison["only_in_a"]]
    said += [f"only B has {stage}" for stage in comparison["only_in_b"]]
    notes = "".join(f"<li>{escape(safe(one))}</li>" for one in said)
    kind = escape(comparison["verdict"])
    return "\n".join(
        [
            f'<section id="verdict"><h1 class="verdict verdict-{kind}">{escape(word)}</h1>'
            f'<p class="sentence">{escape(sentence.strip())}</p><ul class="runs">{about}</ul>'
            f'<ul class="notes">{notes}</ul></section>',
            _differences(comparison),
            *(
                stages_table(one["summary"], f"stages-{name.lower()}", f"Stages of {name}")
                for name, one in runs.items()
            ),
        ]
    )


def _differences(comparison: Entry) -> str:
    rows, by_value = [], comparison["decision"] == "point"
    for stage in comparison["stages"]:
        for entry in stage["metrics"]:
            metric = str(entry["metric"])
            cells = [
                metric,
                number_text(metric, number_of(entry, "a")),
                number_text(metric, number_of(entry, "b")),
                number_text(metric, number_of(entry, "difference"), signed=True),
                interval_text(metric, entry),
            ]
            shown = "".join(
                f'<td class="num">{escape(safe(cell, 80))}</td>' if number else f"<td>{escape(cell)}</td>"
                for number, cell in enumerate(cells)
            )
            rows.append(
                f'<tr data-stage="{escape(stage["name"])}" data-metric="{escape(metric)}">'
                f'<th scope="row">{escape(safe(stage["name"], 80))}</th>{shown}'
                f'<td class="verdict-{_CLASSES[entry["verdict"] or "same"]}">'
                f"{escape(text.verdict_text(entry, _WORDS, by_value))}</td></tr>"
            )
    if not rows:
        return '<section id="differences"><h2>Differences</h2><p>No metric has a value in both.</p></section>'
    heads = ["stage", "metric", "A", "B", "difference", "95 % interval", ""]
    return table("differences", "Differences", heads, rows)
