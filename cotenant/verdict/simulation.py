"""What `simulate` says: streams of any tool's arrivals, played, as the object that its JSON is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, NULL_NS, PLUS_INF_NS, Int64Array, prepare
from cotenant.playback.continuity import CONTINUITY_NS
from cotenant.playback.csv_arrivals import CsvFrames, CsvStreams
from cotenant.playback.face import FacePlayback, judge_face
from cotenant.playback.fleet import FleetPlayback, play_fleet
from cotenant.playback.gaps import gaps_time_weighted
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.playback.whatif import WhatIf, what_if
from cotenant.units import NS_PER_MS
from cotenant.verdict.faces import STRAY_NS
from cotenant.verdict.simulated_face import face_entry

SCHEMA: Final = 1
_CURVE_MS: Final = (0, 50, 100, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 4000, 5000)
NO_AUDIO: Final = "no audio arrived"
NEVER_BEGAN: Final = "cut off before playback began"
SINGLE: Final = "a single chunk has no gap"
NO_PREFILL: Final = "it was cut off: no prefill would have bridged what never came"


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
        "lookahead_ms": _ms(player.lookahead_ns),
        "start": player.start,
        "after_underrun": player.after_underrun,
        "quantum_ms": _ms(player.quantum_ns),
        "refill_ms": _ms(player.refill_target_ns) if player.after_underrun == "refill" else None,
        "resync_after_ms": None if player.resync_after_ns is None else _ms(player.resync_after_ns),
        "streams": [_stream(simulation, number) for number in numbers],
        "clean_share": share,
        "warnings": warnings_of(simulation),
        "why": why,
    }


def _stream(simulation: Simulation, number: int) -> dict[str, Any]:
    played, why = simulation.played, {}
    silent, began = int(played.chunks[number]) == 0, bool(played.began[number])
    unheard = "" if began else NO_AUDIO if silent else NEVER_BEGAN

    def time(key: str, column: Int64Array, *, infinite: str = "", lacking: str = unheard) -> float | None:
        """`infinite`: what it counts as without audio; `lacking`: why there may be no value."""
        value_ns = int(column[number])
        if silent and infinite:
            why[key] = infinite
        elif value_ns == NULL_NS:
            why[key] = lacking
        elif abs(value_ns) >= PLUS_INF_NS:
            why[key] = "+inf" if value_ns > 0 else "-inf"
        else:
            return _ms(value_ns)
        return None

    first = played.start_ns - np.where(played.start_ns == NULL_NS, 0, played.first_arrival_ns)
    heard_ns, stall_ns = int(played.heard_ns[number]), int(played.stall_total_ns[number])
    ratio = stall_ns / (stall_ns + heard_ns) if began and stall_ns + heard_ns else None
    if ratio is None:
        why["stall_ratio"] = unheard
    if not began:
        why["underruns"] = unheard
    single = NO_AUDIO if silent else SINGLE
    longest_ns = int(played.longest_stall_ns[number])
    known = longest_ns != NULL_NS
    if not known:
        why |= {f"continuity.{name}": single for name in CONTINUITY_NS}
    entry: dict[str, Any] = {
        "stream": simulation.streams.names[number],
        "chunks": int(played.chunks[number]),
        "audio_ms": _ms(int(played.audio_ns[number])),
        "first_sound_ms": time("first_sound_ms", first, infinite="+inf"),
        "underruns": int(played.underruns[number]) if began else None,
        "stall_ms": {
            "total": time("stall_ms.total", played.stall_total_ns, infinite="+inf"),
            "longest": time("stall_ms.longest", played.stall_longest_ns, infinite="+inf"),
        },
        "stall_ratio": ratio,
        "headroom_ms": time("headroom_ms", played.headroom_ns, infinite="-inf"),
        "required_lookahead_ms": time("required_lookahead_ms", played.required_lookahead_ns, infinite="+inf"),
        "audio_underrun_ms": time("audio_underrun_ms", played.audio_underrun_ns, infinite="+inf"),
        "longest_stall_ms": time("longest_stall_ms", played.longest_stall_ns, lacking=single),
        "continuity": {name: longest_ns <= most if known else None for name, most in CONTINUITY_NS.items()},
        "clean": bool(played.clean[number]),
        "truncated": bool(played.truncated[number]),
        "heard_ms": _ms(heard_ns),
        "lost_ms": _ms(int(played.lost_ns[number])),
        **_of_arrivals(simulation, number, why),
        "events": _events(simulation, number),
    }
    if number in simulation.faces:
        entry["face"] = face_entry(simulation.faces[number], why)
    entry["why"] = why
    return entry


def _of_arrivals(simulation: Simulation, number: int, why: dict[str, str]) -> dict[str, Any]:
    """What needs the chunks themselves."""
    arrival, media = _chunks(simulation.streams, number)
    ranks = (50, 95, 99)
    found = gaps_time_weighted(np.diff(arrival), ranks)
    weighted = {f"p{percent}": value for percent, value in zip(ranks, found, strict=True)}
    if arrival.size < 2:
        why |= {f"gap_time_weighted_ms.{name}": SINGLE if arrival.size else NO_AUDIO for name in weighted}
    prefill_ns = None
    if arrival.size == 0:
        why["required_prefill_ms"] = "+inf"
    else:
        required_ns = int(simulation.played.required_lookahead_ns[number])
        prefill_ns = required_prefill_ns(arrival, media, required_ns, simulation.player.quantum_ns)
        if prefill_ns is None:
            why["required_prefill_ms"] = NO_PREFILL
    return {
        "required_prefill_ms": None if prefill_ns is None else _ms(prefill_ns),
        "gap_time_weighted_ms": {
            name: None if value is None else _ms(value) for name, value in weighted.items()
        },
    }


def required_prefill_ns(
    arrival_ns: Int64Array, media_ns: Int64Array, required_lookahead_ns: int, quantum_ns: int = 0
) -> int | None:
    """The smallest lookahead of a `prefill` start without any underrun: one nanosecond more media than lies
    before the first chunk that comes late enough, 0 where that is the first; None where no chunk does."""
    since = arrival_ns - arrival_ns[0]
    if quantum_ns:
        since = -(-since // quantum_ns) * quantum_ns
    late_enough = int(np.searchsorted(since, required_lookahead_ns))
    if late_enough == arrival_ns.size:
        return None
    return int(media_ns[:late_enough].sum()) + 1 if late_enough else 0


def _events(simulation: Simulation, number: int) -> list[dict[str, Any]]:
    events, first_ns = simulation.played.events, int(simulation.played.first_arrival_ns[number])
    low, high = np.searchsorted(events.stream, [number, number + 1]).tolist()
    return [
        {
            "at_ms": _ms(int(events.start_ns[i]) - first_ns),
            "media_ms": _ms(int(events.media_ns[i])),
            "duration_ms": _ms(int(events.duration_ns[i])),
            "open": bool(events.open[i]),
        }
        for i in range(low, high)
    ]


def _chunks(streams: CsvStreams, number: int) -> tuple[Int64Array, Int64Array]:
    rows = slice(int(streams.arrivals.offsets[number]), int(streams.arrivals.offsets[number + 1]))
    return prepare(streams.arrivals.arrival_ns[rows], streams.arrivals.media_ns[rows])


def _voice(streams: CsvStreams, number: int, player: PlayerOptions) -> Playback:
    arrival, media = _chunks(streams, number)
    arrivals = streams.arrivals
    ended = bool(arrivals.ended[number])
    return play(
        arrival,
        media,
        player,
        done_ns=int(arrivals.done_ns[number]) if ended else None,
        give_up_ns=int(arrivals.give_up_ns[number]),
    )


def _ms(value_ns: int) -> float:
    assert MINUS_INF_NS < value_ns < PLUS_INF_NS
    return value_ns / NS_PER_MS
