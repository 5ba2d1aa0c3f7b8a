"""The sizes of models as they are released, for GPUs: two voices, a talking head, two language models.

The voices' are those of the released checkpoints' configuration files, which differ from the defaults of
their classes. Where a published structure is not known in every layer, plain layers stand that meet its
parameters and operations; the modules say where.
"""

from collections.abc import Mapping
from typing import Final

from cotenant.tenants.builtin.shapes.blocks import DecoderSizes
from cotenant.tenants.builtin.shapes.codec import CodecSizes
from cotenant.tenants.builtin.shapes.decoder_llm import LlmSizes
from cotenant.tenants.builtin.shapes.ditto import AudioSizes, HeadSizes
from cotenant.tenants.builtin.shapes.lmdm import LmdmSizes
from cotenant.tenants.builtin.shapes.moe import ExpertSizes
from cotenant.tenants.builtin.shapes.portrait import PortraitSizes
from cotenant.tenants.builtin.shapes.published import CLIP_MS, fitted_overhead_ns, published_frame_ms
from cotenant.tenants.builtin.shapes.qwen3_tts import PredictorSizes, TalkerSizes, TtsSizes

QWEN3_CODEC = CodecSizes(
    codebooks=16,
    codebook_size=2048,
    codebook_dim=512,
    latent=1024,
    transformer=DecoderSizes(layers=8, hidden=512, intermediate=1024, heads=16, kv_heads=16, head_dim=64),
    window=72,
    upsampling=(2, 2),
    decoder_channels=1536,
    rates=(8, 5, 4, 3),
)


# A frame's step on an H200 for one voice, in ms: recorded graphs, no overhead, torch 2.11.0 for CUDA 13.0, by
# `python -m tests.bench.bench_gpu_shapes --jobs "qwen3-tts-0.6b graphs,qwen3-tts-1.7b graphs"`.
MEASURED_FRAME_MS: Final[Mapping[str, float]] = {"qwen3-tts-0.6b": 8.647, "qwen3-tts-1.7b": 9.067}


def _lacking_ns(shape: str) -> int:
    """What a measured frame lacks to the published one: published - measured."""
    published_ms = published_frame_ms(shape, "graphs")
    return 0 if published_ms is None else fitted_overhead_ns(MEASURED_FRAME_MS[shape], published_ms)


def _qwen3_tts(hidden: int, intermediate: int, step_overhead_ns: int) -> TtsSizes:
    """The two voices differ in the talker's widths alone.

    2,048 positions: 163 s of speech. An utterance costs 112 KiB of cache a position, kept for every slot.
    """
    return TtsSizes(
        talker=TalkerSizes(
            decoder=DecoderSizes(
                layers=28, hidden=hidden, intermediate=intermediate, heads=16, kv_heads=8, head_dim=128,
                mrope=(24, 20, 20),
            ),
            codec_vocabulary=3072,
            text_vocabulary=151_936,
            text_hidden=2048,
        ),
        predictor=PredictorSizes(
            decoder=DecoderSizes(
                layers=5, hidden=1024, intermediate=3072, heads=16, kv_heads=8, head_dim=128
            ),
            vocabulary=2048,
            groups=16,
        ),
        codec=QWEN3_CODEC,
        slots=8,
        frames=2048,
        context_frames=None,
        step_overhead_ns=step_overhead_ns,
    )  # fmt: skip


QWEN3_TTS_0_6B = _qwen3_tts(1024, 3072, step_overhead_ns=_lacking_ns("qwen3-tts-0.6b"))
QWEN3_TTS_1_7B = _qwen3_tts(2048, 6144, step_overhead_ns=_lacking_ns("qwen3-tts-1.7b"))

# A clip's motion on an H200, in ms: `clip_motion_ms` of `--jobs "ditto graphs"` of the same bench; None: not
# fitted, so that a clip takes what it takes.
MEASURED_CLIP_MS: Final[float | None] = 53.372


def _clip_lacks_ns(measured_ms: float | None) -> int:
    """What a measured clip's motion lacks to the published one."""
    return 0 if measured_ms is None else fitted_overhead_ns(measured_ms, CLIP_MS["ditto"])


# The audio encoder has HuBERT-large's sizes. 63 of the motion's 265 numbers are key points; the stitcher here
# reads them all. A clip is 10 frames: Ditto's online setting with an overlap of 70 of its 80.
DITTO = HeadSizes(
    audio=AudioSizes(
        channels=512, hidden=1024, layers=24, heads=16, intermediate=4096, feature=1024, position_kernel=128
    ),
    motion=LmdmSizes(
        motion=265, window=80, hidden=512, heads=8, intermediate=1024, encoder_layers=2, decoder_layers=8,
        steps=50, extra=35,
    ),
    portrait=PortraitSizes(
        key_points=21,
        volume_channels=32,
        depth=16,
        grid=64,
        dense_channels=32,
        channels=256,
        spade_hidden=128,
        middle_blocks=6,
        doublings=3,
        compressed=4,
        hourglass_levels=5,
        hourglass_most=1024,
        widths=(512, 256, 64),
        shortcut_spade=True,
    ),
    clip_chunks=2,
    host_hops=True,
    clip_overhead_ns=_clip_lacks_ns(MEASURED_CLIP_MS),
)  # fmt: skip

# Qwen3-8B's sizes: 16.4 GB of weights, 144 KiB of cache a token.
LLM_8B = LlmSizes(
    decoder=DecoderSizes(layers=36, hidden=4096, intermediate=12_288, heads=32, kv_heads=8, head_dim=128),
    vocabulary=151_936,
    context=40_960,
    slots=16,
    step_tokens=8192,
    kv_tokens=98_304,
)

# Qwen3-30B-A3B's sizes: 61 GB of weights, 96 KiB of cache a token.
LLM_30B_A3B = LlmSizes(
    decoder=DecoderSizes(
        layers=48, hidden=2048, intermediate=6144, heads=32, kv_heads=4, head_dim=128,
        experts=ExpertSizes(count=128, active=8, intermediate=768),
    ),
    vocabulary=151_936,
    context=40_960,
    slots=16,
    step_tokens=8192,
    kv_tokens=131_072,
)  # fmt: skip
