"""The one cure that a recording can prove: another lookahead, and what it would cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cotenant.playback.blocks import part_of
from cotenant.playback.fleet import play_fleet
from cotenant.playback.gaps import stream_gaps
from cotenant.playback.options import PlayerOptions
from cotenant.playback.slowness import slower_than_real_time
from cotenant.units import NS_PER_MS, ms_from_ns
from cotenant.verdict.columns import Bools, Ints
from cotenant.verdict.facts import Facts
from cotenant.verdict.failures import failed_by_error
from cotenant.verdict.gates import OPS, gate_text
from cotenant.verdict.sample import Part, number_of
from cotenant.verdict.speech import speech_part
from cotenant.verdict.stages import StageFacts
from cotenant.verdict.utterances import utterances
from cotenant.verdict.voices import Voices, heard_within

STEP_NS: Final = 50 * NS_PER_MS
MOST_NS: Final = 5_000 * NS_PER_MS
# Of a player that refills or drops each step plays every stalled stream anew: a coarser walk.
OTHER_STEP_NS: Final = 5 * STEP_NS
MOSTLY: Final = 0.5
SLOWER: Final = "no lookahead helps: the voice is made slower than real time"
UNENDED: Final = "utterances that were under way before the measure window prove no lookahead"
_OF_PLAYBACK: Final = ("speech.clean_share", "speech.stall", "speech.headroom_ms", "speech.underruns")
_OF_PLAYER: Final = (*_OF_PLAYBACK, "speech.time_to_playback_ms")


def mend_of(facts: Facts, found: StageFacts, gates: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The smallest lookahead on a grid of 50 ms (250 ms for a player that refills or drops), up to 5 s, at
    which the stage's own voices pass every gate on what is heard, by value; None where no such gate failed.
    It is a cure (`cures`) if nothing else is left that fails.

    Found by replaying this recording with the run's own player, everything but the lookahead as it is. What
    failed by an error would have come with no lookahead: it is left out (`left_out`), and there is no cure.
    """
    asked = [gate for gate in gates if gate["level"] == "fail"]
    heard = [gate for gate in asked if gate["metric"].startswith(_OF_PLAYBACK)]
    if found.paired is None or all(gate["verdict"] != "fail" for gate in heard):
        return None
    came = ~failed_by_error(facts.voices.streams.end[found.paired.own.rows])
    left_out = int(np.count_nonzero(~came))
    replay = _replayer(facts, found, came)
    if left_out and (not came.any() or _holds(replay(facts.player.lookahead_ns), heard)):
        return None
    lookahead_ns, cut = None, bool(found.paired.own.under_way.any())
    if not cut:
        lookahead_ns = _search(lambda tried_ns: _holds(replay(tried_ns), heard), facts.player)
    slower = _slower_share(facts, found.paired.own.rows[came])
    if lookahead_ns is None:
        reason = f"no lookahead up to {MOST_NS // NS_PER_MS} ms lets these utterances pass"
        if cut:
            reason = UNENDED
        if slower >= MOSTLY:
            reason = SLOWER
        return {
            "lookahead_ms": None, "cures": False, "breaks": [], "slower_share": slower,
            "left_out": left_out, "why": {"lookahead_ms": reason},
        }  # fmt: skip
    part = replay(lookahead_ns)
    player = [gate for gate in asked if gate["metric"].startswith(_OF_PLAYER)]
    others = [
        gate for gate in asked if not gate["metric"].startswith(_OF_PLAYER) and gate["verdict"] == "fail"
    ]
    breaks = [gate_text(gate) for gate in player if not _holds(part, [gate])] + [
        gate_text(gate) for gate in others
    ]
    playback, reason = number_of(part, "speech.time_to_playback_ms.p95")
    return {
        "lookahead_ms": ms_from_ns(lookahead_ns),
        "clean_share": part.entry["speech"]["clean_share"],
        "time_to_playback_p95_ms": None if playback is None or np.isinf(playback) else playback,
        "cures": not breaks and not left_out,
        "breaks": breaks,
        "slower_share": slower,
        "left_out": left_out,
        "why": {"time_to_playback_p95_ms": reason} if reason else {},
    }


def _slower_share(facts: Facts, rows: Ints) -> float:
    """Share of the utterances that were made slower than real time: longer ones would need more lookahead."""
    slower = slower_than_real_time(part_of(facts.voices.arrivals, rows))
    return round(float(np.count_nonzero(slower)) / len(rows), 6) if len(rows) else 0.0


def _replayer(facts: Facts, found: StageFacts, came: Bools) -> Callable[[int], Part]:
    """lookahead -> the `speech` part of those utterances of the stage as another player would have it."""
    assert found.paired is not None
    own = found.paired.own
    rows, blocks, pair_audio_ns = own.rows[came], own.blocks[came], own.pair_audio_ns[came]
    arrivals = part_of(facts.voices.arrivals, rows)
    streams = facts.voices.streams.take(rows)
    since_ns, until_ns = facts.voices.since_ns[rows], facts.voices.until_ns[rows]
    gaps_ns, gap_offsets = stream_gaps(arrivals.arrival_ns, arrivals.offsets)

    def replay(lookahead_ns: int) -> Part:
        played = Voices(
            streams=streams,
            arrivals=arrivals,
            played=play_fleet(arrivals, replace(facts.player, lookahead_ns=lookahead_ns)),
            failed=facts.voices.failed[rows],
            gaps_ns=gaps_ns,
            gap_offsets=gap_offsets,
            reordered=0,
            since_ns=since_ns,
            until_ns=until_ns,
        )
        everything = np.arange(len(rows), dtype=np.int64)
        part = Part()
        voices = heard_within(played)
        told = utterances(voices, everything, blocks, pair_audio_ns)
        part.add("speech", speech_part(voices, told, compared=False))
        return part

    return replay


def _search(holds: Callable[[int], bool], player: PlayerOptions) -> int | None:
    """The smallest step that holds: by halving where more lookahead never stalls more, else one after the
    other."""
    last = MOST_NS // STEP_NS
    if player.after_underrun != "resume":
        return next((step for step in range(0, MOST_NS + 1, OTHER_STEP_NS) if holds(step)), None)
    if not holds(MOST_NS):
        return None
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if holds(middle * STEP_NS):
            high = middle
        else:
            low = middle + 1
    return high * STEP_NS


def _holds(part: Part, gates: Sequence[Mapping[str, Any]]) -> bool:
    for gate in gates:
        value, _ = number_of(part, gate["metric"])
        if value is None or not OPS[gate["op"]](value, gate["limit"]):
            return False
    return True
