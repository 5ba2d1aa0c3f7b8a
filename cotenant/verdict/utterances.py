"""Utterances, each with the values that quantiles and comparisons of a stage are taken of."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.playback.gaps import BURST_NS
from cotenant.playback.onset import onsets
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Floats, Ints
from cotenant.verdict.sample import milliseconds
from cotenant.verdict.voices import RUNAWAY_SHARE, SHORT_SHARE, Voices, gaps_within

_PAIRED_QUANTILES: Final = {
    "ttfa_p95": ("ttfa_ms", 0.95),
    "time_to_playback_p95": ("time_to_playback_ms", 0.95),
    "chunk_gap_max_p95": ("chunk_gap_max_ms", 0.95),
    "rtf_p95": ("rtf", 0.95),
    "required_lookahead_p95": ("required_lookahead_ms", 0.95),
    "headroom_p5": ("headroom_ms", 0.05),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterances:
    """Per utterance of a stage, what quantiles and comparisons are taken of (ms; NaN for no value,
    infinities as they count), and the rows of `Voices` they stand for.

    `pair_audio_ns`: how long each should be, `NULL` where nothing tells. `under_way`: judged by what of it
    was heard in the window, since nothing else fell due there.
    """

    rows: Ints
    blocks: Ints
    values: dict[str, Floats]
    clean: Bools
    short: Bools
    runaway: Bools
    pair_audio_ns: Ints
    under_way: Bools


def paired_quantiles() -> dict[str, tuple[str, float]]:
    """Names of compared quantiles -> (the values they are of, level)."""
    return dict(_PAIRED_QUANTILES)


def utterances(voices: Voices, rows: Ints, blocks: Ints, pair_audio_ns: Ints) -> Utterances:
    """`pair_audio_ns`: the audio of the same utterance, or text, in the baseline, `NULL` without one.

    Of one under way what was over before its window has no value: waits that had ended, and headroom and
    required lookahead where its only stalls lie outside of it (else its headroom is minus those inside).
    What is defined of whole utterances (vLLM-Omni's and SGLang-Omni's measures) leaves it out.
    """
    streams, played = voices.streams.take(rows), voices.played
    since, under_way = voices.since_ns[rows], voices.under_way[rows]
    silent, began = played.chunks[rows] == 0, played.began[rows]
    audio, last = played.audio_ns[rows], played.last_arrival_ns[rows]
    timed = ~silent & (streams.sent != NULL)
    gap_max = columns.max_of(*gaps_within(voices))[rows]
    silence = streams.leading_silence
    onset = onsets(voices.arrivals, np.maximum(0, voices.streams.leading_silence))[rows]
    audible = np.where(silence == NULL, np.nan, (onset - streams.due).astype(np.float64))
    heard, playing = played.first_arrival_ns[rows] < since, began & (played.start_ns[rows] < since)
    headroom = np.where(began, played.headroom_ns[rows].astype(np.float64), -np.inf)
    headroom[began & (played.headroom_ns[rows] == PLUS_INF_NS)] = np.inf
    stalled = under_way & began & (played.underruns[rows] > 0)
    elsewhere = under_way & began & ~stalled & (headroom < 0)
    headroom[stalled] = -played.stall_total_ns[rows[stalled]]
    paired = (pair_audio_ns > 0) & ~voices.failed[rows]
    short = paired & (audio < SHORT_SHARE * pair_audio_ns)
    ratio = np.divide(last - streams.sent, audio, out=np.full(len(rows), np.nan), where=timed)
    return Utterances(
        rows=rows,
        blocks=blocks,
        values={
            "ttfa_ms": _ms(_or_inf(played.first_arrival_ns[rows] - streams.due, ~silent), heard),
            "audible_ttfa_ms": _ms(np.where(silent, np.inf, audible), heard),
            "time_to_playback_ms": _ms(_or_inf(played.start_ns[rows] - streams.due, began), playing),
            "chunk_gap_max_ms": milliseconds(np.where(gap_max < BURST_NS, np.nan, gap_max)),
            "rtf": ratio,
            "required_lookahead_ms": _ms(_or_inf(played.required_lookahead_ns[rows], ~silent), elsewhere),
            "headroom_ms": _ms(headroom, elsewhere),
            "audio_underrun_ms": _ms(_or_inf(played.audio_underrun_ns[rows], ~silent), under_way),
        },
        clean=played.clean[rows] & ~voices.failed[rows] & ~short,
        short=short,
        runaway=paired & (audio > RUNAWAY_SHARE * pair_audio_ns),
        pair_audio_ns=pair_audio_ns,
        under_way=under_way,
    )


def _ms(values_ns: Floats, unknown: Bools) -> Floats:
    return np.where(unknown, np.nan, milliseconds(values_ns))


def _or_inf(values_ns: Ints, there: Bools) -> Floats:
    return np.where(there, values_ns.astype(np.float64), np.inf)
