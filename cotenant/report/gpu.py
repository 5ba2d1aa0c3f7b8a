"""What the GPU did in each stage: a second table under that of the stages, none where nothing is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.report.fold import folded
from cotenant.report.table import display_width, grid
from cotenant.report.text import number, safe
from cotenant.units import format_ms

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    heading: str
    path: str
    text: Callable[[float], str]
    rank: int


def _whole(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:.0f} {unit}".rstrip()


def _latency(value_ms: float) -> str:
    return f"{value_ms:.1f} ms" if 1 <= value_ms < 10 else format_ms(value_ms)


# The highest ranks are left out first where room is short.
_COLUMNS: Final[Sequence[_Column]] = (
    _Column(heading="SM", path="gpu.sm_percent.mean", text=_whole("%"), rank=1),
    _Column(heading="tensor", path="gpu.tensor_percent.mean", text=_whole("%"), rank=7),
    _Column(heading="DRAM", path="gpu.dram_percent.mean", text=_whole("%"), rank=4),
    _Column(heading="busy (NVML)", path="gpu.nvml_utilization_percent.mean", text=_whole("%"), rank=8),
    _Column(heading="load (sysfs)", path="gpu.tegra_gpu_load_percent.mean", text=_whole("%"), rank=1),
    _Column(heading="SM clock", path="gpu.sm_clock_mhz.mean", text=_whole("MHz"), rank=3),
    _Column(heading="power", path="gpu.power_w.mean", text=_whole("W"), rank=5),
    _Column(heading="canary p99", path="canary_ms.p99", text=_latency, rank=2),
    _Column(heading="processes", path="gpu.processes.mean", text=_whole(""), rank=6),
)
_FEWEST: Final = 5


def gpu_lines(stages: Sequence[Entry], width: int) -> list[str]:
    """Lines of at most `width` columns: a table without its empty columns, or a paragraph for each stage."""
    columns = [one for one in _COLUMNS if any(number(stage, one.path) is not None for stage in stages)]
    if not columns:
        return []
    for fewest in range(max(one.rank for one in columns), 0, -1):
        chosen = [one for one in columns if one.rank <= fewest]
        if len(chosen) < min(_FEWEST, len(columns)):
            break
        rows = [["GPU", *(one.heading for one in chosen)]]
        rows += [[safe(stage["name"], 40), *(_cell(stage, one) or "-" for one in chosen)] for stage in stages]
        lines = grid(rows, left=(0,))
        if max(map(display_width, lines)) <= width:
            gone = ", ".join(one.heading for one in columns if one not in chosen)
            return [*lines, *(folded(f"(wider terminals also show {gone})", width) if gone else [])]
    return [line for stage in stages for line in _stacked(stage, columns, width)]


def _cell(stage: Entry, column: _Column) -> str:
    value = number(stage, column.path)
    return "" if value is None else column.text(value)


def _stacked(stage: Entry, columns: Sequence[_Column], width: int) -> list[str]:
    pieces = [f"{one.heading} {text}" for one in columns if (text := _cell(stage, one))]
    lines, line = [], f"GPU {safe(stage['name'], max(8, width - 5))}:"
    for place, piece in enumerate(pieces):
        comma = "," if place + 1 < len(pieces) else ""
        if display_width(line) + len(piece) + 2 > width:
            lines.append(line)
            line = " "
        line += f" {piece}{comma}"
    return [*lines, line] if pieces else []
