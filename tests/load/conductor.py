"""The conductor's end of a load process' control socket, and the process as its child."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from cotenant.units import NS_PER_S


def spec(run_dir: Path, tts: str, head: str, llm: str, **fields: Any) -> dict[str, Any]:
    def one(kind: str, url: str) -> dict[str, Any]:
        return {
            "kind": kind, "urls": [url], "protocol": "openai", "model": None, "voice": None,
            "api_key_env": None, "extra": {}, "rate": 24_000, "sample_format": None,
        }  # fmt: skip

    return {
        "name": "listeners", "index": 2, "run_dir": str(run_dir), "run_id": "run-1", "seed": 7,
        "audio_limit_bytes": 10**6, "stall_limit_ns": 2 * NS_PER_S, "request_limit_ns": 60 * NS_PER_S,
        "player": {"lookahead_ns": 0, "start": "prefill", "after_underrun": "resume", "quantum_ns": 0},
        "tenants": {"tts": one("speech", tts), "head": one("face", head), "llm": one("completions", llm)},
        "loads": {
            "voices": {"kind": "voices", "tenant": "tts", "mode": "turns", "listeners": 2, "every": "300ms",
                       "pause": "20ms", "text": "builtin"},
            "faces": {"kind": "faces", "tenant": "head", "follows": "voices", "listeners": 1, "fps": 25,
                      "pace": "as-arrives", "face_buffer": "200ms"},
            "decode": {"kind": "completions", "tenant": "llm", "mode": "alive", "streams": 2, "rate": None,
                       "prompt": 32, "output": 20},
        },
        "texts": {"voices": {"measured": ["a", "b", "c"], "settling": ["x", "y"]}},
        **fields,
    }  # fmt: skip


class Conductor:
    """The other end of the control socket."""

    def __init__(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = stream
        self._writer = writer
        self.progress: list[Mapping[str, Any]] = []

    def tell(self, **command: Any) -> None:
        self._writer.write(json.dumps(command).encode() + b"\n")

    async def wait(self, event: str) -> dict[str, Any]:
        """The next event of that name; progress on the way is kept, anything else is wrong."""
        while True:
            value: dict[str, Any] = json.loads(await self._reader.readline())
            if value["event"] == event:
                return value
            assert value["event"] == "progress", value
            self.progress.append(value)

    def hang_up(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def load_process(
    tmp_path: Path, instead: str = ""
) -> AsyncIterator[tuple[Conductor, asyncio.subprocess.Process]]:
    """The child, connected; killed at the end if it is still there. `instead`: other code to run."""
    path = tmp_path / "c"
    arrived: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
        asyncio.get_running_loop().create_future()
    )

    async def connected(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set_result((stream, writer))

    server = await asyncio.start_unix_server(connected, str(path))
    child = await asyncio.create_subprocess_exec(
        sys.executable, *(["-c", instead] if instead else ["-m", "cotenant.load.process"]),
        env={**os.environ, "COTENANT_CONTROL": str(path), "COTENANT_NAME": "listeners"},
    )  # fmt: skip
    try:
        conductor = Conductor(*await arrived)
        hello = await conductor.wait("hello")
        assert (hello["name"], hello["pid"]) == ("listeners", child.pid)
        yield conductor, child
        conductor.hang_up()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
        server.close()
