"""The talking head's engine: sessions whose audio becomes features, clips of motion, and frames, in turns."""

import functools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from cotenant.tenants.builtin.frame_writer import FrameWriter
from cotenant.tenants.builtin.head_session import Frame, Samples, Session
from cotenant.tenants.builtin.head_steps import HeadModel, Motion, RecordedSteps, Steps
from cotenant.tenants.builtin.runtime import Runtime, prepare, weights
from cotenant.tenants.builtin.shapes.ditto import (
    CHUNK_SAMPLES,
    FEATURES_PER_CHUNK,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    HeadSizes,
)
from cotenant.units import NS_PER_S

__all__ = ["Frame", "HeadEngine", "Session", "build", "measure_clip_ms", "show_once"]

MotionPrecision = Literal["float32", "tf32", "float16"]
# On a GPU. Ditto's engine of the motion is built for 32-bit floats, whose products TensorRT makes in TF32.
MOTION_PRECISION: Final[MotionPrecision] = "tf32"
_NAP_NS: Final = 2_000_000


@dataclass(slots=True, kw_only=True)
class Clip:
    """The clip whose motion is under way. `until_ns` holds it back: the host time it spends besides."""

    session: Session
    motion: Motion
    pieces_left: int
    until_ns: int | None = None


class HeadEngine:
    """One clip's motion at a time, in pieces, and between them the pictures of clips already moved.

    A clip is what one run of the audio encoder (200 ms) covers, or a few. Its work begins when its audio and
    the encoder's look-ahead have arrived, and no sooner than the clip before it is being shown; its frames
    then follow one another, a burst as Ditto makes it. Pieces are begun without waiting for them, so that on
    a GPU motion and pictures overlap, as Ditto's threads have it. Sessions take turns with both.
    `step_overhead_ns` passes after each clip's motion before its first picture; it stops nothing else.
    """

    def __init__(self, model: HeadModel, *, recorded: bool = False, step_overhead_ns: int = 0) -> None:
        self.model, self.sizes = model, model.sizes
        self.step_overhead_ns = step_overhead_ns
        self.clip_ms: float | None = None
        portrait = model.sizes.portrait
        self._steps = RecordedSteps(model) if recorded else Steps(model)
        self._writer = FrameWriter(self._steps.device, portrait.pixels, portrait.jpeg_quality)
        self._sessions: deque[Session] = deque()
        self._clip: Clip | None = None
        self._begun = 0

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
        session.features, session.shown = self._steps.blank()
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
        """Begins the next piece of motion, or what comes before the first or after the last one."""
        clip = self._clip
        if clip is None:
            return self._begin_clip()
        if not self._steps.idle:
            return False
        if clip.session.cancelled:
            self._clip = None
        elif clip.pieces_left:
            clip.pieces_left -= 1
            self._steps.advance(clip.motion)
        elif clip.until_ns is None:
            clip.until_ns = time.monotonic_ns() + self.step_overhead_ns
        elif time.monotonic_ns() < clip.until_ns:
            return False
        else:
            self._clip = None
            self._end_clip(clip)
        return True

    def _wait(self, clip: Clip) -> None:
        """For the piece that is under way; for no longer than one, so that other sessions get their turn."""
        if clip.until_ns is None:
            self._steps.wait()
        else:
            time.sleep(min(_NAP_NS, max(0, clip.until_ns - time.monotonic_ns())) / 1e9)

    def _begin_clip(self) -> bool:
        """The features of the next clip, of the session whose turn it is, and what its motion begins with."""
        frames = self.sizes.clip_chunks * FEATURES_PER_CHUNK
        ready = (one for one in self._sessions if one.clip_ready and len(one.due) <= frames)
        session = min(ready, key=lambda one: one.moved_at, default=None)
        if session is None or session.features is None or session.shown is None:
            return False
        self._begun += 1
        session.moved_at = self._begun
        features = [session.features]
        for start in range(0, session.clip_samples, CHUNK_SAMPLES):
            window = session.audio[start : start + WINDOW_SAMPLES].astype(np.float32) / 32768
            features.append(self._steps.encode(torch.from_numpy(window)))
        with self._steps.aside():
            session.features = torch.cat(features)[frames:]
            session.shown = session.shown[frames:]
        motion = self._steps.begin_motion(session.features, session.shown)
        self._clip = Clip(session=session, motion=motion, pieces_left=self.sizes.motion.pieces)
        return True

    def _end_clip(self, clip: Clip) -> None:
        """Its motion is made: it is what the next clip goes on from, and its frames are due."""
        session = clip.session
        assert session.shown is not None
        moved, driving = self._steps.moved(clip.motion)
        with self._steps.aside():
            session.shown = torch.cat((session.shown, moved))
        session.due.extend(self._due_frames(session, driving))
        session.audio = session.audio[session.clip_samples :]
        session.clips += 1

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
        self._writer.put(self._steps.picture(driving), lambda: not session.cancelled, deliver)

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


def build(
    sizes: HeadSizes,
    runtime: Runtime,
    *,
    channels_last: Sequence[int] = (4,),
    motion_precision: MotionPrecision = MOTION_PRECISION,
) -> HeadEngine:
    """A head with random weights; to be called in the thread that steps it.

    On a GPU the audio's and the motion's parts are in 32-bit floats (the motion's as `motion_precision`
    says) and the picture's in half precision, as Ditto's engines are. Weights of the picture with as many
    axes as `channels_last` names (4 for planes, 5 for volumes) have their channels last. The engine is
    warmed there and its `clip_ms` measured.
    """
    device, dtype = prepare(runtime, sizes.cpu_threads, half="float16")
    torch.backends.cuda.matmul.allow_tf32 = motion_precision != "float32"
    halved = motion_precision == "float16" and device.type != "cpu"
    with weights(device, torch.float32):
        model = HeadModel(sizes, dtype, torch.float16 if halved else torch.float32)
        model.eval().requires_grad_(False)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        model.put_channels_last(channels_last)
    overhead_ns = runtime.step_overhead_ns
    if overhead_ns is None:
        overhead_ns = sizes.clip_overhead_ns if runtime.recorded else 0
    engine = HeadEngine(model, recorded=runtime.recorded, step_overhead_ns=overhead_ns)
    if device.type == "cuda":
        show_once(engine)
        engine.clip_ms = measure_clip_ms(engine) + overhead_ns / 1e6
    return engine


def show_once(engine: HeadEngine) -> None:
    """A session of two clips, so that nothing is cold when the first one comes."""
    session = Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(2 * session.clip_samples, np.int16))
    engine.end(session)
    while engine.step():
        pass


def measure_clip_ms(engine: HeadEngine, clips: int = 3) -> float:
    """Mean wall time of a clip's motion alone, in ms, without any overhead; the engine serves nobody."""
    steps, new = engine._steps, engine.sizes.clip_chunks * FEATURES_PER_CHUNK
    with torch.inference_mode():
        features, shown = steps.blank()
        with steps.aside():
            shown = shown[new:]
        began_ns = time.perf_counter_ns()
        for _ in range(clips):
            motion = steps.begin_motion(features, shown)
            for _ in range(engine.sizes.motion.pieces):
                steps.advance(motion)
                steps.wait()
            steps.moved(motion)
        return (time.perf_counter_ns() - began_ns) / clips / 1e6
