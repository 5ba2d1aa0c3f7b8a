"""A face alone: the built-in recording handed over as a voice would bring it."""

import asyncio
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile

from cotenant.load.desk import Desk
from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.load.pacing import next_turn, schedule, text_line
from cotenant.load.resample import to_s16
from cotenant.load.settings import FacesLoad, VoicesLoad
from cotenant.load.stage import Stage, Ticket
from cotenant.load.tasks import end_task
from cotenant.load.transport import sleep_until
from cotenant.resources import data_dir
from cotenant.units import NS_PER_S

# Where no voice has been heard yet: packets of 4 codec frames, each as long as it lasts.
_DEFAULT_PACKET_NS: Final = 320_000_000
_LONG_TEXT_CHARACTERS: Final = 70


def recordings(voices: VoicesLoad | None) -> list[Path]:
    """The recordings, long ones where the voices that the face follows say long sentences."""
    lines = voices.measured if voices is not None else ()
    long = bool(lines) and sum(map(len, lines)) / len(lines) > _LONG_TEXT_CHARACTERS
    found = sorted((data_dir("fixtures") / "speech").glob("long-*.flac" if long else "short-*.flac"))
    if not found:
        raise FileNotFoundError("the recordings that ship with cotenant are missing; install it again")
    return found


def packets(pace: Sequence[tuple[int, int]], audio_ns: int) -> list[tuple[int, int]]:
    """(offset, duration) of packets of `audio_ns` in all: as in `pace`, then its steps again."""
    pattern = list(pace) or [(0, _DEFAULT_PACKET_NS), (_DEFAULT_PACKET_NS, _DEFAULT_PACKET_NS)]
    steps = [(at - before, media) for (at, media), (before, _) in zip(pattern[1:], pattern, strict=False)]
    steps = steps or [(pattern[0][1], pattern[0][1])]
    result: list[tuple[int, int]] = []
    at_ns, left_ns, index = 0, audio_ns, 0
    while left_ns > 0:
        if index < len(pattern):
            at_ns, media_ns = pattern[index]
        else:
            step_ns, media_ns = steps[index % len(steps)]
            at_ns += step_ns
        # A pattern without media (headers only) must not keep us here.
        media_ns = min(left_ns, max(media_ns, 1_000_000))
        result.append((at_ns, media_ns))
        left_ns -= media_ns
        index += 1
    return result


@functools.cache
def samples_of(path: Path) -> tuple[npt.NDArray[np.float32], int]:
    """The first channel of a recording, and its rate; read once. Raises soundfile.SoundFileError."""
    samples, rate_hz = soundfile.read(str(path), dtype="float32", always_2d=True)
    return samples[:, 0], rate_hz


async def play_recording(
    feed: FaceFeed, line: Callable[[], tuple[int, Path]], due_ns: int, pace: Sequence[tuple[int, int]]
) -> None:
    """Feeds the recording of `line`, which is asked when it is due; its first packet at once."""
    try:
        await sleep_until(due_ns)
        samples, rate_hz = samples_of(line()[1])
        position_ns = 0
        for offset_ns, media_ns in packets(pace, len(samples) * NS_PER_S // rate_hz):
            await sleep_until(due_ns + offset_ns)
            first, last = (t * rate_hz // NS_PER_S for t in (position_ns, position_ns + media_ns))
            feed.feed(to_s16(samples[first:last]), rate_hz, "s16")
            position_ns += media_ns
    finally:
        feed.end()


def start_faces(desk: Desk, stage: Stage, load: FacesLoad, voices: VoicesLoad | None) -> None:
    """Sets faces without their voices going, in turns of their own."""
    stage.planned[load.name] = load.listeners
    files = recordings(voices)
    lines = _Lines(stage, files)
    for listener in range(load.listeners):
        stage.spawn(_turns(desk, stage, load, voices, listener, lines))


class _Lines:
    """What each listener's face says: the recordings in order from the window on, before it the first one."""

    def __init__(self, stage: Stage, files: list[Path]) -> None:
        self._stage = stage
        self._files = files
        self._measured: dict[int, int] = defaultdict(int)

    def next(self, listener: int, due_ns: int) -> tuple[int, Path]:
        """Utterance (-1 before the window) and recording of what is due then, and begins now."""
        if not self._stage.begins(due_ns):
            return -1, self._file(listener, 0)
        number = self._measured[listener]
        self._measured[listener] += 1
        return number, self._file(listener, number)

    async def read_ahead(self, listener: int) -> None:
        """Has what may come next in memory."""
        for number in {0, self._measured[listener]}:
            await asyncio.to_thread(samples_of, self._file(listener, number))

    def _file(self, listener: int, number: int) -> Path:
        return self._files[text_line(listener, number, len(self._files))]


async def _turns(
    desk: Desk, stage: Stage, load: FacesLoad, voices: VoicesLoad | None, listener: int, lines: _Lines
) -> None:
    every_ns = voices.every_ns if voices is not None else 4 * NS_PER_S
    pause_ns = voices.pause_ns if voices is not None else NS_PER_S // 2
    key = f"{desk.settings.seed}/{load.name}"
    ticket: Ticket | None = None
    end_ns: int | None = None
    for scheduled_ns in schedule(key, stage.start_ns, every_ns, index=listener, count=load.listeners):
        due_ns, _ = next_turn(scheduled_ns, end_ns, pause_ns)
        ticket, last = stage.plan(due_ns, followed=True), ticket
        if last is not None:
            stage.close(last)
        await lines.read_ahead(listener)
        line = functools.cache(functools.partial(lines.next, listener, due_ns))
        end_ns = await one_clip(desk, stage, load, listener, line, due_ns)


async def one_clip(
    desk: Desk,
    stage: Stage,
    load: FacesLoad,
    listener: int,
    line: Callable[[], tuple[int, Path]],
    due_ns: int,
) -> int:
    """One recording through the head; when both it and its frames are over.

    `line` tells number and recording, always the same ones; it is asked when the clip is due, not before.
    """
    feed = FaceFeed(load, lambda: line()[0])
    ticket = stage.plan(due_ns, followed=True)
    playing = stage.spawn(play_recording(feed, line, due_ns, desk.pace))
    try:
        await show(desk, stage, feed, listener, due_ns, ticket)
        # A turn is over when it was heard and when nothing of it can come any more.
        samples, rate_hz = samples_of(line()[1])
        return max(due_ns + len(samples) * NS_PER_S // rate_hz, time.monotonic_ns())
    finally:
        await end_task(playing)
