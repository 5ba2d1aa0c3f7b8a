"""`cotenant simulate`: the arrivals that any other tool wrote down, through the player."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotenant.cli import options as flags
from cotenant.errors import ExitCode, UserError
from cotenant.verdict.options import read_duration_ns

if TYPE_CHECKING:
    from cotenant.playback.options import PlayerOptions

_SHOWN_STREAMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """What is played, and how. `file` and `faces` are paths, `-` the standard input."""

    file: str
    player: "PlayerOptions"
    give_up_ns: int | None
    faces: str | None
    fps: float
    json: bool


def _time(flag: str, text: str) -> Any:
    return typer.Option(flag, metavar="TIME", help=text)


_FILE = typer.Argument(
    metavar="FILE.csv", help="Columns arrival_ms,duration_ms[,stream][,end]; - is the standard input."
)
_START = typer.Option("--start", help="Playback starts when the lookahead is full, or that long after.")
_AFTER_UNDERRUN = typer.Option("--after-underrun", help="After running dry: go on, refill first, or drop.")
_JSON = (
    "Prints JSON on stdout. first_sound_ms counts from the first arrival; required_lookahead_ms is for "
    "--start delay, required_prefill_ms for prefill."
)
_FACES = typer.Option("--faces", metavar="FILE", help="Video frames: columns arrival_ms,media_ms[,stream].")
_GIVE_UP = _time(
    "--give-up", "Streams not marked eos were cut off, and given up this long after their last arrival."
)


def command(
    file: Annotated[str, _FILE],
    lookahead: Annotated[str, _time("--lookahead", "The player's buffer.")] = "400ms",
    start: Annotated[flags.Start, _START] = flags.Start.PREFILL,
    after_underrun: Annotated[flags.AfterUnderrun, _AFTER_UNDERRUN] = flags.AfterUnderrun.RESUME,
    quantum: Annotated[str, _time("--quantum", "The sound card's period, as in 20ms.")] = "0ms",
    refill: Annotated[str | None, _time("--refill", "How much `refill` waits for (the lookahead).")] = None,
    resync_after: Annotated[
        str | None, _time("--resync-after", "`drop` moves its clock for later chunks (never).")
    ] = None,
    give_up: Annotated[str | None, _GIVE_UP] = None,
    faces: Annotated[str | None, _FACES] = None,
    fps: Annotated[float, typer.Option("--fps", min=0.1, max=1000, help="Frame rate of --faces.")] = 25,
    json: Annotated[bool, typer.Option("--json", help=_JSON)] = False,
) -> int:
    """Plays recorded arrivals in the simulated player. Exits 0 whatever it finds, 3 without a stream."""
    if file == "-" and faces == "-":
        raise UserError("only one of the two files can be the standard input")
    player = _player(lookahead, start, after_underrun, quantum, refill, resync_after)
    give_up_ns = read_duration_ns("--give-up", give_up)
    return simulate(
        SimulateOptions(file=file, player=player, give_up_ns=give_up_ns, faces=faces, fps=fps, json=json)
    )


def _player(
    lookahead: str,
    start: flags.Start,
    after_underrun: flags.AfterUnderrun,
    quantum: str,
    refill: str | None,
    resync_after: str | None,
) -> "PlayerOptions":
    from cotenant.playback.options import PlayerOptions

    refill_ns = read_duration_ns("--refill", refill)
    resync_after_ns = read_duration_ns("--resync-after", resync_after)
    if refill_ns is not None and after_underrun is not flags.AfterUnderrun.REFILL:
        raise UserError("--refill is about a player that refills; add --after-underrun refill")
    if resync_after_ns is not None and after_underrun is not flags.AfterUnderrun.DROP:
        raise UserError("--resync-after is about a player that drops; add --after-underrun drop")
    return PlayerOptions(
        lookahead_ns=read_duration_ns("--lookahead", lookahead) or 0,
        start=start.value,
        after_underrun=after_underrun.value,
        quantum_ns=read_duration_ns("--quantum", quantum) or 0,
        refill_ns=refill_ns,
        resync_after_ns=resync_after_ns,
    )


def simulate(options: SimulateOptions) -> int:
    """Reads, plays, prints. Raises UserError for what is no table of arrivals."""
    from cotenant.cli import output
    from cotenant.playback.csv_arrivals import read_arrivals, read_frames
    from cotenant.report.simulation import render
    from cotenant.verdict import simulation

    streams = read_arrivals(_read(options.file), give_up_ns=options.give_up_ns, source=_name(options.file))
    frames = None
    if options.faces is not None:
        frames = read_frames(_read(options.faces), streams, source=_name(options.faces))
    found = simulation.simulate(streams, options.player, frames, options.fps)
    for sentence in simulation.warnings_of(found):
        output.tell(f"cotenant: warning: {sentence}")
    if options.json:
        import json

        json.dump(simulation.to_dict(found), sys.stdout, allow_nan=False)
        print()
    else:
        worst = simulation.to_dict(found, simulation.worst_streams(found, _SHOWN_STREAMS))
        clean, cut = int(found.played.clean.sum()), int(found.played.truncated.sum())
        curve = simulation.curve_of(found) if streams.names else None
        width = output.width_of(output.stderr_console())
        output.tell(render(worst, len(streams.names), clean, cut, curve, width).removesuffix("\n"))
    return ExitCode.PASS if streams.names else ExitCode.INCONCLUSIVE


def _read(file: str) -> bytes:
    try:
        if file != "-":
            return Path(file).read_bytes()
        if sys.stdin is None:
            raise UserError("the standard input is closed: there is nothing to read")
        return sys.stdin.buffer.read()
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except OSError as error:
        raise UserError(f"{_name(file)} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{file!r} cannot be read: {error}") from None


def _name(file: str) -> str:
    return "the standard input" if file == "-" else file
