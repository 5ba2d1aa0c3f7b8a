"""What was heard, as tables: a row for each voice with every figure of it, a row for each underrun."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.playback.continuity import continuity
from cotenant.playback.energy import in_speech
from cotenant.playback.gaps import BURST_NS, gaps_time_weighted
from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.report.listening import Voice, every_voice
from cotenant.verdict.facts import paired, read_facts
from cotenant.verdict.plan import read_plan
from cotenant.verdict.stats import TAIL

_I, _F, _S, _B, _N = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.int32()
# From the row of `streams`, by their names there.
_OF_STREAM: Final = {
    "stream": "stream", "tenant": "tenant", "load": "load", "stage": "stage", "round": "round",
    "listener": "listener", "utterance": "utterance", "due": "due_ns", "sent": "sent_ns",
    "first_byte": "first_byte_ns", "done": "done_ns", "delayed": "delayed_ns", "end": "end",
    "error_kind": "error_kind", "error": "error", "status": "status", "bytes": "size_bytes",
    "rate_hz": "rate_hz", "sample_format": "sample_format", "stamp": "stamp",
}  # fmt: skip
UTTERANCES: Final = pa.schema(
    [
        ("stream", _I), ("tenant", _S), ("load", _S), ("stage", _S), ("round", _N), ("listener", _N),
        ("utterance", _N),
        # In a measure window of its stage: what the verdict is about. The rest is settling and warm-up.
        ("measured", _B),
        ("due_ns", _I), ("sent_ns", _I), ("first_byte_ns", _I), ("done_ns", _I), ("delayed_ns", _I),
        ("end", _S), ("error_kind", _S), ("error", _S), ("status", _N), ("size_bytes", _I), ("rate_hz", _N),
        ("sample_format", _S), ("stamp", _S), ("chunks", _I), ("audio_ns", _I), ("ttfa_ns", _I),
        ("time_to_playback_ns", _I), ("playback_start_ns", _I), ("playback_end_ns", _I),
        ("chunk_gap_max_ns", _I), ("chunk_gap_time_weighted_p50_ns", _I), ("rtf", _F), ("underruns", _I),
        ("stall_total_ns", _I), ("stall_longest_ns", _I), ("stall_ratio", _F), ("heard_ns", _I),
        ("lost_ns", _I),
        # Null and unlimited: nothing had to arrive any more once it played.
        ("headroom_ns", _I), ("headroom_unlimited", _B), ("required_lookahead_ns", _I), ("clean", _B),
        # Against the same text in the baseline; null outside the measure windows.
        ("short", _B), ("runaway", _B),
        # By vLLM-Omni's rule and by SGLang-Omni's.
        ("audio_underrun_ns", _I), ("longest_stall_without_lookahead_ns", _I), ("c50", _B), ("c100", _B),
        ("c200", _B),
    ]
)  # fmt: skip
UNDERRUNS: Final = pa.schema(
    [
        ("stream", _I), ("load", _S), ("stage", _S), ("round", _N), ("listener", _N), ("utterance", _N),
        ("measured", _B), ("number", _I), ("start_ns", _I), ("media_ns", _I), ("duration_ns", _I),
        ("since_previous_ns", _I), ("open", _B), ("in_speech", _B),
    ]
)  # fmt: skip


def utterances_table(recording: Recording, options: PlayerOptions) -> pa.Table:
    """A row for each voice, as that player plays it. Raises UserError for a manifest without a scenario."""
    judged = _judged(recording, options)
    rows = []
    for voice in every_voice(recording, options):
        row = {name: voice.row[column] for column, name in _OF_STREAM.items()}
        rows.append(row | _heard(voice) | judged.get(voice.row["stream"], {"measured": False}))
    return pa.Table.from_pylist(rows, schema=UTTERANCES)


def underruns_table(
    recording: Recording, options: PlayerOptions, read_audio: Callable[[int], bytes | None] | None = None
) -> pa.Table:
    """A row for each underrun. `in_speech` is null where no s16 audio is there to look at."""
    judged = _judged(recording, options)
    rows = []
    for voice in every_voice(recording, options):
        events = voice.playback.events if voice.playback is not None else ()
        stream, rate_hz = voice.row["stream"], voice.row["rate_hz"]
        audio = None
        if events and read_audio is not None and voice.row["sample_format"] == "s16":
            audio = read_audio(stream)
        samples = None if audio is None else np.frombuffer(audio, dtype="<i2")
        about = {name: voice.row[name] for name in ("load", "stage", "round", "listener", "utterance")}
        for number, event in enumerate(events):
            rows.append(
                {
                    **about,
                    "stream": stream,
                    "measured": stream in judged,
                    "number": number,
                    "start_ns": event.start_ns,
                    "media_ns": event.media_ns,
                    "duration_ns": event.duration_ns,
                    "since_previous_ns": event.since_previous_ns,
                    "open": event.open,
                    "in_speech": None if samples is None else in_speech(samples, rate_hz, event.media_ns),
                }
            )
    return pa.Table.from_pylist(rows, schema=UNDERRUNS)


def _judged(recording: Recording, options: PlayerOptions) -> dict[int, dict[str, Any]]:
    """What the verdict alone can tell of each measured voice."""
    plan = read_plan(recording)
    facts = read_facts(recording, plan, options, TAIL)
    found = {}
    for stage in (*plan.stages, *([plan.again] if plan.again else [])):
        own = paired(facts, stage, by_round=stage is not plan.again).own
        known = (own.pair_audio_ns > 0).tolist()
        parts = (own.rows.tolist(), own.clean.tolist(), own.short.tolist(), own.runaway.tolist(), known)
        for row, clean, short, runaway, paired_too in zip(*parts, strict=True):
            found[int(facts.voices.streams.stream[row])] = {
                "measured": True,
                "clean": clean,
                "short": short if paired_too else None,
                "runaway": runaway if paired_too else None,
            }
    return found


def _heard(voice: Voice) -> dict[str, Any]:
    row, playback = voice.row, voice.playback
    if playback is None or playback.first_arrival_ns is None:
        return {"chunks": 0, "audio_ns": 0, "clean": False}
    arrival, due, sent = playback.arrival_ns, row["due"], row["sent"]
    gaps = np.diff(arrival)
    longest = int(gaps.max(initial=0))
    theirs = continuity(arrival, playback.media_ns)
    took = None if sent is None else int(arrival[-1]) - sent

    def since_due(value: int | None) -> int | None:
        return None if value is None or due is None else value - due

    return {
        "chunks": playback.chunks,
        "audio_ns": playback.audio_ns,
        "ttfa_ns": since_due(playback.first_arrival_ns),
        "time_to_playback_ns": since_due(playback.start_ns),
        "playback_start_ns": playback.start_ns,
        "playback_end_ns": playback.end_ns,
        "chunk_gap_max_ns": longest if longest >= BURST_NS else None,
        "chunk_gap_time_weighted_p50_ns": gaps_time_weighted(gaps, (50,))[0],
        "rtf": None if took is None else took / playback.audio_ns,
        "underruns": playback.underruns,
        "stall_total_ns": playback.stall_total_ns,
        "stall_longest_ns": playback.stall_longest_ns,
        "stall_ratio": playback.stall_ratio,
        "heard_ns": playback.heard_ns,
        "lost_ns": playback.lost_ns,
        "headroom_ns": playback.headroom_ns,
        "headroom_unlimited": playback.began and playback.headroom_ns is None,
        "required_lookahead_ns": playback.required_lookahead_ns,
        "clean": playback.clean,
        "audio_underrun_ns": theirs.audio_underrun_ns,
        "longest_stall_without_lookahead_ns": theirs.longest_stall_ns,
        "c50": theirs.c50,
        "c100": theirs.c100,
        "c200": theirs.c200,
    }
