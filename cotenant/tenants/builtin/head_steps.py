"""The talking head's forwards as its engine asks for them: launched anew, or recorded and replayed."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.ditto import FEATURES_PER_CHUNK, WINDOW_SAMPLES, AudioEncoder, HeadSizes
from cotenant.tenants.builtin.shapes.graphs import Recorder
from cotenant.tenants.builtin.shapes.lmdm import Lmdm, LmdmSizes
from cotenant.tenants.builtin.shapes.motion import MotionModel, MotionSizes, Run
from cotenant.tenants.builtin.shapes.portrait import FrameDecoder, Stitcher, Warp


def motion_model(sizes: MotionSizes, feature: int) -> MotionModel:
    """The motion model that these sizes are of."""
    return Lmdm(sizes, feature) if isinstance(sizes, LmdmSizes) else MotionModel(sizes, feature)


class HeadModel(nn.Module):
    """The head's parts; those of the picture and of the motion may be in other precisions than the encoder.

    The encoder is in 32-bit floats.
    """

    def __init__(
        self,
        sizes: HeadSizes,
        picture_dtype: torch.dtype = torch.float32,
        motion_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = AudioEncoder(sizes.audio)
        self.motion = motion_model(sizes.motion, sizes.audio.feature).to(motion_dtype)
        self.stitcher = Stitcher(sizes.motion.motion, sizes.portrait.key_points).to(picture_dtype)
        self.warp = Warp(sizes.portrait).to(picture_dtype)
        self.decoder = FrameDecoder(sizes.portrait).to(picture_dtype)

    def put_channels_last(self, axes: Sequence[int]) -> None:
        """Reorders the picture's weights of so many axes (4 for planes, 5 for volumes)."""
        orders = {4: torch.channels_last, 5: torch.channels_last_3d}
        for part in (self.warp, self.decoder):
            for weight in part.parameters():
                if weight.dim() in axes:
                    weight.data = weight.data.contiguous(memory_format=orders[weight.dim()])


class Steps:
    """Every kernel is launched by the host.

    Audio and motion have a stream of their own on a GPU, in which all their tensors live; what goes on to
    the pictures goes over the host. So the two overlap there, as threads that share a GPU would have it.
    """

    def __init__(self, model: HeadModel) -> None:
        self.model, self.sizes = model, model.sizes
        self.device, self.picture_dtype = model.warp.volume.device, model.warp.volume.dtype
        self._side: torch.cuda.Stream | None = None
        self._pieces: deque[torch.cuda.Event] = deque()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the weights are made in the main stream
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While it lasts, work goes to the stream of audio and motion."""
        if self._side is None:
            yield
            return
        with torch.cuda.stream(self._side):
            yield

    def blank(self) -> tuple[Tensor, Tensor]:
        """What a session begins with: (window, feature) of silence and (window, motion) of rest."""
        motion = self.sizes.motion
        with self.aside():
            return (
                torch.zeros(motion.window, self.sizes.audio.feature, device=self.device),
                torch.zeros(motion.window, motion.motion, device=self.device),
            )

    def hop(self, x: Tensor) -> Tensor:
        """The same, after a way over the host where the head's parts are joined by it."""
        return torch.from_numpy(x.cpu().numpy()).to(x.device) if self.sizes.host_hops else x

    def encode(self, window: Tensor) -> Tensor:
        """(WINDOW_SAMPLES,) samples on the host -> (FEATURES_PER_CHUNK, feature)."""
        with self.aside():
            return self.hop(self.encoded(window))

    def encoded(self, window: Tensor) -> Tensor:
        """As `encode`, without the way over the host."""
        features: Tensor = self.model.encoder(window.to(self.device).unsqueeze(0))
        return features

    def begin_motion(self, features: Tensor, shown: Tensor) -> "Motion":
        """A clip's motion; its `piece` is to be called `motion.pieces` times, then `moved`."""
        with self.aside():
            run, piece = self.model.motion.begin(features, shown)
        return Motion(run=run, piece=piece)

    def advance(self, motion: "Motion") -> None:
        """Begins the next piece; `under_way` and `wait` say when it is done."""
        with self.aside():
            motion.piece()
            if self._side is not None:
                done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
                done.record()
                self._pieces.append(done)

    @property
    def under_way(self) -> int:
        """Pieces begun and not yet done."""
        while self._pieces and self._pieces[0].query():  # type: ignore[no-untyped-call]
            self._pieces.popleft()
        return len(self._pieces)

    def wait(self) -> None:
        """Returns when the oldest piece that is under way is done."""
        if self._pieces:
            self._pieces.popleft().synchronize()

    def moved(self, motion: "Motion") -> tuple[Tensor, Tensor]:
        """A clip's motion (new, motion), and each frame's key points (new, key_points, 3) on the host."""
        with self.aside():
            moved = self.hop(self.model.motion.moved(motion.run))
            return moved, torch.stack([self.stitched(one) for one in moved.to(self.picture_dtype)]).cpu()

    def stitched(self, motion: Tensor) -> Tensor:
        """(motion,) -> (key_points, 3)."""
        driving: Tensor = self.model.stitcher(motion)
        return driving

    def picture(self, driving: Tensor) -> Tensor:
        """(key_points, 3) on the host -> (pixels, pixels, 3) bytes on the device, to be read at once."""
        picture: Tensor = self.model.decoder(self.hop(self.warped(driving.to(self.device))))
        return picture

    def warped(self, driving: Tensor) -> Tensor:
        """The portrait's features at these key points."""
        warped: Tensor = self.model.warp(self.model.stitcher.source, driving)
        return warped


class RecordedSteps(Steps):
    """Each part is one replay, the motion one a piece; a clip has a fixed number of frames."""

    def __init__(self, model: HeadModel) -> None:
        super().__init__(model)
        new = model.sizes.clip_chunks * FEATURES_PER_CHUNK
        with torch.inference_mode():
            # Calls that may run at one time must not share what they use up inside: a recorder each.
            with self.aside():
                aside = Recorder(self.device)
                self._window = torch.zeros(WINDOW_SAMPLES, device=self.device)
                self._encode = aside.record(lambda: Steps.encoded(self, self._window))
                model.motion.record(aside, new)
                self._motion = torch.zeros(
                    model.sizes.motion.motion, dtype=self.picture_dtype, device=self.device
                )
                self._stitch = aside.record(lambda: Steps.stitched(self, self._motion))
            recorder = Recorder(self.device)
            self._driving = model.stitcher.source.clone()
            self._warp = recorder.record(lambda: Steps.warped(self, self._driving))
            self._label = Steps.warped(self, self._driving).clone()
            self._decode = recorder.record(self._decoded)

    def encoded(self, window: Tensor) -> Tensor:
        self._window.copy_(window)
        return self._encode().clone()

    def stitched(self, motion: Tensor) -> Tensor:
        self._motion.copy_(motion)
        return self._stitch().clone()

    def picture(self, driving: Tensor) -> Tensor:
        self._driving.copy_(driving)
        self._label.copy_(self.hop(self._warp()))
        return self._decode()

    def _decoded(self) -> Tensor:
        picture: Tensor = self.model.decoder(self._label)
        return picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """A clip's motion that is under way."""

    run: Run
    piece: Callable[[], None]
