"""What a built-in server says of its engine, what its options do, and how a GPU that fails is told."""

import argparse
import asyncio
import subprocess
import sys

import aiohttp
import pytest
import torch

from cotenant.errors import CouldNotRun
from cotenant.tenants.builtin import server, speed
from cotenant.tenants.builtin.runtime import Runtime, explained
from tests.tenants.built_in import running


def ended(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "cotenant.tenants.builtin.server", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("option", "value", "part"),
    [("--mode", "fast", "graphs"), ("--voices", "0", "at least 1"), ("--step-overhead", "-1", "at least 0")],
)
def test_a_wrong_option_is_told_with_what_is_right(option: str, value: str, part: str) -> None:
    with pytest.raises(SystemExit) as end:
        server.parse_arguments(["speech", option, value])
    assert end.value.code == 2
    assert part in ended("speech", option, value).stderr


def test_graphs_are_a_gpu_s_default_and_a_cpu_s_by_wish() -> None:
    assert Runtime(device="cuda:0").recorded
    assert not Runtime(device="cpu").recorded
    assert not Runtime(device="cuda:0", mode="eager").recorded
    assert Runtime(device="cpu", mode="graphs").recorded


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", ["speech", "face", "completions"])
def test_a_gpu_that_is_not_there_ends_with_5_and_says_so(kind: str) -> None:
    end = ended(kind, "--device", "cuda:0")
    assert end.returncode == 5
    assert "finds no cuda:0" in end.stderr
    assert "Traceback" not in end.stderr


def test_memory_that_is_full_is_the_machine_s_fault_and_anything_else_is_ours() -> None:
    full = explained(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"))
    assert isinstance(full, CouldNotRun)
    assert "Tried to allocate 2.00 GiB" in str(full)
    assert "--voices" in str(full)
    other = ValueError("x")
    assert explained(other) is other


class Measured:
    """An engine that has measured itself."""

    step_overhead_ns = 0
    frame_ms: float | None = 6.51234

    class sizes:
        slots = 3


def test_the_ready_line_sets_a_measured_frame_beside_the_published_one() -> None:
    options = argparse.Namespace(shape="qwen3-tts-0.6b")
    said = speed.of_voice(options, Runtime(device="cuda:0"), Measured())
    assert said == {
        "mode": "graphs",
        "voices": 3,
        "step_overhead_ns": 0,
        "frame_ms": 6.512,
        "published_frame_ms": 15.0,
        "optimistic": True,
    }
    fitted = Measured()
    fitted.step_overhead_ns, fitted.frame_ms = 6_353_000, 15.2
    assert speed.of_voice(options, Runtime(device="cuda:0"), fitted)["optimistic"] is False
    unmeasured = Measured()
    unmeasured.frame_ms = None
    assert speed.of_voice(options, Runtime(), unmeasured) == {}


class Moved:
    """A head that has measured its motion."""

    step_overhead_ns = 0

    def __init__(self, clip_ms: float | None) -> None:
        self.clip_ms = clip_ms


def test_the_ready_line_sets_a_measured_clip_beside_the_published_one() -> None:
    options = argparse.Namespace(shape="ditto")
    assert speed.of_head(options, Runtime(mode="eager"), Moved(139.2345)) == {
        "mode": "eager",
        "step_overhead_ns": 0,
        "clip_ms": 139.234,
        "published_clip_ms": 62.0,
        "optimistic": False,
    }
    assert speed.of_head(options, Runtime(), Moved(50.0))["optimistic"] is True
    assert speed.of_head(options, Runtime(), Moved(None)) == {}


def test_a_voice_in_fixed_shapes_serves_more_than_its_slots() -> None:
    async def answers(url: str) -> list[int]:
        async def one(session: aiohttp.ClientSession, text: str) -> int:
            asked = {"input": text, "response_format": "pcm", "stream": True}
            async with session.post(f"{url}/v1/audio/speech", json=asked) as response:
                assert response.status == 200
                return len(await response.read())

        async with aiohttp.ClientSession() as session:
            return list(await asyncio.gather(*(one(session, "a" * (8 + n)) for n in range(3))))

    with running("speech", "--mode", "graphs", "--voices", "2", "--step-overhead", "1000") as voice:
        assert set(voice.ready) == {"ready", "kind", "url", "shape", "pid"}
        lengths = asyncio.run(answers(voice.url))
        assert lengths == sorted(lengths)
        assert min(lengths) > 0
        assert voice.stop() == 0
