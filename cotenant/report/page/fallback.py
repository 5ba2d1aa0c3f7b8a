"""What stands in the page without any script: verdict, notes, the table of stages, the gates."""

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.report.gate_words import sentence, title
from cotenant.report.page.html import escape
from cotenant.report.table import COLUMNS, verdict_word
from cotenant.report.text import safe

Entry = Mapping[str, Any]


def render(summary: Entry, console: Entry) -> str:
    """The sections as HTML; everything in them is escaped. `console`: as in the page's data."""
    return "\n".join([_verdict(console), stages_table(summary, "stages", "Stages"), _gates(summary)]) + "\n"


def _verdict(console: Entry) -> str:
    word = str(console["verdict_word"])
    kind = word.lower().replace(" ", "-")
    first = console["first_why"]
    why = f'<p class="first-cause"><span class="label">why</span> {escape(first)}</p>' if first else ""
    reasons = "".join(
        f"<dt>{name}</dt><dd><ul>{''.join(f'<li>{escape(text)}</li>' for text in console[name])}</ul></dd>"
        for name in ("why", "mend", "notes")
        if console[name]
    )
    return (
        f'<section id="verdict"><h1 class="verdict verdict-{escape(kind)}">{escape(word)}</h1>'
        f'<p class="sentence">{escape(console["verdict_sentence"])}</p>{why}'
        f'<p class="heading">{escape(console["heading"])}</p>'
        + (f'<dl class="reasons">{reasons}</dl></section>' if reasons else "</section>")
    )


def stages_table(summary: Entry, name: str, caption: str) -> str:
    """The table of stages as the terminal has it, every column."""
    heads = ["stage", *(column.heading for column in COLUMNS), "verdict"]
    rows = []
    for stage in summary["stages"]:
        word = verdict_word(stage)
        cells = "".join(f'<td class="num">{escape(column.cell(stage))}</td>' for column in COLUMNS)
        kind = "invalid" if stage["validity"] == "invalid" else str(stage["verdict"])
        rows.append(
            f'<tr data-stage="{escape(stage["name"])}"><th scope="row">{escape(safe(stage["name"], 80))}</th>'
            f'{cells}<td class="verdict-{escape(kind)}">{escape(word)}</td></tr>'
        )
    return table(name, caption, heads, rows)


def _gates(summary: Entry) -> str:
    rows = []
    for stage in summary["stages"]:
        for gate in stage["gates"]:
            level = " (warning)" if gate["level"] == "warn" else ""
            rows.append(
                f'<tr data-stage="{escape(stage["name"])}" data-gate="{escape(gate["metric"])}">'
                f'<th scope="row">{escape(safe(stage["name"], 80))}</th><td>{escape(title(gate))}</td>'
                f"<td>{escape(sentence(gate))}</td>"
                f'<td class="verdict-{escape(gate["verdict"])}">{escape(str(gate["verdict"]).upper())}'
                f"{level}</td></tr>"
            )
    if not rows:
        return '<section id="gates"><h2>Gates</h2><p>No gate was judged.</p></section>'
    return table("gates", "Gates", ["stage", "gate", "found", "verdict"], rows)


def table(name: str, caption: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    """A section with a table; `heads` and `caption` are text, `rows` is HTML."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    return (
        f'<section id="{name}"><h2>{escape(caption)}</h2><div class="scroll"><table class="data">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )
