"""Recordings of talking heads that draw in bursts and wait for sound between them, beside short prompts."""

from typing import Final, Literal

import numpy as np

from cotenant.records import Recording
from tests.verdict import prefills
from tests.verdict.recordings import MS, Builder, S

PACKETS, GAP_MS, MEDIA_MS, FRAMES = 30, 150.0, 160.0, 4
# A head has the pictures of a packet in this time, and then waits for the next one.
DRAW_MS: Final = 25.0
_SPAN_S: Final = 60


def run(kind: Literal["beside", "random"], seed: int, *, heads: int = 4, share: float = 0.15) -> Recording:
    """In the crowd some packets are drawn 900 to 1400 ms late: of those whose drawing a prompt overlaps
    (`beside`), or as many of all (`random`). Prompts are as short as a packet and are there a fifth of the
    time."""
    rng = np.random.default_rng(seed)
    builder = Builder(scenario=prefills.scenario(faces=True))
    builder.scenario["load"]["faces"]["listeners"] = heads
    prefills.watched(builder, 0, (3 * _SPAN_S + 100) * S)
    spans = _prompts(rng)
    for number, stage in enumerate(("alone", "crowd", "alone/again")):
        start = (10 + (_SPAN_S + 20) * number) * S
        builder.window(stage, start, start + _SPAN_S * S)
        for listener in range(heads):
            at, utterance = float(rng.uniform(0, 3000)), 0
            while at < _SPAN_S * 1000 - 1:
                due = start + round(at * MS)
                sound = [100 + GAP_MS * packet for packet in range(PACKETS)]
                builder.voice(stage, due, sound, [MEDIA_MS] * PACKETS, listener=listener, utterance=utterance)
                if stage == "crowd":
                    drawn = _drawn(rng, kind, at, sound, spans, share)
                    _show(builder, due, sound, drawn, listener, utterance)
                at += 5500 + float(rng.uniform(0, 1000))
                utterance += 1
        if stage == "crowd":
            for index, (begin, end) in enumerate(spans.tolist()):
                builder.asked(
                    "crowd", start + round(begin * MS), [end - begin], load="prefill",
                    done_ms=end - begin, utterance=index, prompt_tokens=4000,
                )  # fmt: skip
    return builder.build()


def _prompts(rng: np.random.Generator) -> np.typing.NDArray[np.float64]:
    """(Begin, end) of each, ms from the stage's start."""
    found, at = [], 0.0
    while at < (_SPAN_S + 8) * 1000:
        length = float(rng.uniform(30, 90))
        found.append((at, at + length))
        at += length + float(rng.exponential(4 * length)) + 5
    return np.array(found)


def _drawn(
    rng: np.random.Generator,
    kind: str,
    due_ms: float,
    sound_ms: list[float],
    spans: np.typing.NDArray[np.float64],
    share: float,
) -> list[float]:
    """When the pictures of each packet are there, ms after the utterance was due."""
    found, at = [], 0.0
    for handed in sound_ms:
        begun = max(at, handed)
        made = DRAW_MS + float(rng.normal(0, 1))
        low, high = due_ms + begun, due_ms + begun + made
        beside = bool(((spans[:, 0] < high) & (spans[:, 1] > low)).any())
        hit = (beside if kind == "beside" else rng.random() < 0.35) and rng.random() < share
        at = begun + made + (float(rng.uniform(900, 1400)) if hit else 0.0)
        found.append(at)
    return found


def _show(
    builder: Builder, due_ns: int, sound_ms: list[float], drawn_ms: list[float], listener: int, utterance: int
) -> None:
    arrivals = [at + 0.5 * frame for at in drawn_ms for frame in range(FRAMES)]
    builder.face("crowd", due_ns, arrivals, listener=listener, utterance=utterance)
    for index, row in enumerate(builder.rows["frames"][-len(arrivals) :]):
        row["audio_handed"] = due_ns + round(sound_ms[index // FRAMES] * MS)
