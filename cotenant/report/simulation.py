"""`simulate` for people: a table of streams, and the clean share over the lookahead as a text plot."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.playback.options import AfterUnderrun
from cotenant.playback.whatif import WhatIf, smallest_lookahead
from cotenant.report.fold import folded, folded_parts
from cotenant.units import NS_PER_MS, counted, format_ms, format_share

_NAME_WIDTH: Final = 24
_FACE_WIDTH: Final = 60
_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
_PLOT_WIDTH: Final = 40
# What stands before and behind a bar, and the mark.
_BESIDE_BAR: Final = 32
_HEADER: Final = (
    "stream", "chunks", "audio", "first sound", "underruns", "stalled", "longest", "headroom", "needs",
    "clean",
)  # fmt: skip


def render(
    found: Mapping[str, Any],
    streams: int,
    clean: int,
    cut: int,
    curve: WhatIf | None,
    width: int | None = None,
) -> str:
    """The object of `simulate --json`, which may hold the worst streams only, as text.

    `streams`, `clean` and `cut` (those that were cut off) are the numbers of all of them; `curve` the same at
    other lookaheads. Folded to `width` columns; None: a stream is a line, however long.
    """
    player = f"lookahead {format_ms(found['lookahead_ms'])} ({found['start']}, {found['after_underrun']})"
    parts = []
    if shown := found["streams"]:
        left_out = streams - len(shown)
        note = (
            f"\n... and {counted(left_out, 'stream')} that {'was' if left_out == 1 else 'were'} better"
            if left_out
            else ""
        )
        parts.append(_table([_HEADER, *(_row(stream, found["start"]) for stream in shown)], width) + note)
        legend = _legend(shown, found["start"])
        parts[-1] += "\n\n" + "\n".join(line for text in legend for line in folded(text, width, rest="  "))
        if faces := [_face_lines(stream, width) for stream in shown if "face" in stream]:
            parts.append("\n".join(faces))
    if curve is not None and streams:
        parts.append(plot(curve, found["after_underrun"], found["lookahead_ms"], cut, width))
    share = format_share(found["clean_share"])
    count = f"{clean} of {counted(streams, 'stream')} clean ({share})" if streams else "no streams"
    return "\n\n".join([*parts, "\n".join(folded(f"{count}, {player}", width))]) + "\n"


def _legend(streams: Sequence[Mapping[str, Any]], start: str) -> list[str]:
    """What the columns count, where a reader could think of something else."""
    rule = "--start prefill, once so much audio has come" if start == "prefill" else "--start delay, a wait"
    said = [
        "first sound counts from the first chunk's arrival; when that was asked for is not in the file",
        f"needs: the least lookahead without any stall ({rule}); clean: no stall over 100 ms",
    ]
    if any(stream["why"].get("headroom_ms") == "+inf" for stream in streams):
        said.append("headroom +inf: all of it had arrived before playback began")
    return said


def plot(
    curve: WhatIf, policy: AfterUnderrun, lookahead_ms: float, cut: int, width: int | None = None
) -> str:
    """One bar a lookahead: the share of clean streams; then what 95 % and 99 % of them need. `cut` of the
    streams were cut off: no lookahead makes those clean."""
    lines = ["lookahead    clean streams"]
    longest = _PLOT_WIDTH if width is None else max(1, min(_PLOT_WIDTH, width - _BESIDE_BAR))
    for at_ns, clean in zip(curve.lookahead_ns.tolist(), curve.curves[policy].clean.tolist(), strict=True):
        share = clean / curve.streams
        bar = "#" * (int(share * longest) or int(share > 0))
        mark = "  <- this one" if at_ns / NS_PER_MS == lookahead_ms else ""
        at = format_ms(at_ns / NS_PER_MS)
        lines.append(f"{at:>9}  |{bar:<{longest}}| {format_share(share):>5}{mark}")
    for percent in (95, 99):
        least_ns = smallest_lookahead(curve, percent, policy)
        exact = curve.clean_lookahead_ns is not None
        lacking = "no lookahead would do" if exact else "none of these lookaheads would do"
        if cut:
            lacking += (
                f", for {cut} of {counted(curve.streams, 'stream')} {'was' if cut == 1 else 'were'} cut off"
            )
        needed = lacking if least_ns is None else f"{_up_to_ms(least_ns)} ms of lookahead"
        lines += folded(f"{percent} % of the streams clean: {needed}", width, rest="  ")
    if slower := int(curve.slower.sum()):
        text = f"{slower} of the streams came slower than real time: no lookahead helps those for long"
        lines += folded(text, width, rest="  ")
    return "\n".join(lines)


def _up_to_ms(value_ns: int) -> int:
    """Rounded up: a shorter lookahead would not do."""
    return -(-value_ns // NS_PER_MS)


def _up(value_ms: float | None) -> float | None:
    """The same of ms, which are exact to the ns: a prefill has to be just above what is there too early."""
    return None if value_ms is None else _up_to_ms(round(value_ms * NS_PER_MS))


def _row(stream: Mapping[str, Any], start: str) -> tuple[str, ...]:
    """`start`: the start rule, which decides what lookahead would do."""
    why = stream["why"]
    cut = stream["truncated"]
    needs = "required_prefill_ms" if start == "prefill" else "required_lookahead_ms"

    def time(key: str, value: float | None, *, signed: bool = False) -> str:
        if value is None and why.get(key) in ("+inf", "-inf"):
            value = float(why[key])
        return format_ms(value, signed=signed)

    return (
        _name(stream["stream"]),
        str(stream["chunks"]),
        format_ms(stream["audio_ms"]),
        time("first_sound_ms", stream["first_sound_ms"]),
        "-" if stream["underruns"] is None else str(stream["underruns"]),
        time("stall_ms.total", stream["stall_ms"]["total"]),
        time("stall_ms.longest", stream["stall_ms"]["longest"]),
        time("headroom_ms", stream["headroom_ms"], signed=True),
        # Nothing bridges what never came: what would bridge the rest is no need of this stream's.
        "-" if cut else time(needs, _up(stream[needs])),
        "yes" if stream["clean"] else "cut" if cut else "no",
    )


def _face_lines(stream: Mapping[str, Any], width: int | None) -> str:
    """`face a: fps p5 25, harmonic fps 25, freezes 0, skew p50 0 ms`, folded."""
    face, name = stream["face"], _name(stream["stream"])
    told = [
        f"{what} {_number(face[key])}"
        for what, key in (("fps p5", "fps_p5"), ("harmonic fps", "harmonic_fps"), ("freezes", "freezes"))
    ]
    told.append(f"skew p50 {format_ms(face['skew_ms']['p50'], signed=True)}")
    whole = [part.replace(" ", _UNBROKEN) for part in told]
    text = f"face {name}: {', '.join(whole)}"
    if lacking := [stream["why"][f"face.{key}"] for key in ("fps_p5", "harmonic_fps") if face[key] is None]:
        text += f" ({lacking[-1]})"
    lines = folded(text, min(_FACE_WIDTH, width or _FACE_WIDTH), rest="     ")
    return "\n".join(lines).replace(_UNBROKEN, " ")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _name(name: str) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in name)
    return text if len(text) <= _NAME_WIDTH else text[: _NAME_WIDTH - 3] + "..."


def _table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """A line a stream, or, where that is too long, lines of its own."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    if width is not None and max(map(len, lines)) > width:
        heads = rows[0][1:]
        lines = []
        for name, *cells in rows[1:]:
            parts = [f"{head} {cell}" for head, cell in zip(heads, cells, strict=True)]
            lines += [*folded(f"{rows[0][0]} {name}", width), *folded_parts(parts, width, "  ")]
    return "\n".join(lines)
