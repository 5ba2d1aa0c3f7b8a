"""Fixed shapes, pages, memories and experts compute what the plain ways compute (no graph off CUDA)."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cotenant.tenants.builtin import llm, runtime, talking_head, tts
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Mode, Runtime, spend_host_time
from cotenant.tenants.builtin.shapes import tiny
from cotenant.tenants.builtin.shapes.blocks import Decoder, mrope_axis
from cotenant.tenants.builtin.shapes.codec import CodecDecoder
from cotenant.tenants.builtin.shapes.graphs import bucket, buckets
from cotenant.tenants.builtin.shapes.moe import Experts, ExpertSizes

COLD = dataclasses.replace(tiny.TTS, context_frames=None, frames=512, slots=4, temperature=1e-6)


def spoken(mode: Mode) -> list[tuple[Any, ...]]:
    """What three voices that come and go decode: slots, positions, codes, samples of each packet."""
    engine = tts.build(COLD, Runtime(threads=1, mode=mode), PacketPolicy(first=1, steady=3))
    seen: list[tuple[Any, ...]] = []
    decode = engine._steps.decode_next

    def watch(codes: Tensor, slots: Any, positions: Any) -> Tensor:
        out = decode(codes, slots, positions)
        seen.append((list(slots), list(positions), codes.tolist(), out.clone()))
        return out

    engine._steps.decode_next = watch  # type: ignore[method-assign]
    frames = (2, 6, 9)
    for count in frames:
        samples = np.zeros(1920 * count, np.int16)
        engine.add(
            tts.Utterance(
                text="words " * count, samples=samples, packets=PacketPolicy(first=1, steady=3),
                send=lambda packet: None,
            )
        )  # fmt: skip
        engine.step()
    while engine.step():
        pass
    return seen


def test_a_voice_in_fixed_shapes_says_what_one_launched_anew_says() -> None:
    launched, fixed = spoken("eager"), spoken("graphs")
    assert [packet[:3] for packet in fixed] == [packet[:3] for packet in launched]
    assert any(slots == [1] for slots, *_ in fixed)  # a slot that does not begin at row 0
    assert any(codes and len(codes[0]) == 2 for _, _, codes, _ in fixed)  # a length that is not recorded
    for one, other in zip(fixed, launched, strict=True):
        torch.testing.assert_close(one[3], other[3], atol=1e-5, rtol=1e-4)


def test_a_codec_that_remembers_gives_what_all_frames_at_once_give() -> None:
    torch.manual_seed(1)
    codec = CodecDecoder(tiny.TTS.codec).eval()
    for name, parameter in codec.named_parameters():
        if name.endswith("scale"):
            torch.nn.init.ones_(parameter)  # so that attention shows
    codes = torch.randint(0, 512, (2, 80, 16))
    slots = torch.tensor([2, 0])
    with torch.inference_mode():
        whole = codec(codes)
        memory = codec.remember(3)
        parts, at = [], 0
        for frames in (1, 4, 30, 4, 40, 1):
            position = torch.tensor([at, at])
            parts.append(codec.next(codes[:, at : at + frames], slots, position))
            at += frames
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)
        memory.clear(0)
        again = codec.next(codes[1:, :4], torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(again, whole[1:, : 4 * 1920], atol=1e-5, rtol=1e-4)


def shown(mode: Mode) -> list[Any]:
    sizes = dataclasses.replace(tiny.HEAD, clip_chunks=2, host_hops=True)
    engine = talking_head.build(sizes, Runtime(threads=1, mode=mode))
    torch.manual_seed(3)
    sent: list[Any] = []
    session = talking_head.Session(fps=25, send=sent.append)
    engine.add(session)
    engine.feed(session, np.random.default_rng(1).integers(-9999, 9999, 9_000).astype(np.int16))
    while engine.step():
        pass
    assert len(sent) == 10  # one clip of 400 ms and its look-ahead
    engine.end(session)
    while engine.step():
        pass
    return sent


def test_a_head_in_fixed_shapes_shows_what_one_launched_anew_shows() -> None:
    launched, fixed = shown("eager"), shown("graphs")
    assert [frame.index for frame in fixed[:-1]] == list(range(15))
    assert fixed == launched
    assert fixed[-1] == 15  # ceil(9,000 samples at 25 fps), though the clips cover 20


def answers(mode: Mode, **changes: Any) -> list[list[int]]:
    engine = llm.build(dataclasses.replace(tiny.LLM, slots=4, **changes), Runtime(threads=1, mode=mode))
    answers: list[list[int]] = [[] for _ in range(6)]
    for number, tokens in enumerate(answers):
        engine.add(
            llm.Sequence(
                prompt=[number + 7] * (number * 130 + 1), max_tokens=5, ignore_eos=True, temperature=0,
                send=lambda token, tokens=tokens: tokens.append(token[0]),  # type: ignore[misc]
            )
        )  # fmt: skip
    while engine.step():
        pass
    assert engine.cache_usage == 0
    return answers


def test_pages_and_fixed_shapes_answer_as_whole_slots_do() -> None:
    plain = answers("eager")
    assert answers("eager", kv_tokens=9_000) == plain
    assert answers("graphs", kv_tokens=9_000) == plain
    assert answers("graphs") == plain


def test_few_pages_let_sequences_wait_and_are_all_given_back() -> None:
    assert answers("graphs", kv_tokens=1_024) == answers("eager")


def test_spans_without_a_mask_see_what_masked_ones_see() -> None:
    torch.manual_seed(1)
    decoder = Decoder(tiny.LLM.decoder, 64).eval()
    x = torch.randn(20, tiny.LLM.decoder.hidden)
    outs = []
    with torch.inference_mode():
        for causal_from in (None, 2):
            cache = decoder.new_cache(1)
            cache.causal_from = causal_from
            outs.append(
                torch.cat(
                    [decoder(rows, cache.plan([(0, len(rows))]), cache) for rows in (x[:7], x[7:14], x[14:])]
                )
            )
    torch.testing.assert_close(outs[1], outs[0], atol=1e-4, rtol=1e-4)


def test_sequences_of_far_lengths_attend_apart() -> None:
    cache = Decoder(tiny.LLM.decoder, 64).new_cache(3)
    cache.lengths, cache.join_within = [4, 5, 40], 8
    assert [span.kv_len for span in cache.plan([(0, 1), (1, 1), (2, 1)]).spans] == [6, 41]
    cache.join_within = None
    assert [span.kv_len for span in cache.plan([(0, 1), (1, 1), (2, 1)]).spans] == [41]


def test_each_token_goes_through_its_likeliest_experts_in_their_shares() -> None:
    torch.manual_seed(1)
    experts = Experts(8, ExpertSizes(count=5, active=2, intermediate=6))
    x = torch.randn(7, 8)
    with torch.inference_mode():
        found = experts(x)
        for row, out in zip(x, found, strict=True):
            scores, chosen = experts.router(row).topk(2)
            right = torch.zeros(8)
            for share, number in zip(torch.softmax(scores, 0), chosen.tolist(), strict=True):
                gate, up = (experts.gate_up[number] @ row).chunk(2)
                right += share * (experts.down[number] @ (torch.nn.functional.silu(gate) * up))
            torch.testing.assert_close(out, right)


def test_three_equal_axes_turn_as_one_does_and_each_has_its_pairs() -> None:
    axis = mrope_axis((24, 20, 20), 128)
    assert [int((axis[:64] == number).sum()) for number in range(3)] == [24, 20, 20]
    assert torch.equal(axis[:64], axis[64:])
    sizes = tiny.LLM.decoder
    plain = Decoder(sizes, 64)
    three = Decoder(dataclasses.replace(sizes, mrope=(12, 10, 10)), 64)
    positions = torch.tensor([3, 0, 63])
    for one, other in zip(plain.rotations(positions), three.rotations(positions), strict=True):
        assert torch.equal(one, other)


def test_buckets_reach_from_the_first_to_the_limit() -> None:
    assert buckets(8) == [1, 2, 4, 8]
    assert buckets(6) == [1, 2, 4, 6]
    assert buckets(200, 256) == [200]
    assert bucket([1, 2, 6], 3) == 6
    with pytest.raises(ValueError, match="up to 6"):
        bucket([1, 2, 6], 7)


def test_overhead_is_spent_at_every_step_of_a_voice() -> None:
    engine = tts.build(COLD, Runtime(threads=1, step_overhead_ns=3_000_000))
    assert tts.measure_frame_ms(engine, warm=1, frames=3) >= 3.0
    assert engine.active == 0


@pytest.mark.parametrize("duration_ns", [0, 90_000, 500_000, 3_000_000])
def test_overhead_is_what_was_asked_though_a_sleep_is_late(
    monkeypatch: pytest.MonkeyPatch, duration_ns: int
) -> None:
    now_ns = 7_000_000
    asked_s: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now_ns
        asked_s.append(seconds)
        now_ns += round(seconds * 1e9) + (100_000 if seconds else 1000)

    monkeypatch.setattr(runtime, "time", SimpleNamespace(sleep=sleep, perf_counter_ns=lambda: now_ns))
    spend_host_time(duration_ns)
    assert duration_ns <= now_ns - 7_000_000 <= duration_ns + 1000 * (duration_ns > 0)
    assert sum(seconds > 0 for seconds in asked_s) <= 1


def test_overhead_is_one_a_step_however_many_step_together(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    monkeypatch.setattr(tts, "spend_host_time", spent.append)
    engine = tts.build(COLD, Runtime(threads=1, step_overhead_ns=7))
    tts.measure_frame_ms(engine, utterances=3, warm=1, frames=3)
    assert spent == [7] * 4
