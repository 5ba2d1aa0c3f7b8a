"""What a GPU asks of the engines, tried without one: half precision, recorded calls that need no host."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cotenant.tenants.builtin import llm, talking_head, tts
from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Mode, Runtime
from cotenant.tenants.builtin.shapes import tiny
from cotenant.tenants.builtin.shapes.graphs import Recorder
from cotenant.tenants.builtin.shapes.lmdm import LmdmSizes
from cotenant.tenants.builtin.shapes.moe import ExpertSizes

_MROPE = dataclasses.replace(tiny.TTS.talker.decoder, mrope=(12, 10, 10))
VOICE = dataclasses.replace(
    tiny.TTS,
    talker=dataclasses.replace(tiny.TTS.talker, decoder=_MROPE),
    context_frames=None,
    frames=512,
    slots=2,
)
# Every part that only the large shape has.
HEAD = dataclasses.replace(
    tiny.HEAD,
    audio=dataclasses.replace(tiny.HEAD.audio, position_kernel=8),
    motion=LmdmSizes(**dataclasses.asdict(tiny.HEAD.motion), extra=35),
    portrait=dataclasses.replace(
        tiny.HEAD.portrait,
        compressed=4,
        hourglass_levels=2,
        hourglass_most=16,
        widths=(32, 16, 8),
        shortcut_spade=True,
    ),
    clip_chunks=2,
    host_hops=True,
)
_MIXED = dataclasses.replace(
    tiny.LLM.decoder, layers=2, experts=ExpertSizes(count=8, active=2, intermediate=64)
)
LLM = dataclasses.replace(tiny.LLM, decoder=_MIXED, kv_tokens=9_000, slots=2)

MODES: tuple[Mode, ...] = ("eager", "graphs")


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines on a CPU in the precision that they have on a GPU."""

    def prepare(runtime: Runtime, threads: int, half: str = "bfloat16") -> tuple[torch.device, torch.dtype]:
        torch.set_num_threads(1)
        torch.manual_seed(runtime.seed)
        return torch.device("cpu"), getattr(torch, half)

    for module in (tts, talking_head, llm):
        monkeypatch.setattr(module, "prepare", prepare)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("context_frames", [None, 4])
def test_a_voice_is_made_and_speaks_in_half_precision(mode: Mode, context_frames: int | None) -> None:
    sizes = dataclasses.replace(VOICE, context_frames=context_frames)
    engine = tts.build(sizes, Runtime(mode=mode), PacketPolicy())
    assert {parameter.dtype for parameter in engine.model.parameters()} == {torch.bfloat16}
    assert engine._cache.keys[0].dtype == torch.bfloat16
    tts.speak_once(engine, PacketPolicy())
    assert engine.active == 0


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("mode", MODES)
def test_a_head_s_pictures_are_in_half_precision_and_its_motion_is_not(mode: Mode) -> None:
    engine = talking_head.build(HEAD, Runtime(mode=mode))
    dtypes = {
        name: {parameter.dtype for parameter in getattr(engine.model, name).parameters()}
        for name in ("encoder", "motion", "warp", "decoder")
    }
    assert dtypes["encoder"] == dtypes["motion"] == {torch.float32}
    assert dtypes["warp"] == dtypes["decoder"] == {torch.float16}
    engine.model.put_channels_last((4, 5))
    assert engine.model.decoder.enter.weight.is_contiguous(memory_format=torch.channels_last)
    talking_head.show_once(engine)
    assert engine.active == 0


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("mode", MODES)
def test_a_language_model_with_experts_answers_in_half_precision(mode: Mode) -> None:
    engine = llm.build(LLM, Runtime(mode=mode))
    engine._cache.causal_from = 64
    answered: list[Any] = []
    for prompt in (1, 700):
        engine.add(llm.Sequence(prompt=[1] * prompt, max_tokens=3, ignore_eos=True, send=answered.append))
    while engine.step():
        pass
    assert len(answered) == 6
    assert engine._cache.keys[0].dtype == torch.bfloat16


class NoHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what a CUDA graph cannot hold: values read by the host, tensors made of the host's numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        if name.split(".")[0] in {
            "aten::_local_scalar_dense", "aten::lift_fresh", "aten::nonzero", "aten::masked_select",
            "aten::_unique2", "aten::bincount", "aten::item",
        }:  # fmt: skip
            raise AssertionError(f"{name} asks something of the host")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls were recorded; each is called once for what is made lazily, then under the rule."""
    count = [0]

    def record(self: Recorder, call: Callable[[], Any]) -> Callable[[], Any]:
        call()
        with NoHost():  # type: ignore[no-untyped-call]
            call()
        count[0] += 1
        return call

    monkeypatch.setattr(Recorder, "record", record)
    return count


def test_the_rule_is_seen_to_be_broken() -> None:
    rule = NoHost()  # type: ignore[no-untyped-call]
    with rule, pytest.raises(AssertionError, match="lift_fresh"):
        torch.tensor([1, 2])
    with rule, pytest.raises(AssertionError, match="_local_scalar_dense"):
        torch.ones(1).item()


def test_recorded_calls_ask_nothing_of_the_host(recorded: list[int]) -> None:
    tts.build(VOICE, Runtime(threads=1, mode="graphs"), PacketPolicy(first=1, steady=4))
    # Two numbers of rows by two lengths of keys; the predictor and two packets, each by rows.
    assert recorded == [2 * 2 + 2 + 2 * 2]
    talking_head.build(HEAD, Runtime(threads=1, mode="graphs"))
    # Encoder, a piece of motion, stitcher, warp, decoder.
    assert recorded == [10 + 5]
    dense = dataclasses.replace(LLM, decoder=dataclasses.replace(_MIXED, experts=None))
    llm.build(dense, Runtime(threads=1, mode="graphs"))
    assert recorded == [15 + 2 * 4]
