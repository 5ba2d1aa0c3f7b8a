"""The built-in engines do the work of their models: each part's operations, counted by torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from cotenant.tenants.builtin import head_steps, llm, talking_head, tts, tts_steps
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Runtime
from cotenant.tenants.builtin.shapes import tiny
from cotenant.tenants.builtin.shapes.blocks import DecoderSizes

ONE_THREAD = Runtime(threads=1)


def _attention_flops(query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> int:
    """A multiply and an add for each term of q k^T and of p v (torch does not count the CPU's kernel)."""
    (batch, heads, rows, width), (_, _, seen, _) = query, key
    return 2 * 2 * int(batch * heads * rows * seen * width)


def count(work: Callable[[], object]) -> int:
    """Floating-point operations of `work`: matrix products, convolutions, attention."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={attention: _attention_flops}) as counter:
        work()
    total: int = counter.get_total_flops()
    return total


def decoder_flops(sizes: DecoderSizes, tokens: int, seen: int) -> int:
    """A decoder's operations for `tokens` rows; `seen` sums the cached positions of each row."""
    width = sizes.heads * sizes.head_dim
    qkv_out = sizes.hidden * (width + 2 * sizes.kv_heads * sizes.head_dim) + width * sizes.hidden
    linear = qkv_out + 3 * sizes.hidden * sizes.intermediate
    return sizes.layers * (2 * linear * tokens + 4 * width * seen)


# ---- voice


class NoTalker(nn.Module):
    """Stands where the talker's layers were."""

    def forward(self, x: Tensor, plan: Any, cache: Any) -> Tensor:
        cache.commit(plan)
        return x


class NoPredictor(nn.Module):
    """Stands where the code predictor was."""

    def forward(self, hidden: Tensor, code0: Tensor, top_k: int, temperature: float) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(hidden), 15, dtype=torch.long), torch.zeros_like(code0)


class NoDecoder(nn.Module):
    """Stands where the codec's decoder was."""

    def forward(self, codes: Tensor) -> Tensor:
        return torch.zeros(len(codes), codes.shape[1] * 1920)


def voice_flops(
    change: Callable[[tts_steps.TtsModel], None] | None = None, utterances: int = 1, frames: int = 5
) -> int:
    engine = tts.build(tiny.TTS, ONE_THREAD)
    if change:
        change(engine.model)
    for _ in range(utterances):
        samples = np.zeros(frames * 1920, np.int16)
        engine.add(
            tts.Utterance(text="word", samples=samples, packets=PacketPolicy(), send=lambda packet: None)
        )

    def run() -> None:
        while engine.step():
            pass

    return count(run)


def taken_out(name: str, stand_in: nn.Module) -> Callable[[tts_steps.TtsModel], None]:
    """A change that puts a stand-in where a part of the voice was."""

    def change(model: tts_steps.TtsModel) -> None:
        if name == "talker":
            model.talker.decoder.forward = stand_in.forward  # type: ignore[method-assign]
        else:
            setattr(model, name, stand_in)

    return change


def test_the_parts_of_the_voice_add_up_and_each_counts() -> None:
    whole = voice_flops()
    parts = {
        name: whole - voice_flops(taken_out(name, stand_in))
        for name, stand_in in (("talker", NoTalker()), ("predictor", NoPredictor()), ("decoder", NoDecoder()))
    }
    assert all(part > 0.05 * whole for part in parts.values()), parts
    sizes = tiny.TTS
    # Prompt: 8 tokens, each attending to a full row of 8; then 5 frames that see 9 to 13 positions.
    assert parts["talker"] == decoder_flops(sizes.talker.decoder, 8 + 5, 64 + 9 + 10 + 11 + 12 + 13)
    # Pass 1 has two tokens (a row of 2 each), passes 2 to 15 one that sees 3 to 16.
    per_frame = decoder_flops(sizes.predictor.decoder, 16, 4 + sum(range(3, 17)))
    projected = 16 * 2 * sizes.talker.decoder.hidden * sizes.predictor.decoder.hidden
    heads = 15 * 2 * sizes.predictor.decoder.hidden * sizes.predictor.vocabulary
    # The last code's embedding is projected too, though no pass follows it.
    last = 2 * sizes.talker.decoder.hidden * sizes.predictor.decoder.hidden
    assert parts["predictor"] == 5 * (per_frame + projected + heads + last)
    text = 9 * 2 * sizes.talker.text_hidden * (sizes.talker.text_hidden + sizes.talker.decoder.hidden)
    codes = 5 * 2 * sizes.talker.decoder.hidden * sizes.talker.codec_vocabulary
    assert whole == sum(parts.values()) + text + codes


def test_the_talker_s_cache_grows_so_each_frame_costs_more_than_the_one_before() -> None:
    engine = tts.build(tiny.TTS, ONE_THREAD)
    samples = np.zeros(9 * 1920, np.int16)
    never = PacketPolicy(first=9)
    engine.add(tts.Utterance(text="word", samples=samples, packets=never, send=lambda packet: None))
    engine.step()
    costs = [count(engine.step) for _ in range(3)]
    sizes = tiny.TTS.talker.decoder
    one_more = 4 * sizes.heads * sizes.head_dim * sizes.layers
    assert costs[1:] == [costs[0] + one_more, costs[0] + 2 * one_more]


def test_two_utterances_cost_twice_the_operations_of_one() -> None:
    assert voice_flops(utterances=2) == 2 * voice_flops()


# ---- head


def head_flops(change: Callable[[head_steps.HeadModel], None] | None = None) -> int:
    engine = talking_head.build(tiny.HEAD, ONE_THREAD)
    if change:
        change(engine.model)
    session = talking_head.Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(6_400, np.int16))
    engine.end(session)

    def run() -> None:
        while engine.step():
            pass

    return count(run)


def test_the_parts_of_the_head_each_count_and_add_up() -> None:
    portrait, motion = tiny.HEAD.portrait, tiny.HEAD.motion
    whole = head_flops()
    grid = (1, portrait.channels, portrait.grid, portrait.grid)
    pixels = portrait.pixels
    stand_ins: dict[str, Callable[..., Tensor]] = {
        "encoder": lambda samples: torch.zeros(5, tiny.HEAD.audio.feature),
        "motion": lambda features: torch.zeros(1, motion.window, motion.hidden),
        "stitcher": lambda moved: torch.zeros(portrait.key_points, 3),
        "warp": lambda source, driving: torch.zeros(grid),
        "decoder": lambda label: torch.zeros(pixels, pixels, 3, dtype=torch.uint8),
    }

    def put(name: str) -> Callable[[head_steps.HeadModel], None]:
        def change(model: head_steps.HeadModel) -> None:
            part = getattr(model, name)
            if name == "motion":  # what comes before the steps, and the steps
                part.conditioned, part.piece = stand_ins[name], lambda run: None
            else:
                part.forward = stand_ins[name]

        return change

    parts = {name: whole - head_flops(put(name)) for name in stand_ins}
    assert all(part > 0 for part in parts.values()), parts
    assert sum(parts.values()) == whole
    assert all(parts[name] > 0.02 * whole for name in ("encoder", "motion", "warp", "decoder")), parts


def test_each_denoising_step_is_two_forwards_of_the_motion_model() -> None:
    model = talking_head.build(tiny.HEAD, ONE_THREAD).model.motion
    sizes, noisy = tiny.HEAD.motion, torch.zeros(1, tiny.HEAD.motion.window, tiny.HEAD.motion.motion)
    features = torch.zeros(sizes.window, tiny.HEAD.audio.feature)
    with torch.inference_mode():
        condition = model.condition(features).unsqueeze(0)
        one = count(lambda: model.denoise(noisy, condition, torch.ones(1, 1, 1)))
        whole = count(lambda: model(features, noisy[0, 5:]))
        projected = count(lambda: model.condition(features))
    assert whole == 2 * sizes.steps * one + projected


# ---- LLM


def llm_flops(prompt: int, output: int) -> int:
    engine = llm.build(tiny.LLM, ONE_THREAD)
    engine.add(llm.Sequence(prompt=[1] * prompt, max_tokens=output, ignore_eos=True, send=lambda token: None))

    def run() -> None:
        while engine.step():
            pass

    return count(run)


@pytest.mark.parametrize(("prompt", "output"), [(1, 1), (700, 1), (700, 3)])
def test_prefill_and_decode_cost_what_the_sizes_say(prompt: int, output: int) -> None:
    sizes = tiny.LLM
    chunks = [min(sizes.step_tokens, prompt - at) for at in range(0, prompt, sizes.step_tokens)]
    ends = [sum(chunks[: number + 1]) for number in range(len(chunks))]
    seen = sum(width * end for width, end in zip(chunks, ends, strict=True))
    seen += sum(prompt + number for number in range(1, output))
    steps = len(chunks) + output - 1
    head = 2 * sizes.decoder.hidden * sizes.vocabulary * steps
    assert llm_flops(prompt, output) == decoder_flops(sizes.decoder, prompt + output - 1, seen) + head
