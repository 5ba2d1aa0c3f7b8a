"""The talking head's engine: sessions whose audio becomes features, clips of motion, and frames, in turns."""

import functools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from cotenant.tenants.builtin.answers import Frame
from cotenant.tenants.builtin.frame_writer import FrameWriter
from cotenant.tenants.builtin.head_session import Samples, Session
from cotenant.tenants.builtin.head_steps import HeadModel, Motion, RecordedSteps, Steps
from cotenant.tenants.builtin.shapes.ditto import (
    CHUNK_SAMPLES,
    FEATURES_PER_CHUNK,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
)
from cotenant.units import NS_PER_S

_NAP_NS: Final = 2_000_000
_PIECES_AHEAD: Final = 2  # so that one is there to go on with when another ends


@dataclass(slots=True, kw_only=True)
class Clip:
    """The clip that is being moved: the audio still to encode, the features so far, then the motion.

    `until_ns` holds it back once its motion is made: the host time that it spends besides.
    """

    session: Session
    windows: list[Tensor]
    features: list[Tensor]
    pieces_left: int
    motion: Motion | None = None
    until_ns: int | None = None


class HeadEngine:
    """One clip's motion at a time, in pieces, and between them the pictures of clips already moved.

    A clip is what one run of the audio encoder (200 ms) covers, or a few. Its work begins when its audio and
    the encoder's look-ahead have arrived, and no sooner than the clip before it is being shown; its frames
    then follow one another, a burst as Ditto makes it. Pieces are begun before those before them are done,
    in a stream of their own, so that on a GPU motion and pictures overlap, as Ditto's threads have it.
    Sessions take turns with both; one whose client is behind with reading begins no clip.
    `step_overhead_ns` passes after each clip's motion before its first picture; it stops nothing else.
    """

    def __init__(self, model: HeadModel, *, recorded: bool = False, step_overhead_ns: int = 0) -> None:
        self.model, self.sizes = model, model.sizes
        self.step_overhead_ns = step_overhead_ns
        self.clip_ms: float | None = None
        portrait = model.sizes.portrait
        self.steps = RecordedSteps(model) if recorded else Steps(model)
        self._writer = FrameWriter(self.steps.device, portrait.pixels, portrait.jpeg_quality)
        self._sessions: deque[Session] = deque()
        self._clip: Clip | None = None
        self._begun = 0
        self._frames = model.sizes.clip_chunks * FEATURES_PER_CHUNK  # of a clip, at 25 a second

    @property
    def active(self) -> int:
        """Sessions, and one more while the frames of one that has left are still being written."""
        return len(self._sessions) or int(self._writer.active)

    def close(self) -> None:
        """Ends the writer's thread; frames that were under way are dropped."""
        self._writer.close()

    def add(self, session: Session) -> None:
        """Begins a session whose audio comes by `feed`."""
        session.clip_samples = self.sizes.clip_chunks * CHUNK_SAMPLES
        session.features, session.shown = self.steps.blank()
        self._sessions.append(session)

    def feed(self, session: Session, samples: Samples) -> None:
        """More of a session's audio, 16 kHz."""
        session.audio = np.concatenate((session.audio, samples))
        session.received += len(samples)

    def end(self, session: Session) -> None:
        """No more audio: what is left is flushed, with silence after it."""
        session.total_samples = session.received
        session.audio = np.concatenate(
            (session.audio, np.zeros(session.clip_samples + WINDOW_SAMPLES, np.int16))
        )

    def step(self) -> bool:
        """A piece of motion and a picture, whichever there is to do; False if there is nothing."""
        self._sessions = deque(one for one in self._sessions if not one.cancelled)
        with torch.inference_mode():
            advanced = self._advance()
            shown = self._show_next()
            if advanced or shown:
                return True
            if self._clip is not None:
                self._wait(self._clip)
                return True
        return self._end_sessions() or self._writer.wait()

    def _advance(self) -> bool:
        """Goes on with a clip by a run of the encoder or a piece of motion, or ends it; False if none can."""
        ended = self._end_clip()
        self._clip = clip = self._clip or self._next_clip()
        if clip is None or clip.session.cancelled:
            return ended
        if clip.windows:
            clip.features.append(self.steps.encode(clip.windows.pop(0)))
        elif clip.pieces_left and self.steps.under_way < _PIECES_AHEAD:
            clip.motion = clip.motion or self._begin_motion(clip)
            clip.pieces_left -= 1
            self.steps.advance(clip.motion)
        else:
            return ended
        return True

    def _end_clip(self) -> bool:
        """The clip that is moved, if it is: the next one goes on from it, and its frames are due."""
        clip, steps = self._clip, self.steps
        if clip is None or steps.under_way or (clip.pieces_left and not clip.session.cancelled):
            return False
        if clip.session.cancelled or clip.motion is None:
            self._clip = None
            return True
        clip.until_ns = clip.until_ns or time.monotonic_ns() + self.step_overhead_ns
        if time.monotonic_ns() < clip.until_ns:
            return False
        self._clip, session = None, clip.session
        assert session.shown is not None
        moved, driving = steps.moved(clip.motion)
        with steps.aside():
            session.shown = torch.cat((session.shown, moved))
        session.due.extend(self._due_frames(session, driving))
        session.audio = session.audio[session.clip_samples :]
        session.clips += 1
        return True

    def _wait(self, clip: Clip) -> None:
        """For the oldest piece that is under way; for no longer, so that other sessions get their turn."""
        if clip.until_ns is None:
            self.steps.wait()
        else:
            time.sleep(min(_NAP_NS, max(0, clip.until_ns - time.monotonic_ns())) / 1e9)

    def _next_clip(self) -> Clip | None:
        """Of the session that has waited longest among those that have one ready."""
        ready = (
            one
            for one in self._sessions
            if one.clip_ready and len(one.due) <= self._frames and not one.behind()
        )
        session = min(ready, key=lambda one: one.moved_at, default=None)
        if session is None or session.features is None:
            return None
        self._begun += 1
        session.moved_at = self._begun
        windows = [
            torch.from_numpy(session.audio[start : start + WINDOW_SAMPLES].astype(np.float32) / 32768)
            for start in range(0, session.clip_samples, CHUNK_SAMPLES)
        ]
        pieces = self.sizes.motion.pieces
        return Clip(session=session, windows=windows, features=[session.features], pieces_left=pieces)

    def _begin_motion(self, clip: Clip) -> Motion:
        session = clip.session
        assert session.shown is not None
        with self.steps.aside():
            session.features = torch.cat(clip.features)[self._frames :]
            session.shown = session.shown[self._frames :]
        return self.steps.begin_motion(session.features, session.shown)

    def _due_frames(self, session: Session, driving: Tensor) -> Iterator[tuple[int, Tensor]]:
        """This clip's frames with the key points nearest to their time (25 a second; one each at 25 fps)."""
        start, end = session.clips * session.clip_samples, (session.clips + 1) * session.clip_samples
        last = session.frames_before(min(end, session.total_samples or end))
        for index in range(session.frames_before(start), last):
            at = index * SAMPLE_RATE_HZ // session.fps - start
            yield index, driving[at * FEATURES_PER_CHUNK // CHUNK_SAMPLES]

    def _show_next(self) -> bool:
        """The next picture of the session whose turn it is; none while those made before are in the way."""
        if self._writer.full:
            return False
        for _ in range(len(self._sessions)):
            session = self._sessions[0]
            self._sessions.rotate(-1)
            if session.due:
                self._show(session, *session.due.popleft())
                return True
        return False

    def _show(self, session: Session, index: int, driving: Tensor) -> None:
        def deliver(jpeg: bytes) -> None:
            session.send(Frame(index=index, media_time_ns=index * NS_PER_S // session.fps, jpeg=jpeg))

        session.sent += 1
        self._writer.put(self.steps.picture(driving), lambda: not session.cancelled, deliver)

    def _end_sessions(self) -> bool:
        """Tells the sessions that have all their frames; False if there is none."""
        ended = [
            one
            for one in self._sessions
            if one.total_samples is not None and not one.due and not one.clip_ready
        ]
        for session in ended:
            self._sessions.remove(session)
            self._writer.then(functools.partial(session.send, session.sent))
        return bool(ended)
