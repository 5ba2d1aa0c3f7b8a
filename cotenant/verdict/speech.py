"""The `speech` part of a stage's entry."""

from typing import Final

import numpy as np

from cotenant.playback.arrivals import NULL_NS
from cotenant.playback.gaps import BURST_NS, gaps_time_weighted
from cotenant.units import NS_PER_MS, counted, ms_from_ns
from cotenant.verdict import columns
from cotenant.verdict.blocks import block_length_ns
from cotenant.verdict.columns import NULL, Bools, Floats, Ints
from cotenant.verdict.paths import SPEECH_METRICS
from cotenant.verdict.sample import (
    UNSEEN_SHARE,
    WORST,
    Doubted,
    Part,
    Quantiles,
    Ratio,
    Share,
    milliseconds,
    put,
    put_exact,
    put_quantiles,
    put_ratio,
    put_share,
)
from cotenant.verdict.stats import Rare
from cotenant.verdict.utterances import Utterances
from cotenant.verdict.voices import Voices, gaps_within, silence_by_block

NO_STREAM: Final = "no voice was due in this stage's measure window"
NO_GAP: Final = "no utterance came in more than one burst"
NO_SECOND: Final = "no utterance came in more than one chunk"
NO_SHORT: Final = "no utterance has a pair in the baseline, so short ones cannot be told"
NO_AUDIO: Final = "no audio arrived"
EARLIER: Final = (
    "no utterance fell due in the measure window, and of those that were under way this was over before it "
    "(or is told of whole ones only)"
)
NOTHING_DUE: Final = (
    "no utterance fell due while it was measured: what was heard of those under way can fail, but is too "
    "little to pass; measure longer (--set timing.measure=...)"
)
NO_SILENCE: Final = "this recording does not tell how long the voices are silent at their beginning"
SOME_SHORT: Final = "of {} utterances it is not known how long they are in the baseline: they may be short"
_NONE_OF: Final = {"chunk_gap_max_ms": NO_GAP, "audible_ttfa_ms": NO_SILENCE}


def speech_part(voices: Voices, facts: Utterances, *, compared: bool) -> Part:
    """The entry of those utterances. Not `compared`: this is the baseline itself, or there is none, so no
    utterance is too short."""
    part = Part()
    rows, blocks, size = facts.rows, facts.blocks, len(facts.rows)
    _counts(part, voices, facts)
    lacking = NO_STREAM if not size else EARLIER if facts.under_way.all() else ""
    _lengths(part, voices, facts, compared)
    for path, names in (
        ("ttfa_ms", ("p50", "p95", "p99")),
        ("audible_ttfa_ms", ("p50", "p95")),
        ("time_to_playback_ms", ("p50", "p95")),
        ("chunk_gap_max_ms", ("p50", "p95")),
        ("rtf", ("p50", "p95")),
        ("headroom_ms", ("p5", "p50")),
        ("required_lookahead_ms", ("p50", "p95", "p99")),
        ("audio_underrun_ms", ("p95",)),
    ):
        reason = lacking or _NONE_OF.get(path, NO_AUDIO)
        first = path == "ttfa_ms"
        sample = known(facts.values[path], blocks)
        put_quantiles(part, path, sample, names, reason, count=first, enough=("p95", "p99") if first else ())
    _pooled_gaps(part, voices, facts)
    _stalls(part, voices, facts)
    put_share(part, "clean_share", Share(good=facts.clean, blocks=blocks), NO_STREAM)
    unlimited = int(np.count_nonzero(facts.values["headroom_ms"] == np.inf))
    put_exact(part, "headroom_ms.unlimited", unlimited, size, NO_STREAM)
    silent = voices.played.chunks[rows] == 0
    whole = ~facts.under_way
    _continuity(
        part,
        voices.played.longest_stall_ns[rows][whole],
        voices.failed[rows][whole],
        silent[whole],
        blocks[whole],
        lacking,
    )
    _put_under_way(part, facts)
    return part


def known(values: Floats, blocks: Ints) -> Quantiles:
    """The values that there are."""
    there = ~np.isnan(values)
    return Quantiles(values=values[there], blocks=blocks[there])


def _put_under_way(part: Part, facts: Utterances) -> None:
    """How many are under way, where there are any. Nothing passes by them alone: all they tell is bad."""
    if not facts.under_way.any():
        return
    put(part, "under_way", int(np.count_nonzero(facts.under_way)), "")
    if facts.under_way.all():
        part.doubts |= {path: Doubted(reason=NOTHING_DUE) for path in SPEECH_METRICS}


def _counts(part: Part, voices: Voices, facts: Utterances) -> None:
    rows, size = facts.rows, len(facts.rows)
    delayed = voices.streams.delayed[rows]
    put_exact(part, "streams", size, max(size, 1), NO_STREAM)
    put_exact(part, "failed", int(np.count_nonzero(voices.failed[rows])), size, NO_STREAM)
    unknown = int(np.count_nonzero(delayed == NULL))
    lacking = f"of {counted(unknown, 'utterance')} the wait is not known" if unknown else NO_STREAM
    put_exact(part, "delayed", int(np.count_nonzero(delayed > 0)), 0 if unknown else size, lacking)
    # From when a turn would have come to when it was due: what a TTFA, from due on, does not hold.
    told = ~facts.under_way & (not unknown)
    waits = Quantiles(values=milliseconds(delayed[told]), blocks=facts.blocks[told])
    put_quantiles(part, "delay_ms", waits, ("p50", "p95"), lacking if unknown or not size else EARLIER)
    kinds, counts = np.unique(
        [kind or "unknown" for kind in voices.streams.error_kind[rows][voices.failed[rows]]],
        return_counts=True,
    )
    part.entry["errors"] = {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)}


def _lengths(part: Part, voices: Voices, facts: Utterances, compared: bool) -> None:
    """Utterances that are too short or too long. What may be either puts what it would change in doubt."""
    size = len(facts.rows)
    whole = ~voices.failed[facts.rows] & ~facts.under_way & compared
    unknown = (facts.pair_audio_ns <= 0) & whole
    # One that ended well and left no audio is short; nobody knows that it did not run away.
    unheard = unknown | (voices.played.chunks[facts.rows] == 0) & whole
    lacking = NO_SHORT if size else NO_STREAM
    for name, found, untold in (("short", facts.short, unknown), ("runaway", facts.runaway, unheard)):
        count, missing = int(np.count_nonzero(found)), int(np.count_nonzero(untold))
        told = size if missing < size else 0
        reason = lacking if unknown.any() or not size else NO_AUDIO
        if size and facts.under_way.all():
            told, reason = 0, EARLIER
        put_exact(part, name, count, told, reason)
        if missing and told:
            worst = Part()
            put_exact(worst, WORST, count + missing, size, "")
            part.doubts[name] = Doubted(reason=SOME_SHORT.format(missing), worst=worst)
    missing = int(np.count_nonzero(unknown))
    if missing:
        worst = Part()
        put_share(worst, WORST, Share(good=facts.clean & ~unknown, blocks=facts.blocks), "")
        reason = SOME_SHORT.format(missing) if missing < size else NO_SHORT
        part.doubts["clean_share"] = Doubted(reason=reason, worst=worst)


def _pooled_gaps(part: Part, voices: Voices, facts: Utterances) -> None:
    """Gaps between bursts over the whole stage, and those of all chunks by time: a picture, with n, never
    gated (chunks are no independent units)."""
    some = bool(len(facts.rows))
    gaps_ns, offsets = gaps_within(voices)
    every = gaps_ns[columns.rows_of(offsets, facts.rows)]
    values = milliseconds(every[every >= BURST_NS])
    gaps = Quantiles(values=values, blocks=np.zeros(len(values), dtype=np.int64))
    lacking = NO_GAP if some else NO_STREAM
    put_quantiles(part, "chunk_gap_ms", gaps, ("p50", "p95", "p99"), lacking, count=True)
    ranks = (50, 95, 99)
    for rank, value in zip(ranks, gaps_time_weighted(every, ranks), strict=True):
        path = f"chunk_gap_time_weighted_ms.p{rank}"
        lacking = NO_SECOND if some else NO_STREAM
        put(part, path, None if value is None else ms_from_ns(value), lacking, digits=3)


def _stalls(part: Part, voices: Voices, facts: Utterances) -> None:
    """Sums cover all streams that played, until they were given up."""
    rows, size = facts.rows, len(facts.rows)
    played = voices.played
    began = played.began[rows]
    stall = np.where(began, played.stall_total_ns[rows], 0)
    longest = np.where(began, played.stall_longest_ns[rows], 0)
    heard = np.where(began, played.heard_ns[rows], 0)
    playing = int(np.count_nonzero(began))
    reason = "nothing was ever played" if size else NO_STREAM
    if size and not playing:
        # Silence from beginning to end is no stall of a player, and yet infinitely bad.
        reason = "+inf"
    underruns = int(np.where(began, played.underruns[rows], 0).sum())
    put_exact(part, "underruns", underruns, playing, reason)
    put_exact(part, "stall_ms.total", ms_from_ns(int(stall.sum())), playing, reason)
    put_exact(part, "stall_ms.longest", ms_from_ns(int(longest.max(initial=0))), playing, reason)
    put_ratio(part, "stall_ratio", _stall_ratio(voices, facts, stall, heard), reason)


def _stall_ratio(voices: Voices, facts: Utterances, stall: Ints, heard: Ints) -> Ratio:
    """A unit an utterance; of one under way, which lasts for many blocks of time, a unit a block."""
    whole = ~facts.under_way
    stalls, heards, blocks = [stall[whole]], [heard[whole]], [facts.blocks[whole]]
    block_ns = block_length_ns(int(voices.played.audio_ns.max(initial=0)))
    for place in np.flatnonzero(facts.under_way):
        silence, audio = silence_by_block(voices, int(facts.rows[place]), block_ns)
        stalls.append(silence)
        heards.append(audio)
        blocks.append(facts.blocks[place] + np.arange(len(silence), dtype=np.int64))
    silent, audible = np.concatenate(stalls), np.concatenate(heards)
    lasts = (silent + audible) / NS_PER_MS
    return Ratio(
        numerators=silent / NS_PER_MS,
        denominators=lasts,
        blocks=np.concatenate(blocks),
        rare=Rare(size=UNSEEN_SHARE * float(lasts.sum()) / max(1, len(lasts))),
    )


def _continuity(part: Part, stall_ns: Ints, failed: Bools, silent: Bools, blocks: Ints, lacking: str) -> None:
    """SGLang-Omni's C50, C100, C200: no stall above that without any lookahead; a single chunk is left
    out."""
    applies = (stall_ns != NULL_NS) | failed | silent
    for name, limit_ns in (("c50", 50), ("c100", 100), ("c200", 200)):
        good = (stall_ns <= limit_ns * NS_PER_MS) & ~failed & ~silent
        sample = Share(good=good[applies], blocks=blocks[applies])
        reason = "every utterance came in a single chunk" if len(stall_ns) else lacking
        put_share(part, f"continuity.{name}", sample, reason)
