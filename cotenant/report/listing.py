"""What there is to choose from, as text in two columns: names, and what is said of them."""

from collections.abc import Mapping, Sequence
from typing import Final

from cotenant.report.fold import folded, longest_word
from cotenant.scenario.fields import Row, Section

_LEAST_ROOM: Final = 24
_NO_DEFAULT: Final = ("required", "not set")


def two_columns(rows: Mapping[str, str], width: int | None) -> list[str]:
    """Names and what is said of them in two columns; where a word would not fit there, one below the
    other."""
    column = max(len(name) for name in rows)
    room = None if width is None else width - column - 4
    if room is not None and room < max(_LEAST_ROOM, longest_word(list(rows.values()))):
        return [line for name, text in rows.items() for line in (f"  {name}", *folded(text, width, " " * 4))]
    return [line for name, text in rows.items() for line in folded(text, width, f"  {name:<{column}}  ")]


def titled(sections: Mapping[str, Mapping[str, str]], width: int | None) -> str:
    """Each title with its rows, an empty line between them."""
    return "\n\n".join(
        "\n".join([*folded(title, width), *two_columns(rows, width)]) for title, rows in sections.items()
    )


def fields_text(sections: Sequence[Section], width: int | None) -> str:
    """Fields by the part they are in: what they hold and their default, and below it what they mean."""
    return titled(
        {
            section.title or "a scenario (--set PATH=VALUE)": {row.path: _said(row) for row in section.rows}
            for section in sections
        },
        width,
    )


def _said(row: Row) -> str:
    unit = f" ({row.unit})" if row.unit else ""
    default = row.default if row.default in _NO_DEFAULT else f"default {row.default}"
    return f"{row.type}{unit}{f', {default}' if row.default else ''}\n{row.meaning}"
