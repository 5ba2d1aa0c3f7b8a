"""The talking head's engine: sessions whose audio becomes features, clips of motion, and frames, in turns."""

import io
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from cotenant.tenants.builtin.runtime import Runtime, prepare
from cotenant.tenants.builtin.shapes.ditto import (
    AHEAD_SAMPLES,
    CHUNK_SAMPLES,
    FEATURES_PER_CHUNK,
    PAST_SAMPLES,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    AudioEncoder,
    HeadSizes,
    MotionModel,
)
from cotenant.tenants.builtin.shapes.portrait import FrameDecoder, Stitcher, Warp
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
    audio: Samples = field(default_factory=lambda: np.zeros(PAST_SAMPLES, np.int16))
    received: int = 0
    total_samples: int | None = None
    chunks: int = 0
    sent: int = 0
    features: Tensor | None = None
    shown: Tensor | None = None
    due: deque[tuple[int, Tensor]] = field(default_factory=deque)

    def frames_before(self, samples: int) -> int:
        """Frames whose time lies before this many samples: ceil(samples * fps / rate)."""
        return -(-samples * self.fps // SAMPLE_RATE_HZ)

    @property
    def chunk_ready(self) -> bool:
        """Whether all audio that the next run of the audio encoder sees is there."""
        if self.total_samples is not None:
            return self.chunks * CHUNK_SAMPLES < self.total_samples
        return self.received >= (self.chunks + 1) * CHUNK_SAMPLES + AHEAD_SAMPLES


class HeadModel(nn.Module):
    """The head's parts."""

    def __init__(self, sizes: HeadSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = AudioEncoder(sizes.audio)
        self.motion = MotionModel(sizes.motion, sizes.audio.feature)
        self.stitcher = Stitcher(sizes.motion.motion, sizes.portrait.key_points)
        self.warp = Warp(sizes.portrait)
        self.decoder = FrameDecoder(sizes.portrait)


class HeadEngine:
    """Sessions take turns, one piece of work each: a clip's features and motion, or one frame.

    A clip is what one run of the audio encoder (200 ms) covers. Its work begins when its audio and the
    encoder's look-ahead have arrived; its frames then follow one another, a burst as Ditto makes it.
    """

    def __init__(self, model: HeadModel) -> None:
        self.model, self.sizes = model, model.sizes
        self._like = model.warp.volume
        self._sessions: deque[Session] = deque()

    @property
    def active(self) -> int:
        return len(self._sessions)

    def add(self, session: Session) -> None:
        """Begins a session whose audio comes by `feed`."""
        motion = self.sizes.motion
        session.features = torch.zeros(motion.window, self.sizes.audio.feature).to(self._like)
        session.shown = torch.zeros(motion.window, motion.motion).to(self._like)
        self._sessions.append(session)

    def feed(self, session: Session, samples: Samples) -> None:
        """More of a session's audio, 16 kHz."""
        session.audio = np.concatenate((session.audio, samples))
        session.received += len(samples)

    def end(self, session: Session) -> None:
        """No more audio: what is left is flushed, with silence after it."""
        session.total_samples = session.received
        session.audio = np.concatenate((session.audio, np.zeros(WINDOW_SAMPLES, np.int16)))

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
        if session.chunk_ready:
            self._move(session)
            return True
        if session.total_samples is not None:
            session.send(session.sent)
            self._sessions.remove(session)
        return False

    def _move(self, session: Session) -> None:
        """The features of the next 200 ms and the motion of its frames."""
        assert session.features is not None
        assert session.shown is not None
        window = torch.from_numpy(session.audio[:WINDOW_SAMPLES].astype(np.float32) / 32768).to(self._like)
        features = self.model.encoder(window.unsqueeze(0))
        session.features = torch.cat((session.features[FEATURES_PER_CHUNK:], features))
        moved = self.model.motion(session.features, session.shown[FEATURES_PER_CHUNK:])
        session.shown = torch.cat((session.shown[FEATURES_PER_CHUNK:], moved))
        session.due.extend(self._due_frames(session, moved))
        session.audio = session.audio[CHUNK_SAMPLES:]
        session.chunks += 1

    def _due_frames(self, session: Session, moved: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The frames of this clip with the motion nearest to their time (25 a second; one each at 25 fps)."""
        start, end = session.chunks * CHUNK_SAMPLES, (session.chunks + 1) * CHUNK_SAMPLES
        last = session.frames_before(min(end, session.total_samples or end))
        for index in range(session.frames_before(start), last):
            at = index * SAMPLE_RATE_HZ // session.fps - start
            yield index, moved[at * FEATURES_PER_CHUNK // CHUNK_SAMPLES]

    def _render(self, session: Session, index: int, motion: Tensor) -> None:
        driving = self.model.stitcher(motion)
        picture = self.model.decoder(self.model.warp(self.model.stitcher.source, driving)).cpu().numpy()
        out = io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=self.sizes.portrait.jpeg_quality)
        session.sent += 1
        session.send(Frame(index=index, media_time_ns=index * NS_PER_S // session.fps, jpeg=out.getvalue()))


def build(sizes: HeadSizes, runtime: Runtime) -> HeadEngine:
    """A head with random weights; to be called in the thread that steps it."""
    device, dtype = prepare(runtime, sizes.cpu_threads)
    with device:
        model = HeadModel(sizes)
    return HeadEngine(model.to(device=device, dtype=dtype).eval().requires_grad_(False))
