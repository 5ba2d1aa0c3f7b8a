"""What `simulate` says: streams of any tool's arrivals, played, as the object that its JSON is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, NULL_NS
from cotenant.playback.csv_arrivals import CsvFrames, CsvStreams
from cotenant.playback.face import FacePlayback, judge_face
from cotenant.playback.fleet import FleetPlayback, play_fleet
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.playback.whatif import WhatIf, what_if
from cotenant.units import NS_PER_MS
from cotenant.verdict.faces import STRAY_NS
from cotenant.verdict.simulated_stream import chunks_of, exact_ms, stream_entry

SCHEMA: Final = 1
_CURVE_MS: Final = (0, 50, 100, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 4000, 5000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """The streams, what was heard of them, and what was seen of those that have a face (by number)."""

    streams: CsvStreams
    player: PlayerOptions
    played: FleetPlayback
    faces: Mapping[int, FacePlayback]


def simulate(
    streams: CsvStreams, player: PlayerOptions, frames: Mapping[str, CsvFrames] | None = None, fps: float = 25
) -> Simulation:
    """Plays every stream; a face is shown beside the voice of the same name."""
    faces = {}
    numbers = {name: number for number, name in enumerate(streams.names)}
    for name, clip in (frames or {}).items():
        voice = _voice(streams, numbers[name], player)
        due_ns = voice.first_arrival_ns or 0
        media_ns = np.minimum(clip.media_ns, voice.audio_ns + STRAY_NS)
        faces[numbers[name]] = judge_face(clip.arrival_ns, media_ns, None, voice, due_ns, fps)
    played = play_fleet(streams.arrivals, player)
    return Simulation(streams=streams, player=player, played=played, faces=faces)


def clean_share(simulation: Simulation) -> float | None:
    """The share of streams without a stall of more than 100 ms; None of no streams."""
    clean = simulation.played.clean
    return float(np.count_nonzero(clean)) / clean.size if clean.size else None


def curve_of(simulation: Simulation) -> WhatIf:
    """The same streams at a few lookaheads from 0 to 5 s and at the configured one, with the same player."""
    played, player = simulation.played, simulation.player
    due = np.where(played.chunks > 0, played.first_arrival_ns, 0)
    grid = np.unique(np.append(np.array(_CURVE_MS, np.int64) * NS_PER_MS, player.lookahead_ns))
    return what_if(
        simulation.streams.arrivals, player, due, lookaheads_ns=grid, policies=(player.after_underrun,)
    )


def warnings_of(simulation: Simulation) -> list[str]:
    """Sentences about what was put right before playing."""
    names = [simulation.streams.names[i] for i in np.flatnonzero(simulation.played.reordered).tolist()]
    if not names:
        return []
    shown = ", ".join(ascii(name)[:60] for name in names[:5]) + (", ..." if len(names) > 5 else "")
    return [f"rows out of order of arrival were sorted in {len(names)} of the streams: {shown}"]


def worst_streams(simulation: Simulation, count: int) -> list[int]:
    """The numbers of the streams that were worst to listen to: those not clean, by headroom, first."""
    headroom = np.where(simulation.played.headroom_ns == NULL_NS, MINUS_INF_NS, simulation.played.headroom_ns)
    return [int(number) for number in np.lexsort((headroom, simulation.played.clean))[:count]]


def to_dict(simulation: Simulation, numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """The object that `simulate --json` prints, all streams or `numbers`; ms, exact to the ns.

    Of a stream, where the name does not say it (a null has its reason in `why`):

    first_sound_ms         from its first arrival to the start of playback
    headroom_ms            by how much later all that came after the start could have come; null with `+inf`
                           where everything had arrived before playback began
    required_lookahead_ms  the least lookahead without any stall under `--start delay`: a wait after the first
                           arrival
    required_prefill_ms    the same under `--start prefill`: so much audio has to be there (to the ns just
                           above what lies before the chunk that comes late). Both hold for every lookahead
                           that was asked
    clean                  no stall of the player over 100 ms
    audio_underrun_ms, longest_stall_ms, continuity   at lookahead 0, whatever was asked: vLLM-Omni's largest
                           deficit, SGLang-Omni's longest stall and whether that is within 50, 100, 200 ms
    """
    player, share = simulation.player, clean_share(simulation)
    why = {} if share is not None else {"clean_share": "there is no stream"}
    if player.after_underrun != "refill":
        why["refill_ms"] = "this player does not refill"
    if player.resync_after_ns is None:
        resyncs = "no resync was asked" if player.after_underrun == "drop" else "this player does not drop"
        why["resync_after_ms"] = resyncs
    if numbers is None:
        numbers = range(len(simulation.streams.names))
    return {
        "schema": SCHEMA,
        "lookahead_ms": exact_ms(player.lookahead_ns),
        "start": player.start,
        "after_underrun": player.after_underrun,
        "quantum_ms": exact_ms(player.quantum_ns),
        "refill_ms": exact_ms(player.refill_target_ns) if player.after_underrun == "refill" else None,
        "resync_after_ms": None if player.resync_after_ns is None else exact_ms(player.resync_after_ns),
        "streams": [
            stream_entry(simulation.streams, player, simulation.played, simulation.faces.get(number), number)
            for number in numbers
        ],
        "clean_share": share,
        "warnings": warnings_of(simulation),
        "why": why,
    }


def _voice(streams: CsvStreams, number: int, player: PlayerOptions) -> Playback:
    arrival, media = chunks_of(streams, number)
    arrivals = streams.arrivals
    ended = bool(arrivals.ended[number])
    return play(
        arrival,
        media,
        player,
        done_ns=int(arrivals.done_ns[number]) if ended else None,
        give_up_ns=int(arrivals.give_up_ns[number]),
    )
