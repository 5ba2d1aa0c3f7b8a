"""All that is computed once for a whole run, before its stages are looked at one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from cotenant.verdict.blocks import block_length_ns, block_of
from cotenant.verdict.columns import NULL, Ints, Streams, read_streams
from cotenant.verdict.compare import pairs
from cotenant.verdict.faces import Faces, read_faces
from cotenant.verdict.implausible import mark_implausible
from cotenant.verdict.llm import Tokens, read_tokens
from cotenant.verdict.plan import Plan, StagePlan, measured_rows
from cotenant.verdict.texts import text_numbers
from cotenant.verdict.timing import Timing, TimingError, error_of, read_timing
from cotenant.verdict.under_way import UnderWay, find_under_way
from cotenant.verdict.utterances import Utterances, utterances
from cotenant.verdict.voices import Voices, heard_within, play_voices


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A run, played; `recording` without zeros of the GPU that cannot be.

    `measured` are rows of `streams` by stage (solo windows and the closing baseline too): what fell due there
    and, in `under_way`, what took the whole window. `voice_rows` are the rows of `voices` among them.
    `invalid_solos`: load -> why its solo window is INVALID: nothing is compared with it."""

    plan: Plan
    recording: Recording
    streams: Streams
    measured: Mapping[str, Ints]
    under_way: Mapping[str, UnderWay]
    voices: Voices
    voice_rows: Mapping[str, Ints]
    faces: Faces
    tokens: Tokens
    timing: Timing
    player: PlayerOptions
    block_ns: int
    tail: float
    invalid_solos: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The utterances of a stage and their pairs in the baseline: positions in both. `reference` None: there
    is no baseline, or this is it."""

    own: Utterances
    reference: Utterances | None
    matched: tuple[Ints, Ints]


def read_facts(recording: Recording, plan: Plan, options: PlayerOptions, tail: float) -> Facts:
    """Plays the measured voices and groups everything by stream."""
    recording = mark_implausible(recording)
    streams = read_streams(recording)
    every = [*plan.stages, *plan.solos, *([plan.again] if plan.again else [])]
    measured = {stage.name: measured_rows(plan, streams, stage.name) for stage in every}
    kinds = {name: load.kind for name, load in plan.loads.items()}
    kind = np.array([kinds.get(load, "") for load in streams.load], dtype=np.object_)
    under_way = find_under_way(recording, plan, streams, measured, kind, options)
    for name, part in under_way.items():
        measured[name] = np.union1d(measured[name], part.rows)
    voiced = {name: rows[kind[rows] == "voices"] for name, rows in measured.items()}
    chosen = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *voiced.values()]))
    voices = play_voices(recording, streams.take(chosen), options, plan.last_ns)
    voices = _windowed(voices, chosen, under_way)
    longest_ns = int(voices.played.audio_ns.max(initial=0))
    return Facts(
        plan=plan,
        recording=recording,
        streams=streams,
        measured=measured,
        under_way=under_way,
        voices=voices,
        voice_rows={name: np.searchsorted(chosen, rows).astype(np.int64) for name, rows in voiced.items()},
        faces=read_faces(recording, streams, measured, under_way, kind, voices, options, plan),
        tokens=read_tokens(recording, streams.take(kind == "completions")),
        timing=read_timing(recording, streams),
        player=options,
        block_ns=block_length_ns(longest_ns),
        tail=tail,
    )


def _windowed(voices: Voices, chosen: Ints, under_way: Mapping[str, UnderWay]) -> Voices:
    """The voices with the windows of those under way; `chosen` are their rows of `streams`, ascending."""
    if not under_way:
        return voices
    since, until = voices.since_ns.copy(), voices.until_ns.copy()
    for part in under_way.values():
        mine = np.isin(part.rows, chosen)
        place = np.searchsorted(chosen, part.rows[mine])
        since[place], until[place] = part.since_ns[mine], part.until_ns[mine]
    return heard_within(replace(voices, since_ns=since, until_ns=until))


def paired(facts: Facts, stage: StagePlan, *, by_round: bool) -> Paired:
    """The utterances of a stage with their pairs in the baseline.

    How long an utterance should be is told by its pair, else by another one of the same text there.
    """
    baseline = facts.plan.baseline
    rows = facts.voice_rows[stage.name]
    none = np.zeros(0, dtype=np.int64)
    if baseline is None or baseline.name == stage.name:
        return Paired(
            own=_utterances(facts, stage, np.full(len(rows), NULL)), reference=None, matched=(none, none)
        )
    other = facts.voice_rows[baseline.name]
    streams = facts.voices.streams
    left, right = pairs(streams.take(rows), streams.take(other), by_round=by_round)
    audio = _audio_of_text(facts, rows, other)
    # A pair that was cut says nothing of how long the utterance is.
    whole = ~facts.voices.failed[other[right]]
    audio[left[whole]] = facts.voices.played.audio_ns[other[right[whole]]]
    reference = _utterances(facts, baseline, np.full(len(other), NULL))
    return Paired(own=_utterances(facts, stage, audio), reference=reference, matched=(left, right))


def _audio_of_text(facts: Facts, rows: Ints, baseline: Ints) -> Ints:
    """How long the text of each of `rows` is in the baseline (the median of the whole ones there), `NULL`
    where none says it: a stage that was extended goes on where the baseline ended."""
    scenario, streams = facts.plan.scenario, facts.voices.streams
    whole = baseline[~facts.voices.failed[baseline]]
    texts, audio = text_numbers(scenario, streams.take(whole)), facts.voices.played.audio_ns[whole]
    order = np.lexsort((audio, texts))
    known, first, count = np.unique(texts[order], return_index=True, return_counts=True)
    median = audio[order[first + (count - 1) // 2]]
    own = text_numbers(scenario, streams.take(rows))
    found = np.full(len(rows), NULL)
    if len(known):
        place = np.minimum(np.searchsorted(known, own), len(known) - 1)
        same = (own >= 0) & (known[place] == own)
        found[same] = median[place[same]]
    return found


def judgeable(facts: Facts, stage: StagePlan) -> int:
    """How many voices tell something of the stage: what fell due in it, and of what was under way the bad."""
    rows = facts.voice_rows[stage.name]
    return int(np.count_nonzero(~facts.voices.under_way[rows] | ~facts.voices.played.clean[rows]))


def timing_errors(facts: Facts, stage: StagePlan) -> dict[str, TimingError]:
    """Our own timing error, for each load of a stage."""
    found = {}
    measured = facts.measured[stage.name]
    for name in stage.loads:
        sends = measured[facts.streams.load[measured] == name]
        arrivals = sends
        if facts.plan.loads[name].kind == "completions":
            # What began while the stage settled is at work in its window.
            mask = (facts.streams.stage == stage.name) & (facts.streams.load == name)
            arrivals = np.flatnonzero(mask).astype(np.int64)
        if (under_way := facts.under_way.get(stage.name)) is not None:
            # What was under way was sent while the stage settled: how late says nothing of the window.
            sends = sends[~np.isin(sends, under_way.rows)]
        found[name] = error_of(facts.timing, arrivals, sends)
    return found


def _utterances(facts: Facts, stage: StagePlan, pair_audio_ns: Ints) -> Utterances:
    rows = facts.voice_rows[stage.name]
    begun = np.maximum(facts.voices.streams.due[rows], facts.voices.since_ns[rows])
    blocks = block_of(begun, facts.plan.measured.get(stage.name, ()), facts.block_ns)
    return utterances(facts.voices, rows, blocks, pair_audio_ns)
