"""The `tiny` sizes: every part of the true models, small enough for all three to share two CPU cores."""

from cotenant.tenants.builtin.shapes.blocks import DecoderSizes
from cotenant.tenants.builtin.shapes.codec import CodecSizes
from cotenant.tenants.builtin.shapes.decoder_llm import LlmSizes
from cotenant.tenants.builtin.shapes.ditto import AudioSizes, HeadSizes
from cotenant.tenants.builtin.shapes.motion import MotionSizes
from cotenant.tenants.builtin.shapes.portrait import PortraitSizes
from cotenant.tenants.builtin.shapes.qwen3_tts import PredictorSizes, TalkerSizes, TtsSizes

TTS = TtsSizes(
    talker=TalkerSizes(
        decoder=DecoderSizes(layers=4, hidden=384, intermediate=1024, heads=6, kv_heads=3, head_dim=64),
        codec_vocabulary=1024,
        text_vocabulary=4096,
        text_hidden=512,
    ),
    predictor=PredictorSizes(
        decoder=DecoderSizes(layers=2, hidden=128, intermediate=384, heads=2, kv_heads=2, head_dim=64),
        vocabulary=512,
        groups=16,
    ),
    codec=CodecSizes(
        codebooks=16,
        codebook_size=512,
        codebook_dim=128,
        latent=128,
        transformer=DecoderSizes(layers=2, hidden=128, intermediate=256, heads=2, kv_heads=2, head_dim=64),
        window=72,
        upsampling=(2, 2),
        decoder_channels=64,
        rates=(8, 5, 4, 3),
    ),
    slots=8,
    frames=4096,
    context_frames=4,
)

HEAD = HeadSizes(
    audio=AudioSizes(channels=64, hidden=128, layers=2, heads=4, intermediate=512, feature=128),
    motion=MotionSizes(
        motion=64,
        window=20,
        hidden=96,
        heads=3,
        intermediate=256,
        encoder_layers=1,
        decoder_layers=1,
        steps=4,
    ),
    portrait=PortraitSizes(
        key_points=5,
        volume_channels=8,
        depth=3,
        grid=16,
        dense_channels=4,
        channels=16,
        spade_hidden=16,
        middle_blocks=1,
        doublings=3,
    ),
)

LLM = LlmSizes(
    decoder=DecoderSizes(layers=4, hidden=512, intermediate=1536, heads=8, kv_heads=2, head_dim=64),
    vocabulary=4096,
    context=8_704,
    slots=16,
    step_tokens=512,
)
