"""Writes a `DITTO_HOME` around a checkout of Ditto: its code, narrow networks of random weights, on the CPU.

What it loads from files of ONNX (the finders of a face, and HuBERT's place) is of constants, but for one
convolution that makes of audio what HuBERT would: 1024 numbers each 20 ms. Numbers are of 32 bits throughout.
"""

import functools
import importlib
import pickle
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float32]
CONDITIONS: Final = 1024 + 8 + 2 + 6 + 63  # audio, mood, eyes open, where they look, the key points
STEPS: Final = 2  # of denoising; 50 as it is released
_PIPELINE: Final = '''"""Ditto's online pipeline, its networks narrow."""

from pathlib import Path

from tests.tenants.real_models import ditto

ditto.narrow()
_at = Path({path!r})
exec(compile(_at.read_text(encoding="utf-8"), str(_at), "exec"))
'''


def narrow() -> None:
    """Makes its networks small: their widths are arguments that it leaves at their defaults."""
    modules: Any = importlib.import_module("core.models.modules")
    for name in ("decoder", "warp_network", "appearance_extractor", "motion_extractor"):
        importlib.import_module(f"core.models.{name}").__dict__["torch"] = _Torch()
    warping: Any = importlib.import_module("core.models.modules.warping_network")
    motion: Any = importlib.import_module("core.models.modules.LMDM")
    dense, decoder = warping.DenseMotionNetwork, motion.MotionDecoder
    if isinstance(dense, type):  # not yet
        warping.DenseMotionNetwork = functools.partial(_dense, dense)
        motion.MotionDecoder = _with(decoder, latent_dim=64, ff_size=64, num_layers=1)
        modules.LMDM = _with(modules.LMDM, device="cpu")  # else its place is a GPU whatever it is told
        modules.WarpingNetwork = _with(modules.WarpingNetwork, block_expansion=2)
        modules.SPADEDecoder = functools.partial(_decoder, modules.SPADEDecoder)
        modules.AppearanceFeatureExtractor = _with(modules.AppearanceFeatureExtractor, num_resblocks=1)


class _Torch:
    """torch without `autocast`: a CPU may take ten times as long for numbers of 16 bits."""

    @staticmethod
    def autocast(**_wanted: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _dense(make: Callable[..., Any], **more: Any) -> Any:
    """Its last convolution alone, of 7 x 7 x 7, would take a hundred GFLOP a frame."""
    network = make(**{**more, "block_expansion": 2, "max_features": 8, "compress": 1, "num_blocks": 2})
    network.mask = torch.nn.Conv3d(network.hourglass.out_filters, network.num_kp + 1, kernel_size=1)
    return network


def _decoder(make: Callable[..., Any], **more: Any) -> Any:
    """Its last layers, as wide as released whatever it is told, at a quarter of each side."""
    network = make(**{**more, "block_expansion": 2, "out_channels": 4})
    network.up = torch.nn.Identity()
    network.conv_img.append(torch.nn.Upsample(scale_factor=4))
    return network


def _with(make: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    return lambda *args, **more: make(*args, **{**more, **fixed})


def write(checkout: Path, home: Path) -> None:
    """`home`: the pipeline, its weights, a configuration for the CPU. The frames are 128 x 128."""
    sys.path.insert(0, str(checkout))
    (home / "weights").mkdir(parents=True)
    (home / "core").symlink_to(checkout / "core")
    pipeline = _PIPELINE.format(path=str(checkout / "stream_pipeline_online.py"))
    (home / "stream_pipeline_online.py").write_text(pipeline, encoding="utf-8")
    _write_networks(home / "weights")
    _write_finders(home / "weights")
    (home / "cfg.pkl").write_bytes(pickle.dumps(_config()))
    picture = np.random.default_rng(7).integers(0, 255, (128, 128, 3), dtype=np.uint8)
    importlib.import_module("PIL.Image").fromarray(picture).save(home / "portrait.png")


def _config() -> dict[str, Any]:
    def at(name: str) -> dict[str, Any]:
        return {"model_path": name, "device": "cpu"}

    return {
        "base_cfg": {
            "insightface_det_cfg": at("det.onnx"),
            "landmark106_cfg": at("lmk106.onnx"),
            "landmark203_cfg": at("lmk203.onnx"),
            "landmark478_cfg": {
                "blaze_face_model_path": "blaze.onnx", "face_mesh_model_path": "mesh.onnx", "device": "cpu"
            },
            "appearance_extractor_cfg": at("AppearanceFeatureExtractor.pth"),
            "motion_extractor_cfg": at("MotionExtractor.pth"),
            "stitch_network_cfg": at("StitchingNetwork.pth"),
            "warp_network_cfg": at("WarpingNetwork.pth"),
            "decoder_cfg": at("SPADEDecoder.pth"),
            "hubert_cfg": at("hubert.onnx"),
        },
        "audio2motion_cfg": {
            **at("LMDM.pt"), "motion_feat_dim": 265, "audio_feat_dim": CONDITIONS, "seq_frames": 80,
            "use_emo": True, "use_sc": True, "use_eye_open": True, "use_eye_ball": True,
            "w2f_type": "hubert",
        },
        "default_kwargs": {
            "online_mode": True, "overlap_v2": 70, "sampling_timesteps": STEPS, "max_size": 128
        },
    }  # fmt: skip


def _write_networks(folder: Path) -> None:
    torch.manual_seed(7)
    narrow()
    modules: Any = importlib.import_module("core.models.modules")
    for name in ("AppearanceFeatureExtractor", "MotionExtractor", "WarpingNetwork", "SPADEDecoder"):
        torch.save(getattr(modules, name)().state_dict(), folder / f"{name}.pth")
    stitching = modules.StitchingNetwork().state_dict()
    torch.save({"retarget_shoulder": stitching}, folder / "StitchingNetwork.pth")
    motion = modules.LMDM(audio_feat_dim=CONDITIONS).model.state_dict()
    torch.save({"model_state_dict": motion}, folder / "LMDM.pt")


def _write_finders(folder: Path) -> None:
    """One face in the middle of every picture."""
    random = np.random.default_rng(7)
    scores, boxes, points = [], [], []
    for stride in (8, 16, 32):
        side = 512 // stride
        found: Array = np.zeros((side * side * 2, 1), np.float32)
        if stride == 32:
            found[(side // 2 * side + side // 2) * 2] = 0.9
        scores.append(found)
        boxes.append(np.full((len(found), 4), 128 / stride, np.float32))
        points.append(np.zeros((len(found), 10), np.float32))
    _constants(folder / "det.onnx", "image", [*scores, *boxes, *points])
    around = random.uniform(-0.8, 0.8, (106, 2))
    around[[33, 35, 40, 39]], around[[87, 89, 94, 93]], around[[52, 61]] = (-0.4, -0.3), (0.4, -0.3), (0, 0.5)
    _constants(folder / "lmk106.onnx", "data", [around.reshape(1, -1)])
    around = random.uniform(0.1, 0.9, (203, 2))
    around[[0, 6, 12, 18]], around[[24, 30, 36, 42]], around[[48, 66]] = (0.3, 0.4), (0.7, 0.4), (0.5, 0.7)
    _constants(folder / "lmk203.onnx", "input", [around.reshape(1, -1)])
    regressors, classes = np.zeros((1, 896, 16)), np.full((1, 896, 1), -50.0)
    regressors[..., 2:4] = 64
    regressors[..., 4] = -20
    regressors[..., 6] = 20
    classes[0, 200] = 5
    _constants(folder / "blaze.onnx", "input", [regressors, classes])
    mesh = random.uniform(40, 216, (1, 1, 1, 1434))
    _constants(folder / "mesh.onnx", "input", [mesh, np.zeros(1), np.zeros(1)])
    _write_audio(folder / "hubert.onnx", random.normal(0, 0.05, (1024, 1, 400)))


def _constants(path: Path, takes: str, gives: list[NDArray[Any]]) -> None:
    onnx: Any = importlib.import_module("onnx")
    floats = onnx.TensorProto.FLOAT
    nodes, outputs = [], []
    for number, value in enumerate(gives):
        name = f"out{number}"
        kept = onnx.numpy_helper.from_array(value.astype(np.float32), f"{name}_value")
        nodes.append(onnx.helper.make_node("Constant", [], [name], value=kept))
        outputs.append(onnx.helper.make_tensor_value_info(name, floats, value.shape))
    taken = onnx.helper.make_tensor_value_info(takes, floats, None)
    _save(path, onnx.helper.make_graph(nodes, "constants", [taken], outputs))


def _write_audio(path: Path, weights: NDArray[Any]) -> None:
    """(1, samples) -> (frames of 20 ms, 1024)."""
    onnx: Any = importlib.import_module("onnx")
    make = onnx.helper.make_node
    floats = onnx.TensorProto.FLOAT
    kept = [
        onnx.numpy_helper.from_array(weights.astype(np.float32), "weights"),
        onnx.numpy_helper.from_array(np.array([1], np.int64), "axis"),
        onnx.numpy_helper.from_array(np.array([0], np.int64), "first"),
    ]
    nodes = [
        make("Unsqueeze", ["input_values", "axis"], ["one_channel"]),
        make("Conv", ["one_channel", "weights"], ["features"], strides=[320]),
        make("Transpose", ["features"], ["turned"], perm=[0, 2, 1]),
        make("Squeeze", ["turned", "first"], ["encoding_out"]),
    ]
    taken = onnx.helper.make_tensor_value_info("input_values", floats, [1, None])
    given = onnx.helper.make_tensor_value_info("encoding_out", floats, [None, 1024])
    _save(path, onnx.helper.make_graph(nodes, "audio", [taken], [given], kept))


def _save(path: Path, graph: Any) -> None:
    onnx: Any = importlib.import_module("onnx")
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(path))


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
