"""One stream of `simulate` as it stands in its JSON."""

from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import MINUS_INF_NS, NULL_NS, PLUS_INF_NS, Int64Array, prepare
from cotenant.playback.continuity import CONTINUITY_NS
from cotenant.playback.csv_arrivals import CsvStreams
from cotenant.playback.face import FacePlayback
from cotenant.playback.fleet import FleetPlayback
from cotenant.playback.gaps import gaps_time_weighted
from cotenant.playback.options import PlayerOptions
from cotenant.units import NS_PER_MS
from cotenant.verdict.simulated_face import face_entry

NO_AUDIO: Final = "no audio arrived"
NEVER_BEGAN: Final = "cut off before playback began"
SINGLE: Final = "a single chunk has no gap"
NO_PREFILL: Final = "it was cut off: no prefill would have bridged what never came"


def stream_entry(
    streams: CsvStreams, player: PlayerOptions, played: FleetPlayback, face: FacePlayback | None, number: int
) -> dict[str, Any]:
    """The stream `number`, and its face where it has one; ms, a null with its reason in `why`."""
    why: dict[str, str] = {}
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
            return exact_ms(value_ns)
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
        "stream": streams.names[number],
        "chunks": int(played.chunks[number]),
        "audio_ms": exact_ms(int(played.audio_ns[number])),
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
        "heard_ms": exact_ms(heard_ns),
        "lost_ms": exact_ms(int(played.lost_ns[number])),
        **_of_arrivals(streams, player, int(played.required_lookahead_ns[number]), number, why),
        "events": _events(played, number),
    }
    if face is not None:
        entry["face"] = face_entry(face, why)
    entry["why"] = why
    return entry


def _of_arrivals(
    streams: CsvStreams, player: PlayerOptions, required_ns: int, number: int, why: dict[str, str]
) -> dict[str, Any]:
    """What needs the chunks themselves."""
    arrival, media = chunks_of(streams, number)
    ranks = (50, 95, 99)
    found = gaps_time_weighted(np.diff(arrival), ranks)
    weighted = {f"p{percent}": value for percent, value in zip(ranks, found, strict=True)}
    if arrival.size < 2:
        why |= {f"gap_time_weighted_ms.{name}": SINGLE if arrival.size else NO_AUDIO for name in weighted}
    prefill_ns = None
    if arrival.size == 0:
        why["required_prefill_ms"] = "+inf"
    else:
        prefill_ns = required_prefill_ns(arrival, media, required_ns, player.quantum_ns)
        if prefill_ns is None:
            why["required_prefill_ms"] = NO_PREFILL
    return {
        "required_prefill_ms": None if prefill_ns is None else exact_ms(prefill_ns),
        "gap_time_weighted_ms": {
            name: None if value is None else exact_ms(value) for name, value in weighted.items()
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


def _events(played: FleetPlayback, number: int) -> list[dict[str, Any]]:
    events, first_ns = played.events, int(played.first_arrival_ns[number])
    low, high = np.searchsorted(events.stream, [number, number + 1]).tolist()
    return [
        {
            "at_ms": exact_ms(int(events.start_ns[i]) - first_ns),
            "media_ms": exact_ms(int(events.media_ns[i])),
            "duration_ms": exact_ms(int(events.duration_ns[i])),
            "open": bool(events.open[i]),
        }
        for i in range(low, high)
    ]


def chunks_of(streams: CsvStreams, number: int) -> tuple[Int64Array, Int64Array]:
    rows = slice(int(streams.arrivals.offsets[number]), int(streams.arrivals.offsets[number + 1]))
    return prepare(streams.arrivals.arrival_ns[rows], streams.arrivals.media_ns[rows])


def exact_ms(value_ns: int) -> float:
    assert MINUS_INF_NS < value_ns < PLUS_INF_NS
    return value_ns / NS_PER_MS
