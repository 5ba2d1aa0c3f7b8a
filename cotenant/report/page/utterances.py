"""The `utterances` of the page's data: every measured one, worst first, down to its chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.report.page.activity import Activity, beside
from cotenant.report.page.base import Base, ms, ms_list, numbers, rows
from cotenant.scenario.schema import Voices
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL
from cotenant.verdict.texts import measured_texts, text_numbers

# Chunks whose arrivals are in the page: 400,000 take 3 MB of it. Those of utterances that stalled go first
# and may take twice that.
MOST_CHUNKS: Final = 400_000
NO_AUDIO_ASKED: Final = "only the sound of the worst utterances is in the page: cotenant listen {} {}"
_TOO_BIG: Final = "left out: the page would grow too big (the arrivals of {} utterances with more headroom)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What the page knows from elsewhere: by stream its sound (a data URI, or None and why), by load the
    measured texts; and the run as commands name it, a word of a shell."""

    audio: Mapping[int, tuple[str | None, str]]
    texts: Mapping[str, Sequence[str]]
    run: str = "RUN"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One utterance: its stage, its place in it and its row of the voices."""

    stage: str
    place: int
    voice: int
    headroom: float
    due_ns: int


def utterances(
    base: Base,
    activity: Activity,
    causes: Mapping[int, list[dict[str, Any]]],
    extras: Extras,
    most_chunks: int = MOST_CHUNKS,
) -> list[dict[str, Any]]:
    """By headroom, the worst first; ties by due."""
    listed = worst_first(base)
    detailed = _with_detail(base, listed, most_chunks)
    left_out = len(listed) - len(detailed)
    words = _words(base)
    numbered = _text_of(base, extras.texts)
    events = base.facts.voices.played.events
    spans = np.searchsorted(events.stream, np.arange(len(base.facts.voices.streams) + 1))
    found = []
    for row in listed:
        entry = _entry(base, row, words)
        entry["text"] = numbered.get(row.voice)
        stream = entry["stream"]
        entry["causes"] = causes.get(stream, [])
        entry["audio"], why = extras.audio.get(stream, (None, NO_AUDIO_ASKED.format(extras.run, stream)))
        entry["audio_why"] = None if entry["audio"] else why
        kept = row.voice in detailed
        entry["detail"], entry["detail_why"] = kept, None if kept else _TOO_BIG.format(left_out)
        own = slice(spans[row.voice], spans[row.voice + 1]) if kept else slice(0, 0)
        entry |= _detail(base, row, own, kept)
        entry["overlaps"] = _overlaps(base, activity, row, stream) if kept else []
        found.append(entry)
    return found


def worst_first(base: Base) -> list[_Row]:
    """All measured utterances of all stages, by headroom."""
    due = base.facts.voices.streams.due
    listed = [
        _Row(stage=stage, place=place, voice=voice, headroom=headroom, due_ns=int(due[voice]))
        for stage, own in base.own.items()
        for place, (voice, headroom) in enumerate(
            zip(own.rows.tolist(), own.values["headroom_ms"].tolist(), strict=True)
        )
    ]
    return sorted(listed, key=lambda row: (row.headroom, row.due_ns, row.voice))


def _with_detail(base: Base, listed: Sequence[_Row], most: int) -> set[int]:
    """The rows of the voices whose chunks are in the page."""
    played = base.facts.voices.played
    kept: set[int] = set()
    used = 0
    stalled = [row for row in listed if played.underruns[row.voice]]
    for limit, candidates in ((2 * most, stalled), (most, listed)):
        for row in candidates:
            if row.voice in kept:
                continue
            count = int(played.chunks[row.voice])
            if used + count > limit:
                break
            used += count
            kept.add(row.voice)
    return kept


def _words(base: Base) -> dict[int, tuple[str, str, str]]:
    """Stream -> tenant, kind of error, error."""
    table = rows(base.recording, "streams")
    return dict(
        zip(
            columns.ints(table, "stream").tolist(),
            zip(*(columns.texts(table, name) for name in ("tenant", "error_kind", "error")), strict=True),
            strict=True,
        )
    )


def _text_of(base: Base, texts: Mapping[str, Sequence[str]]) -> dict[int, str]:
    """Row of the voices -> what it was to say, where that is known."""
    facts = base.facts
    found, first = {}, 0
    number = text_numbers(facts.plan.scenario, facts.voices.streams)
    for name, load in facts.plan.scenario.load.items():
        if not isinstance(load, Voices):
            continue
        said = texts.get(name, ())
        mine = np.flatnonzero((facts.voices.streams.load == name) & (number >= 0))
        for row in mine.tolist():
            at = int(number[row]) - first
            if 0 <= at < len(said):
                found[row] = said[at]
        first += measured_texts(load.text)
    return found


def _entry(base: Base, row: _Row, words: Mapping[int, tuple[str, str, str]]) -> dict[str, Any]:
    voices, own = base.facts.voices, base.own[row.stage]
    streams, played = voices.streams, voices.played
    at, voice = row.place, row.voice
    stream = int(streams.stream[voice])
    tenant, error_kind, error = words.get(stream, ("", "", ""))
    began = bool(played.began[voice])
    values = {name: numbers([own.values[name][at]], 2)[0] for name in own.values}
    return {
        "stream": stream,
        "stage": row.stage,
        "round": _known(streams.round[voice]),
        "load": str(streams.load[voice]),
        "tenant": str(tenant),
        "listener": _known(streams.listener[voice]),
        "utterance": _known(streams.utterance[voice]),
        "due_s": base.second(row.due_ns),
        "ttfa_ms": values["ttfa_ms"],
        "playback_ms": values["time_to_playback_ms"],
        "headroom_ms": values["headroom_ms"],
        "headroom_why": None if np.isfinite(row.headroom) else "+inf" if row.headroom > 0 else "-inf",
        "required_lookahead_ms": values["required_lookahead_ms"],
        "underruns": int(played.underruns[voice]) if began else None,
        "stall_ms": ms(int(played.stall_total_ns[voice])) if began else None,
        "stall_longest_ms": ms(int(played.stall_longest_ns[voice])) if began else None,
        "audio_ms": ms(int(played.audio_ns[voice])),
        "clean": bool(own.clean[at]),
        "short": bool(own.short[at]),
        "delayed_ms": ms(_known(streams.delayed[voice])),
        "end": str(streams.end[voice]) or None,
        "error_kind": str(error_kind) or None,
        "error": str(error) or None,
        "request_id": f"{base.recording.manifest.get('run_id', '')}-{stream}",
    }


def _known(value: Any) -> int | None:
    return None if int(value) == NULL else int(value)


def _detail(base: Base, row: _Row, own: slice, kept: bool) -> dict[str, Any]:
    voices = base.facts.voices
    played, streams = voices.played, voices.streams
    due, voice = row.due_ns, row.voice
    began = bool(played.began[voice])
    sent, done = _known(streams.sent[voice]), _known(streams.done[voice])
    low, high = voices.arrivals.offsets[voice], voices.arrivals.offsets[voice + 1]
    chunks = slice(low, high if kept else low)
    events = played.events
    return {
        "play_start_ms": ms(int(played.start_ns[voice]) - due) if began else None,
        "play_end_ms": ms(int(played.end_ns[voice]) - due) if began else None,
        "sent_ms": None if sent is None else ms(sent - due),
        "done_ms": None if done is None else ms(done - due),
        "arrival_ms": ms_list(voices.arrivals.arrival_ns[chunks] - due),
        "media_ms": ms_list(voices.arrivals.media_ns[chunks]),
        "events": [
            {"start_ms": start, "media_ms": media, "duration_ms": duration, "open": open_}
            for start, media, duration, open_ in zip(
                ms_list(events.start_ns[own] - due),
                ms_list(events.media_ns[own]),
                ms_list(events.duration_ns[own]),
                events.open[own].tolist(),
                strict=True,
            )
        ],
    }


def _overlaps(base: Base, activity: Activity, row: _Row, stream: int) -> list[dict[str, Any]]:
    played = base.facts.voices.played
    sent = _known(base.facts.voices.streams.sent[row.voice])
    ends = [int(base.facts.voices.arrivals.done_ns[row.voice])]
    if played.began[row.voice] and played.end_ns[row.voice] < PLUS_INF_NS:
        ends.append(int(played.end_ns[row.voice]))
    start = row.due_ns if sent is None else min(sent, row.due_ns)
    return beside(activity, stream, start, max(ends), row.due_ns)
