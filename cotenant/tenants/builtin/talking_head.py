"""The talking head's engine: sessions whose audio becomes features, clips of motion, and frames, in turns."""

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from cotenant.tenants.builtin.head_steps import HeadModel, RecordedSteps, Steps
from cotenant.tenants.builtin.runtime import Runtime, prepare, spend_host_time, weights
from cotenant.tenants.builtin.shapes.ditto import (
    AHEAD_SAMPLES,
    CHUNK_SAMPLES,
    FEATURES_PER_CHUNK,
    PAST_SAMPLES,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    HeadSizes,
)
from cotenant.units import NS_PER_S

Samples = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture: its number, its time in the audio, its JPEG."""

    index: int
    media_time_ns: int
    jpeg: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One face. `send` gets frames in order and, at the end, how many there were, in the engine's thread.

    `total_samples` is known once the audio has ended. Setting `cancelled` from any thread drops the session.
    """

    fps: int
    send: Callable[[Frame | int], None]
    cancelled: bool = False
    clip_samples: int = CHUNK_SAMPLES
    audio: Samples = field(default_factory=lambda: np.zeros(PAST_SAMPLES, np.int16))
    received: int = 0
    total_samples: int | None = None
    clips: int = 0
    sent: int = 0
    features: Tensor | None = None
    shown: Tensor | None = None
    due: deque[tuple[int, Tensor]] = field(default_factory=deque)

    def frames_before(self, samples: int) -> int:
        """Frames whose time lies before this many samples: ceil(samples * fps / rate)."""
        return -(-samples * self.fps // SAMPLE_RATE_HZ)

    @property
    def clip_ready(self) -> bool:
        """Whether all audio that the next clip's runs of the audio encoder see is there."""
        if self.total_samples is not None:
            return self.clips * self.clip_samples < self.total_samples
        return self.received >= (self.clips + 1) * self.clip_samples + AHEAD_SAMPLES


class HeadEngine:
    """Sessions take turns, one piece of work each: a clip's features and motion, or one frame.

    A clip is what one run of the audio encoder (200 ms) covers, or a few. Its work begins when its audio and
    the encoder's look-ahead have arrived; its frames then follow one another, a burst as Ditto makes it.
    """

    def __init__(self, model: HeadModel, *, recorded: bool = False, step_overhead_ns: int = 0) -> None:
        self.model, self.sizes = model, model.sizes
        self.step_overhead_ns = step_overhead_ns
        self._steps = RecordedSteps(model) if recorded else Steps(model)
        self._sessions: deque[Session] = deque()

    @property
    def active(self) -> int:
        return len(self._sessions)

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
        """One piece of work for the next session that has any; False if none has."""
        for _ in range(len(self._sessions)):
            session = self._sessions[0]
            self._sessions.rotate(-1)
            if session.cancelled:
                self._sessions.remove(session)
                continue
            with torch.inference_mode():
                if self._work(session):
                    return True
        return False

    def _work(self, session: Session) -> bool:
        if session.due:
            self._render(session, *session.due.popleft())
            return True
        if session.clip_ready:
            self._move(session)
            return True
        if session.total_samples is not None:
            session.send(session.sent)
            self._sessions.remove(session)
        return False

    def _move(self, session: Session) -> None:
        """The features of the next clip and the motion of its frames."""
        assert session.features is not None
        assert session.shown is not None
        spend_host_time(self.step_overhead_ns)
        features = [session.features]
        for start in range(0, session.clip_samples, CHUNK_SAMPLES):
            window = session.audio[start : start + WINDOW_SAMPLES].astype(np.float32) / 32768
            features.append(self._steps.encode(torch.from_numpy(window)))
        new = session.clip_samples // CHUNK_SAMPLES * FEATURES_PER_CHUNK
        session.features = torch.cat(features)[new:]
        moved = self._steps.move(session.features, session.shown[new:])
        session.shown = torch.cat((session.shown[new:], moved))
        session.due.extend(self._due_frames(session, moved))
        session.audio = session.audio[session.clip_samples :]
        session.clips += 1

    def _due_frames(self, session: Session, moved: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The frames of this clip with the motion nearest to their time (25 a second; one each at 25 fps)."""
        start, end = session.clips * session.clip_samples, (session.clips + 1) * session.clip_samples
        last = session.frames_before(min(end, session.total_samples or end))
        for index in range(session.frames_before(start), last):
            at = index * SAMPLE_RATE_HZ // session.fps - start
            yield index, moved[at * FEATURES_PER_CHUNK // CHUNK_SAMPLES]

    def _render(self, session: Session, index: int, motion: Tensor) -> None:
        picture = self._steps.picture(motion).cpu().numpy()
        out = io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=self.sizes.portrait.jpeg_quality)
        session.sent += 1
        session.send(Frame(index=index, media_time_ns=index * NS_PER_S // session.fps, jpeg=out.getvalue()))


def build(sizes: HeadSizes, runtime: Runtime, *, channels_last: Sequence[int] = (4,)) -> HeadEngine:
    """A head with random weights; to be called in the thread that steps it.

    On a GPU the audio's and the motion's parts are in 32-bit floats and the picture's in half precision, as
    Ditto's engines are. Weights of the picture with as many axes as `channels_last` names (4 for planes, 5
    for volumes) have their channels last.
    """
    device, dtype = prepare(runtime, sizes.cpu_threads, half="float16")
    with weights(device, torch.float32):
        model = HeadModel(sizes, dtype).eval().requires_grad_(False)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        model.put_channels_last(channels_last)
    engine = HeadEngine(model, recorded=runtime.recorded, step_overhead_ns=runtime.step_overhead_ns or 0)
    if device.type == "cuda":
        show_once(engine)
    return engine


def show_once(engine: HeadEngine) -> None:
    """A session of two clips, so that nothing is cold when the first one comes."""
    session = Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(2 * session.clip_samples, np.int16))
    engine.end(session)
    while engine.step():
        pass
