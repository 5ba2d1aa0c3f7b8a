"""The built-in models compute the same however their work is cut: in chunks, in batches, beside others."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cotenant.tenants.builtin import llm, talking_head, tts
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Runtime
from cotenant.tenants.builtin.shapes import tiny
from cotenant.tenants.builtin.shapes.blocks import Decoder, sample_top_k
from cotenant.tenants.builtin.shapes.codec import CodecDecoder
from cotenant.tenants.builtin.shapes.kv_cache import KvCache

ONE_THREAD = Runtime(threads=1)


@pytest.fixture
def decoder() -> Decoder:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    return Decoder(tiny.LLM.decoder, 64).eval()


def forward(decoder: Decoder, x: Tensor, cache: KvCache, *entries: tuple[int, int]) -> Tensor:
    with torch.inference_mode():
        out: Tensor = decoder(x, cache.plan(entries), cache)
    return out


def test_a_prompt_in_chunks_or_token_by_token_gives_what_it_gives_at_once(decoder: Decoder) -> None:
    x = torch.randn(12, tiny.LLM.decoder.hidden)
    whole = forward(decoder, x, decoder.new_cache(1), (0, 12))
    for widths in ([5, 7], [1] * 12, [10, 1, 1]):
        cache, outs, at = decoder.new_cache(1), [], 0
        for width in widths:
            outs.append(forward(decoder, x[at : at + width], cache, (0, width)))
            at += width
        torch.testing.assert_close(torch.cat(outs), whole, atol=1e-4, rtol=1e-4)


def test_a_later_token_changes_nothing_before_it(decoder: Decoder) -> None:
    x = torch.randn(6, tiny.LLM.decoder.hidden)
    changed = x.clone()
    changed[5] += 1
    first, second = (forward(decoder, rows, decoder.new_cache(1), (0, 6)) for rows in (x, changed))
    torch.testing.assert_close(first[:5], second[:5])
    assert not torch.allclose(first[5], second[5])


def test_sequences_of_unequal_length_that_step_together_do_not_touch_each_other(decoder: Decoder) -> None:
    hidden = tiny.LLM.decoder.hidden
    rows = {slot: torch.randn(length, hidden) for slot, length in ((0, 3), (1, 9), (2, 4), (4, 5))}
    alone = {slot: forward(decoder, x, decoder.new_cache(1), (0, len(x))) for slot, x in rows.items()}
    cache = decoder.new_cache(5)
    for slot, x in rows.items():
        forward(decoder, x[:-2], cache, (slot, len(x) - 2))
    for back in (2, 1):
        step = torch.stack([x[len(x) - back] for x in rows.values()])
        out = forward(decoder, step, cache, *((slot, 1) for slot in rows))
        expected = torch.stack([alone[slot][len(rows[slot]) - back] for slot in rows])
        torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    assert cache.lengths == [3, 9, 4, 0, 5]


def test_a_slot_is_used_again_without_what_it_held(decoder: Decoder) -> None:
    x = torch.randn(4, tiny.LLM.decoder.hidden)
    cache = decoder.new_cache(2)
    assert [cache.acquire(), cache.acquire(), cache.free_slots] == [0, 1, 0]
    fresh = forward(decoder, x, cache, (0, 4))
    forward(decoder, torch.randn(9, tiny.LLM.decoder.hidden), cache, (1, 9))
    assert cache.usage == pytest.approx(13 / 128)
    cache.release(1)
    assert cache.acquire() == 1
    torch.testing.assert_close(forward(decoder, x, cache, (1, 4)), fresh)


def test_the_cache_refuses_to_grow_past_its_end(decoder: Decoder) -> None:
    with pytest.raises(ValueError, match="64 tokens"):
        decoder.new_cache(1).plan([(0, 65)])


def test_the_codec_gives_1920_samples_a_frame_and_looks_only_to_the_left() -> None:
    torch.manual_seed(1)
    codec = CodecDecoder(tiny.TTS.codec).eval()
    codes = torch.randint(0, 512, (2, 6, 16))
    with torch.inference_mode():
        whole, part = codec(codes), codec(codes[:, :4])
    assert whole.shape == (2, 6 * 1920)
    assert tiny.TTS.codec.samples_per_frame == 1920
    torch.testing.assert_close(whole[:, : 4 * 1920], part, atol=1e-4, rtol=1e-4)


def test_the_draw_keeps_to_the_likeliest_and_to_their_shares() -> None:
    torch.manual_seed(1)
    logits = torch.log(torch.tensor([[0.5, 0.1, 0.3, 0.1]])).repeat(4000, 1)
    drawn = sample_top_k(logits, 2, 1.0)
    assert set(drawn.tolist()) == {0, 2}
    assert (drawn == 0).float().mean().item() == pytest.approx(0.625, abs=0.04)


def speak(engine: tts.TtsEngine, samples: int, packets: PacketPolicy) -> tuple[list[Any], tts.Utterance]:
    sent: list[Any] = []
    audio = np.arange(samples, dtype=np.int16)
    utterance = tts.Utterance(text="a b", samples=audio, packets=packets, send=sent.append)
    engine.add(utterance)
    return sent, utterance


def test_utterances_that_come_and_go_share_the_steps_and_lose_nothing() -> None:
    engine = tts.build(tiny.TTS, ONE_THREAD)
    long, _ = speak(engine, 1920 * 6 + 5, PacketPolicy(first=1, steady=3))
    engine.step()
    short, _ = speak(engine, 1920, PacketPolicy(first=2))
    gone, leaving = speak(engine, 1920 * 50, PacketPolicy())
    engine.step()
    assert engine.active == 2
    leaving.cancelled = True
    engine.step()
    assert engine.active == 1
    while engine.step():
        pass
    assert [None if packet is None else len(packet) for packet in long] == [1920, 5760, 3 * 1920 - 1915, None]
    assert [len(packet) for packet in short[:-1]] == [1920]
    assert np.array_equal(np.concatenate(long[:-1]), np.arange(1920 * 6 + 5, dtype=np.int16))
    assert len(gone) == 1
    assert engine.active == 0


def test_more_utterances_than_slots_wait_their_turn() -> None:
    engine = tts.build(tiny.TTS, ONE_THREAD)
    answers = [speak(engine, 1920 * 2, PacketPolicy())[0] for _ in range(tiny.TTS.slots + 1)]
    engine.step()
    assert [len(answer) for answer in answers] == [1] * tiny.TTS.slots + [0]
    while engine.step():
        pass
    assert all(answer[-1] is None for answer in answers)


def test_a_prompt_is_prefilled_in_chunks_while_others_decode() -> None:
    engine = llm.build(tiny.LLM, ONE_THREAD)
    decoding: list[Any] = []
    engine.add(llm.Sequence(prompt=[1], max_tokens=9, ignore_eos=True, send=decoding.append))
    engine.step()
    prefilled: list[Any] = []
    engine.add(llm.Sequence(prompt=[2] * 1300, max_tokens=1, ignore_eos=True, send=prefilled.append))
    progress = [(len(decoding), len(prefilled)) for _ in range(3) if engine.step()]
    # 511 + 511 + 278 of the prompt, each beside one token of the other.
    assert progress == [(2, 0), (3, 0), (4, 1)]
    assert engine.counters.step_tokens_sum == 1 + 1303


def test_the_likeliest_token_does_not_depend_on_who_else_is_served() -> None:
    def answer(others: int) -> list[int]:
        engine, tokens = llm.build(tiny.LLM, ONE_THREAD), []
        for number in range(others):
            prompt = [number + 7] * (number * 40 + 1)
            engine.add(llm.Sequence(prompt=prompt, max_tokens=9, send=lambda token: None, temperature=0))
        mine = llm.Sequence(
            prompt=[1, 2, 3], max_tokens=8, send=lambda token: tokens.append(token[0]), temperature=0
        )
        engine.add(mine)
        while engine.step():
            pass
        return tokens

    assert answer(0) == answer(3)


def test_a_stop_token_ends_a_sequence_unless_it_is_ignored() -> None:
    engine = llm.build(tiny.LLM, ONE_THREAD)
    with torch.inference_mode():
        engine.model.head.weight.zero_()  # every logit 0: the likeliest is token 0, the stop token
    ends: list[Any] = []
    for ignore, least in ((False, 0), (False, 2), (True, 0)):
        sent: list[Any] = []
        engine.add(
            llm.Sequence(
                prompt=[1], max_tokens=5, min_tokens=least, ignore_eos=ignore, temperature=0, send=sent.append
            )
        )
        ends.append(sent)
    while engine.step():
        pass
    assert [(len(sent), sent[-1][1]) for sent in ends] == [(1, "stop"), (3, "stop"), (5, "length")]


def test_the_head_serves_sessions_in_turns_and_flushes_at_the_end() -> None:
    engine = talking_head.build(tiny.HEAD, ONE_THREAD)
    sent: list[tuple[int, Any]] = []
    sessions = []
    for number in range(2):
        session = talking_head.Session(fps=25, send=lambda item, number=number: sent.append((number, item)))  # type: ignore[misc]
        engine.add(session)
        engine.feed(session, np.zeros(8_000, np.int16))
        sessions.append(session)
    while engine.step():
        pass
    # 500 ms: two clips have their look-ahead, the third waits for audio or the end.
    order = [number for number, _ in sent]
    assert sorted(order) == [0] * 10 + [1] * 10
    # Neither session has both its clips before the other's first is begun to be shown.
    assert all({0, 1} <= set(order[at : at + 7]) for at in range(13))
    for number in range(2):
        assert [item.index for who, item in sent if who == number] == list(range(10))
    for session in sessions:
        engine.end(session)
    while engine.step():
        pass
    assert [item for _, item in sent if isinstance(item, int)] == [13, 13]
    assert len(sent) == 2 * 13 + 2
    assert engine.active == 0


def test_a_clip_begins_with_the_last_sample_that_its_encoder_sees_and_not_before() -> None:
    engine = talking_head.build(tiny.HEAD, ONE_THREAD)
    sent: list[Any] = []
    session = talking_head.Session(fps=25, send=sent.append)
    engine.add(session)
    engine.feed(session, np.zeros(3_200 + 1_360 - 1, np.int16))
    assert not engine.step()
    engine.feed(session, np.zeros(1, np.int16))
    while engine.step():
        pass
    assert [frame.index for frame in sent] == list(range(5))
    session.cancelled = True
    assert not engine.step()
    assert engine.active == 0
