"""The released shapes have the parameters and operations that are published, counted without any memory."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from cotenant.tenants.builtin.head_steps import HeadModel
from cotenant.tenants.builtin.shapes import published, registry, released
from cotenant.tenants.builtin.shapes.decoder_llm import CausalLm
from cotenant.tenants.builtin.tts_steps import TtsModel

WITHIN = 0.03


@pytest.fixture(autouse=True)
def _on_meta() -> Iterator[None]:
    with torch.device("meta"), torch.no_grad():
        yield


def parameters(*parts: nn.Module) -> int:
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


def operations(work: Callable[[], object], *, attention: bool = True) -> float:
    """2 for each multiply and add; products of attention (batched ones) may be left out."""
    with FlopCounterMode(display=False) as counter:
        work()
    counted: dict[object, int] = counter.get_flop_counts()["Global"]
    return float(sum(count for kind, count in counted.items() if attention or "bmm" not in str(kind)))


def whole(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@pytest.mark.parametrize(
    ("name", "millions", "gflop_a_frame"), [("qwen3-tts-0.6b", 906, 3.5), ("qwen3-tts-1.7b", 1917, 5.5)]
)
def test_a_voice_has_the_published_parameters_and_operations_a_frame(
    name: str, millions: float, gflop_a_frame: float
) -> None:
    sizes = registry.SPEECH[name]
    model = TtsModel(sizes)
    assert parameters(model.talker, model.predictor) == pytest.approx(millions * 1e6, rel=WITHIN)
    assert published.SPEECH[name].parameters == millions * 1e6
    cache = model.talker.decoder.new_cache(1)
    row = torch.zeros(1, sizes.talker.decoder.hidden)

    def frame() -> None:
        model.talker.head(model.talker(row, cache.fixed_plan(whole(1), 256), cache))
        model.predictor(row, row, sizes.top_k, sizes.temperature)

    assert operations(frame) == pytest.approx(gflop_a_frame * 1e9, rel=WITHIN)


def test_a_frame_of_a_voice_is_sixteen_dependent_passes_of_103_layers() -> None:
    sizes = released.QWEN3_TTS_0_6B
    model = TtsModel(sizes)
    calls = {"talker": 0, "predictor": 0}
    for name, part in (("talker", model.talker.decoder), ("predictor", model.predictor.decoder)):
        for layer in part.layers:
            layer.register_forward_hook(lambda *_, name=name: calls.update({name: calls[name] + 1}))
    cache = model.talker.decoder.new_cache(1)
    row = torch.zeros(1, sizes.talker.decoder.hidden)
    model.talker(row, cache.fixed_plan(whole(1), 256), cache)
    codes, _ = model.predictor(row, row, sizes.top_k, sizes.temperature)
    assert calls == {"talker": 28, "predictor": 15 * 5}
    assert codes.shape == (1, 15)
    assert sizes.codec.samples_per_frame == 1920


def test_the_codec_has_the_published_parameters_and_operations_with_and_without_memory() -> None:
    decoder = TtsModel(released.QWEN3_TTS_0_6B).decoder
    assert parameters(decoder) == pytest.approx(114.3e6, rel=WITHIN)
    for frames in (1, 4, 25):
        codes = whole(1, frames, 16)
        assert operations(partial(decoder, codes)) == pytest.approx(4.96e9 * frames, rel=WITHIN)
    decoder.remember(1)
    for frames in (1, 4):
        codes = whole(1, frames, 16)
        remembered = operations(partial(decoder.next, codes, whole(1), whole(1)))
        assert remembered == pytest.approx(4.96e9 * frames, rel=WITHIN)


def test_the_head_s_parts_have_the_published_parameters_and_operations() -> None:
    model, sizes = HeadModel(released.DITTO), released.DITTO
    # HuBERT-large has 315 million; the portrait's own features in the warp are no weights.
    assert parameters(model.encoder) == pytest.approx(315e6, rel=WITHIN)
    assert parameters(model.motion) == pytest.approx(47.8e6, rel=WITHIN)
    assert parameters(model.warp) - model.warp.volume.numel() == pytest.approx(45.5e6, rel=WITHIN)
    assert parameters(model.decoder) == pytest.approx(55.4e6, rel=WITHIN)
    motion, features = sizes.motion, torch.zeros(sizes.motion.window, sizes.audio.feature)
    noisy = torch.zeros(1, motion.window, motion.motion)

    def forward() -> None:
        model.motion.denoise(noisy, model.motion.conditioned(features), torch.zeros(1, 1, 1))

    # The published count leaves out the products of attention, which add 5 %.
    assert operations(forward, attention=False) == pytest.approx(4.90e9, rel=WITHIN)
    source = model.stitcher.source
    warp = operations(lambda: model.warp(source, source))
    picture = operations(lambda: model.decoder(torch.zeros(1, 256, 64, 64)))
    assert warp == pytest.approx(342e9, rel=WITHIN)
    assert picture == pytest.approx(892e9, rel=WITHIN)
    assert warp + picture == pytest.approx(1.23e12, rel=WITHIN)
    assert model.decoder(torch.zeros(1, 256, 64, 64)).shape == (512, 512, 3)
    assert (motion.steps, sizes.portrait.pixels) == (50, 512)


@pytest.mark.parametrize(
    ("name", "billions", "active"), [("llm-8b", 8.19, 8.19), ("llm-30b-a3b", 30.5, 3.35)]
)
def test_a_language_model_has_the_published_parameters(name: str, billions: float, active: float) -> None:
    sizes = registry.COMPLETIONS[name]
    model = CausalLm(sizes)
    total = parameters(model)
    assert total == pytest.approx(billions * 1e9, rel=WITHIN)
    experts = sizes.decoder.experts
    idle = 0
    if experts is not None:
        one = 3 * sizes.decoder.hidden * experts.intermediate
        idle = sizes.decoder.layers * (experts.count - experts.active) * one
    assert total - idle == pytest.approx(active * 1e9, rel=WITHIN)
    # A sequence as long as the server lets one be must find its pages, or it would wait for ever.
    assert sizes.kv_tokens is not None
    assert sizes.kv_tokens >= sizes.context
    assert sizes.step_tokens == 8192


@pytest.mark.parametrize("name", ["qwen3-tts-0.6b", "qwen3-tts-1.7b"])
def test_a_fitted_voice_takes_what_is_published(name: str) -> None:
    fitted_ms = released.MEASURED_FRAME_MS[name] + registry.SPEECH[name].step_overhead_ns / 1e6
    told_ms = published.published_frame_ms(name, "graphs")
    assert fitted_ms == pytest.approx(told_ms, abs=0.001)
    assert published.is_optimistic(fitted_ms, told_ms) is False
    assert registry.SPEECH["tiny"].step_overhead_ns == 0


def test_a_clip_that_was_measured_is_brought_to_what_is_published() -> None:
    assert released._clip_lacks_ns(None) == 0
    assert released._clip_lacks_ns(40.0) == 22_000_000
    assert released._clip_lacks_ns(70.0) == 0


def test_a_stand_in_is_optimistic_below_85_per_cent_of_what_is_published() -> None:
    told = published.published_frame_ms("qwen3-tts-0.6b", "graphs")
    assert told == 15.0
    assert published.is_optimistic(12.7, told) is True
    assert published.is_optimistic(12.8, told) is False
    assert published.is_optimistic(None, told) is None
    assert published.is_optimistic(9.0, published.published_frame_ms("tiny", "graphs")) is None
    assert published.fitted_overhead_ns(6.5, 15.0) == 8_500_000
    assert published.fitted_overhead_ns(20.0, 15.0) == 0
