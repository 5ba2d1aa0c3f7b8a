"""Runs `cotenant` as a user does, a process of its own, beside scripted services in this one."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from cotenant.run_dir.reader import read
from cotenant.testing.truth_server import Script, Served, TruthServer, truth_server

PACKET = b"\1\0" * 1920  # 80 ms at 24 kHz
DEADLINE_S = 60.0


def speech(packets: int = 10, gap_ms: int = 20) -> Script:
    """A good answer: packets of 80 ms, one every `gap_ms`."""
    pieces = [(n * gap_ms * 1_000_000, PACKET) for n in range(packets)]
    return Script(pieces=pieces, headers={"Content-Type": "audio/pcm;rate=24000"})


def say_health(served: Served) -> Script:
    """200 on anything that is no speech request."""
    return Script(pieces=[(0, b'{"active": 0}')], headers={"Content-Type": "application/json"})


def answering(speech_answer: Callable[[int, Served], Script]) -> Callable[[Served], Script]:
    """An answer function whose speech requests are numbered from 0."""
    count = iter(range(10**9))

    def answer(served: Served) -> Script:
        if "speech" not in served.path:
            return say_health(served)
        return speech_answer(next(count), served)

    return answer


@contextlib.asynccontextmanager
async def speech_server(
    speech_answer: Callable[[int, Served], Script] = lambda _n, _served: speech(),
) -> AsyncIterator[TruthServer]:
    """A scripted speech service in this process."""
    async with truth_server(answering(speech_answer)) as server:
        yield server


def voice_scenario(url: str, *, closing: bool = True, **changes: Any) -> dict[str, Any]:
    """Two voices of a service at `url`, measured for a second or so; `closing`: once more at the end, as a
    baseline is."""
    voices = {"tenant": "tts", "kind": "voices", "listeners": 2, "every": "400ms", "pause": "0ms"}
    return {
        "name": "test",
        "tenants": {"tts": {"kind": "speech", "engine": "attach", "url": url, "protocol": "openai"}},
        "load": {"voices": voices},
        "stages": [{"name": "alone", "load": ["voices"], "baseline": closing}],
        "timing": {"settle": "200ms", "settle_limit": "1200ms", "measure": "1500ms", "solo": "500ms"},
        "gate": ["voice"],
        **changes,
    }  # fmt: skip


def idle_llm(port: int) -> dict[str, Any]:
    """A tenant that `cotenant` starts itself: an LLM that computes nothing."""
    command = [sys.executable, "-m", "cotenant.testing.idle_llm", "--port", str(port)]
    return {"kind": "completions", "engine": "launch", "command": command, "url": f"http://127.0.0.1:{port}"}


def with_llm(scenario: dict[str, Any], port: int) -> dict[str, Any]:
    """The same with a second stage beside an LLM of ours."""
    scenario["tenants"]["llm"] = idle_llm(port)
    scenario["load"]["decode"] = {
        "tenant": "llm",
        "kind": "completions",
        "streams": 2,
        "prompt": 8,
        "output": 20,
    }
    scenario["stages"].append({"name": "beside", "load": ["voices", "decode"]})
    return scenario


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and the run directory that it left, if it left one."""

    code: int
    out: str
    err: str
    run_dir: Path | None

    @property
    def manifest(self) -> Mapping[str, Any]:
        assert self.run_dir is not None
        found: dict[str, Any] = json.loads((self.run_dir / "manifest.json").read_text(encoding="utf-8"))
        return found

    @property
    def summary(self) -> Mapping[str, Any]:
        assert self.run_dir is not None
        found: dict[str, Any] = json.loads((self.run_dir / "summary.json").read_text(encoding="utf-8"))
        return found

    @property
    def parsed(self) -> Mapping[str, Any]:
        """What stood on stdout, as JSON."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    def streams(self) -> list[dict[str, Any]]:
        """The rows of the streams table."""
        assert self.run_dir is not None
        rows: list[dict[str, Any]] = read(self.run_dir).tables["streams"].to_pylist()
        return rows

    def measured(self, stage: str) -> list[dict[str, Any]]:
        """The streams that fell due in the stage's measure window."""
        assert self.run_dir is not None
        edges = {
            row["edge"]: row["t"]
            for row in read(self.run_dir).tables["marks"].to_pylist()
            if (row["what"], row["name"]) == ("measure", stage)
        }
        rows = [row for row in self.streams() if row["stage"] == stage]
        return [row for row in rows if edges["start"] <= row["due"] < edges["end"]]


class Command:
    """A started `cotenant`, and everything that it started."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.family: dict[int, psutil.Process] = {}

    @property
    def run_dir(self) -> Path | None:
        return next(iter(sorted((self.folder / "runs").glob("*"))), None)

    def look(self) -> None:
        """Remembers the descendants alive now: after the conductor's death they have another parent."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self.family[child.pid] = child

    def find(self, *words: str) -> psutil.Process:
        """The descendant whose command line or environment has all the words."""
        self.look()
        for child in self.family.values():
            with contextlib.suppress(psutil.Error):
                line = [*child.cmdline(), child.environ().get("COTENANT_NAME", "")]
                if all(word in line for word in words):
                    return child
        raise AssertionError(f"no process with {words}")

    async def until_marked(
        self, what: str, name: str, edge: str = "start", deadline_s: float = DEADLINE_S
    ) -> None:
        """Until the run directory says so."""
        end_s, read_bytes = time.monotonic() + deadline_s, -1
        while time.monotonic() < end_s:
            self.look()
            # To read all again and again would take from the run, and from the services in this process.
            if (size_bytes := _marks_bytes(self.run_dir)) != read_bytes:
                read_bytes = size_bytes
                if self.run_dir is not None and (what, name, edge) in _marks(self.run_dir):
                    return
            assert self.process.returncode is None, await self.process.communicate()
            await asyncio.sleep(0.05)
        raise AssertionError(f"no mark {what} {name} {edge} in time")

    async def end(self, deadline_s: float = DEADLINE_S) -> Ended:
        """Waits for the end. Fails where a descendant outlives the command by more than 3 s."""
        out, err = await asyncio.wait_for(self.process.communicate(), deadline_s)
        _, alive = await asyncio.to_thread(psutil.wait_procs, list(self.family.values()), 3)
        assert not alive, [process.cmdline() for process in alive]
        assert self.process.returncode is not None
        return Ended(code=self.process.returncode, out=out.decode(), err=err.decode(), run_dir=self.run_dir)


@contextlib.asynccontextmanager
async def started(
    folder: Path, scenario: Mapping[str, Any] | str, *flags: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Command]:
    """`cotenant run` in `folder`, which is where the scenario and `runs/` lie; killed if the test is."""
    name = scenario if isinstance(scenario, str) else "test.yaml"
    if not isinstance(scenario, str):
        (folder / name).write_text(yaml.safe_dump(dict(scenario)), encoding="utf-8")
    async with started_command(folder, "run", name, *flags, env=env) as command:
        yield command


@contextlib.asynccontextmanager
async def started_command(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Command]:
    """Any `cotenant` command; `env` is added to this process's own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "160", **(env or {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cotenant.cli.main", *arguments, cwd=folder, env=environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        process_group=0,
    )  # fmt: skip
    try:
        yield Command(process, folder)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.communicate()


async def ran(
    folder: Path,
    scenario: Mapping[str, Any] | str,
    *flags: str,
    env: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Ended:
    """The same, to its end."""
    async with started(folder, scenario, *flags, env=env) as command:
        return await command.end(deadline_s)


async def gate(folder: Path, run_dir: Path, *flags: str) -> Ended:
    """`cotenant gate` of a recorded run."""
    async with started_command(folder, "gate", str(run_dir), *flags) as command:
        return await command.end()


async def interrupted(ended: Ended, code: int) -> None:
    """Holds a run that a signal ended to what is promised: it says how to judge it, and can be judged."""
    assert ended.code == code, ended.err
    assert ended.manifest["status"] == "interrupted"
    assert "cotenant gate" in ended.err
    assert ended.run_dir is not None
    assert (await gate(ended.run_dir.parent, ended.run_dir)).code in (1, 3, 4)
    assert {row["end"] for row in ended.streams()} <= {"eos", "open", "aborted"}


def _marks_bytes(run_dir: Path | None) -> int:
    if run_dir is None or not (run_dir / "manifest.json").exists():
        return -1
    return sum(file.stat().st_size for file in (run_dir / "tables" / "marks").glob("*"))


def _marks(run_dir: Path) -> Iterator[tuple[str, str, str]]:
    if (run_dir / "manifest.json").exists():
        for row in read(run_dir).tables["marks"].to_pylist():
            yield row["what"], row["name"], row["edge"]
