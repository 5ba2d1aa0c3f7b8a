"""The talking head's forwards as its engine asks for them: launched anew, or recorded and replayed."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.ditto import FEATURES_PER_CHUNK, AudioEncoder, HeadSizes
from cotenant.tenants.builtin.shapes.graphs import Recorder
from cotenant.tenants.builtin.shapes.lmdm import Lmdm, LmdmSizes
from cotenant.tenants.builtin.shapes.motion import MotionModel, MotionSizes
from cotenant.tenants.builtin.shapes.portrait import FrameDecoder, Stitcher, Warp


def motion_model(sizes: MotionSizes, feature: int) -> MotionModel:
    """The motion model that these sizes are of."""
    return Lmdm(sizes, feature) if isinstance(sizes, LmdmSizes) else MotionModel(sizes, feature)


class HeadModel(nn.Module):
    """The head's parts; those of the picture are in `picture_dtype`, the others in 32-bit floats."""

    def __init__(self, sizes: HeadSizes, picture_dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = AudioEncoder(sizes.audio)
        self.motion = motion_model(sizes.motion, sizes.audio.feature)
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
    """Every kernel is launched by the host."""

    def __init__(self, model: HeadModel) -> None:
        self.model, self.sizes = model, model.sizes
        self.device, self.picture_dtype = model.warp.volume.device, model.warp.volume.dtype

    def blank(self) -> tuple[Tensor, Tensor]:
        """What a session begins with: (window, feature) of silence and (window, motion) of rest."""
        motion = self.sizes.motion
        return (
            torch.zeros(motion.window, self.sizes.audio.feature, device=self.device),
            torch.zeros(motion.window, motion.motion, device=self.device),
        )

    def hop(self, x: Tensor) -> Tensor:
        """The same, after a way over the host where the head's parts are joined by it."""
        return torch.from_numpy(x.cpu().numpy()).to(x.device) if self.sizes.host_hops else x

    def encode(self, window: Tensor) -> Tensor:
        """(WINDOW_SAMPLES,) samples on the host -> (FEATURES_PER_CHUNK, feature)."""
        features: Tensor = self.model.encoder(window.to(self.device).unsqueeze(0))
        return self.hop(features)

    def move(self, features: Tensor, shown: Tensor) -> Tensor:
        """A clip's motion, (new, motion)."""
        moved: Tensor = self.model.motion(features, shown)
        return self.hop(moved)

    def picture(self, motion: Tensor) -> Tensor:
        """(motion,) -> (pixels, pixels, 3) bytes on the device."""
        driving = self.hop(self.model.stitcher(motion.to(self.picture_dtype)))
        picture: Tensor = self.model.decoder(self.hop(self.warped(driving)))
        return picture

    def warped(self, driving: Tensor) -> Tensor:
        """The portrait's features at these key points."""
        warped: Tensor = self.model.warp(self.model.stitcher.source, driving)
        return warped


class RecordedSteps(Steps):
    """Denoising step, warp and decoder are one replay each; a clip has a fixed number of frames."""

    def __init__(self, model: HeadModel) -> None:
        super().__init__(model)
        new = model.sizes.clip_chunks * FEATURES_PER_CHUNK
        recorder = Recorder(self.device)
        with torch.inference_mode():
            model.motion.record(recorder, new)
            self._driving = model.stitcher.source.clone()
            self._warp = recorder.record(lambda: Steps.warped(self, self._driving))
            self._label = Steps.warped(self, self._driving).clone()
            self._decode = recorder.record(self._decoded)

    def picture(self, motion: Tensor) -> Tensor:
        self._driving.copy_(self.hop(self.model.stitcher(motion.to(self.picture_dtype))))
        self._label.copy_(self.hop(self._warp()))
        return self._decode()

    def _decoded(self) -> Tensor:
        picture: Tensor = self.model.decoder(self._label)
        return picture
