"""The built-in servers' small parts: packets, recordings, request checks, the WAV header, the step loop."""

import asyncio
import itertools
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
import soundfile

from cotenant.errors import UserError
from cotenant.resources import data_dir
from cotenant.tenants.builtin import completions_request, packets
from cotenant.tenants.builtin.recordings import Recordings
from cotenant.tenants.builtin.shapes import registry
from cotenant.tenants.builtin.step_loop import StepLoop


def test_packets_are_the_first_the_ramp_and_then_all_alike() -> None:
    policy = packets.parse('{"first": 2, "steady": 5, "ramp": [3, 4]}')
    assert list(itertools.islice(policy.sizes(), 6)) == [2, 3, 4, 5, 5, 5]
    assert list(itertools.islice(packets.parse("{}").sizes(), 3)) == [1, 4, 4]


@pytest.mark.parametrize("text", ["", "[]", '{"first": 0}', '{"ramp": 3}', '{"steady": 1.5}', '{"frist": 1}'])
def test_a_wrong_packet_policy_is_told_what_is_right(text: str) -> None:
    with pytest.raises(UserError, match='"first": 1'):
        packets.parse(text)


@pytest.mark.parametrize(("name", "least_s", "most_s"), [("short", 2.0, 3.0), ("long", 4.5, 5.5)])
def test_every_sentence_has_a_recording_of_the_length_that_is_told(
    name: str, least_s: float, most_s: float
) -> None:
    lines = (data_dir("fixtures") / "texts" / f"{name}.txt").read_text().splitlines()
    assert len(set(lines)) == len(lines) >= 24
    for number in range(1, len(lines) + 1):
        info = soundfile.info(data_dir("fixtures") / "speech" / f"{name}-{number:02}.flac")
        assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16")
        assert least_s <= info.duration <= most_s


def test_other_text_takes_the_time_of_its_characters() -> None:
    recordings = Recordings(data_dir("fixtures"))
    short, long = (len(recordings.speech_for("ab" * count)) for count in (10, 2000))
    assert long == pytest.approx(200 * short, rel=0.01)
    assert len(recordings.speech_for("?")) > 0


@pytest.mark.parametrize("prompt", ["some words", [1, 2], [[1, 2]], ["some words"]])
def test_a_prompt_is_text_or_token_ids(prompt: object) -> None:
    asked = completions_request.parse({"prompt": prompt}, vocabulary=100, context=64)
    assert asked.prompt
    assert all(0 <= token < 100 for token in asked.prompt)
    assert (asked.max_tokens, asked.stream, asked.ignore_eos) == (16, False, False)


def test_an_unknown_shape_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="tiny"):
        registry.find(registry.SPEECH, "huge")


class Counting:
    """An engine with `left` steps of work."""

    def __init__(self) -> None:
        self.left = 0
        self.thread = threading.get_ident()
        self.closed = False

    @property
    def active(self) -> int:
        return self.left

    def step(self) -> bool:
        assert threading.get_ident() == self.thread
        self.left -= self.left > 0
        if self.left == 13:
            raise ValueError("this engine is made to break")
        return self.left > 0

    def close(self) -> None:
        self.closed = threading.get_ident() == self.thread


def test_a_loop_works_in_its_own_thread_and_stops() -> None:
    ready, done = threading.Event(), threading.Event()
    failures: list[BaseException] = []
    loop = StepLoop(Counting, on_ready=ready.set, on_failure=failures.append)
    loop.start()
    assert ready.wait(10)
    assert loop.engine.thread != threading.get_ident()

    def begin(engine: Counting) -> None:
        engine.left = 5
        done.set()

    loop.post(begin)
    assert done.wait(10)
    assert loop.stop(10)
    assert loop.engine.closed
    assert not failures


class Waiting:
    """An engine that holds requests without any work to do on them."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.left = threading.Event()

    @property
    def active(self) -> int:
        return len(self.held)

    def step(self) -> bool:
        self.held = [one for one in self.held if not one.cancelled]
        if not self.held:
            self.left.set()
        return False

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Held:
    """A request of it."""

    cancelled: bool = False


def test_a_request_that_is_dropped_leaves_an_engine_that_sleeps() -> None:
    ready, added = threading.Event(), threading.Event()
    loop = StepLoop(Waiting, on_ready=ready.set, on_failure=lambda error: None)
    loop.start()
    assert ready.wait(10)
    one = Held()

    def add(engine: Waiting) -> None:
        engine.left.clear()
        engine.held.append(one)
        added.set()

    loop.post(add)
    assert added.wait(10)
    loop.drop(one)
    assert loop.engine.left.wait(10)
    assert loop.engine.active == 0
    assert loop.stop(10)


def test_a_broken_step_is_told_once_and_ends_the_loop() -> None:
    told = threading.Event()
    failures: list[BaseException] = []

    def failed(error: BaseException) -> None:
        failures.append(error)
        told.set()

    loop = StepLoop(Counting, on_ready=lambda: None, on_failure=failed)
    loop.start()
    loop.post(lambda engine: setattr(engine, "left", 20))
    assert told.wait(10)
    assert loop.stop(10)
    assert loop.failed
    assert [str(error) for error in failures] == ["this engine is made to break"]


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["voice"], 2, "invalid choice"),
        (["speech", "--shape", "huge"], 2, "tiny"),
        (["speech", "--threads", "0"], 2, "at least 1"),
        (["speech", "--packets", "no"], 2, '"first"'),
    ],
)
def test_a_wrong_command_line_ends_with_its_reason(arguments: list[str], code: int, part: str) -> None:
    command = [sys.executable, "-m", "cotenant.tenants.builtin.server", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert part in ended.stderr
    assert ended.stdout == ""


def test_a_port_in_use_ends_with_5() -> None:
    async def taken() -> tuple[int, str]:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        command = [sys.executable, "-m", "cotenant.tenants.builtin.server", "speech", "--port", str(port)]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, told = await process.communicate()
        server.close()
        await server.wait_closed()
        assert process.returncode is not None
        return process.returncode, told.decode()

    code, told = asyncio.run(taken())
    assert code == 5
    assert "cannot be used" in told
