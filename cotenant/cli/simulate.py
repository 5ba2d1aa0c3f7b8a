"""`cotenant simulate`: the arrivals that any other tool wrote down, through the player."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotenant.cli import options as flags
from cotenant.errors import ExitCode, UserError
from cotenant.units import parse_duration_ns

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


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.csv",
            help="Columns arrival_ms,duration_ms[,stream][,end]; - is the standard input.",
        ),
    ],
    lookahead: Annotated[
        str, typer.Option("--lookahead", metavar="TIME", help="The player's buffer.")
    ] = "400ms",
    start: Annotated[
        flags.Start,
        typer.Option("--start", help="Playback starts when the lookahead is full, or that long after."),
    ] = flags.Start.PREFILL,
    after_underrun: Annotated[
        flags.AfterUnderrun,
        typer.Option("--after-underrun", help="After running dry: go on, refill first, or drop."),
    ] = flags.AfterUnderrun.RESUME,
    quantum: Annotated[
        str, typer.Option("--quantum", metavar="TIME", help="The sound card's period, as in 20ms.")
    ] = "0ms",
    refill: Annotated[
        str | None,
        typer.Option("--refill", metavar="TIME", help="How much `refill` waits for (the lookahead)."),
    ] = None,
    resync_after: Annotated[
        str | None,
        typer.Option(
            "--resync-after", metavar="TIME", help="`drop` moves its clock for later chunks (never)."
        ),
    ] = None,
    give_up: Annotated[
        str | None,
        typer.Option(
            "--give-up",
            metavar="TIME",
            help="Streams not marked eos were cut off, and given up this long after their last arrival.",
        ),
    ] = None,
    faces: Annotated[
        str | None,
        typer.Option("--faces", metavar="FILE", help="Video frames: columns arrival_ms,media_ms[,stream]."),
    ] = None,
    fps: Annotated[float, typer.Option("--fps", min=0.1, max=1000, help="Frame rate of --faces.")] = 25,
    json: Annotated[bool, typer.Option("--json", help="Prints JSON on stdout.")] = False,
) -> int:
    """Plays recorded arrivals in the simulated player. Exits 0 whatever it finds, 3 without a stream."""
    from cotenant.playback.options import PlayerOptions

    refill_ns, resync_after_ns = _time_ns("--refill", refill), _time_ns("--resync-after", resync_after)
    if refill_ns is not None and after_underrun is not flags.AfterUnderrun.REFILL:
        raise UserError("--refill is about a player that refills; add --after-underrun refill")
    if resync_after_ns is not None and after_underrun is not flags.AfterUnderrun.DROP:
        raise UserError("--resync-after is about a player that drops; add --after-underrun drop")
    if file == "-" and faces == "-":
        raise UserError("only one of the two files can be the standard input")
    player = PlayerOptions(
        lookahead_ns=_time_ns("--lookahead", lookahead) or 0,
        start=start.value,
        after_underrun=after_underrun.value,
        quantum_ns=_time_ns("--quantum", quantum) or 0,
        refill_ns=refill_ns,
        resync_after_ns=resync_after_ns,
    )
    give_up_ns = _time_ns("--give-up", give_up)
    return simulate(
        SimulateOptions(file=file, player=player, give_up_ns=give_up_ns, faces=faces, fps=fps, json=json)
    )


def simulate(options: SimulateOptions) -> int:
    """Reads, plays, prints. Raises UserError for what is no table of arrivals."""
    from cotenant.playback.csv_arrivals import read_arrivals, read_frames
    from cotenant.report.simulation import render
    from cotenant.verdict import simulation

    streams = read_arrivals(_read(options.file), give_up_ns=options.give_up_ns, source=_name(options.file))
    frames = None
    if options.faces is not None:
        frames = read_frames(_read(options.faces), streams, source=_name(options.faces))
    found = simulation.simulate(streams, options.player, frames, options.fps)
    for sentence in simulation.warnings_of(found):
        print(f"cotenant: warning: {sentence}", file=sys.stderr)
    if options.json:
        import json

        json.dump(simulation.to_dict(found), sys.stdout, allow_nan=False)
        print()
    else:
        worst = simulation.to_dict(found, simulation.worst_streams(found, _SHOWN_STREAMS))
        clean = int(found.played.clean.sum())
        curve = simulation.curve_of(found) if streams.names else None
        print(render(worst, len(streams.names), clean, curve), file=sys.stderr, end="")
    return ExitCode.PASS if streams.names else ExitCode.INCONCLUSIVE


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{file!r} cannot be read: {error}") from None


def _name(file: str) -> str:
    return "the standard input" if file == "-" else file


def _time_ns(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None
