"""A desk over rows kept in memory, and runs of one coroutine under uvloop or asyncio."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.desk import Desk
from cotenant.load.face_link import web_session
from cotenant.load.settings import CompletionsLoad, FacesLoad, Load, Settings, Tenant, VoicesLoad
from cotenant.load.stage import Stage
from cotenant.load.transport import Transport
from cotenant.playback.options import PlayerOptions
from cotenant.records import TABLES
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_MS, NS_PER_S

T = TypeVar("T")


class KeptRows(RunWriter):
    """A writer that keeps its rows, and audio up to a limit."""

    def __init__(self, audio_limit_bytes: int = 1 << 30) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        self.audio = bytearray()
        self.limit_bytes = audio_limit_bytes

    def append(self, table: str, **row: Any) -> None:
        assert row.keys() <= set(TABLES[table].names), row
        self.rows[table].append(row)

    def append_audio(self, data: bytes | bytearray | memoryview) -> int | None:
        if len(self.audio) + len(data) > self.limit_bytes:
            self.limit_bytes = 0
            return None
        self.audio += data
        return len(self.audio) - len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def stream(self, number: int = 0) -> dict[str, Any]:
        """The last row of the stream that was opened as number so-and-so."""
        order = list(dict.fromkeys(row["stream"] for row in self.rows["streams"]))
        return [row for row in self.rows["streams"] if row["stream"] == order[number]][-1]


def tenant(url: str, name: str = "tts", **fields: Any) -> Tenant:
    values: dict[str, Any] = {
        "name": name, "urls": [url], "model": None, "voice": None, "extra": {}, "rate_hz": 24_000,
        "sample_format": None, "headers": {}, **fields,
    }  # fmt: skip
    return Tenant(**values)


def voices(**fields: Any) -> VoicesLoad:
    values: dict[str, Any] = {
        "name": "voices", "tenant": "tts", "mode": "turns", "listeners": 1, "every_ns": 4 * NS_PER_S,
        "pause_ns": 500 * NS_PER_MS, "measured": [f"line {i}" for i in range(18)],
        "settling": [f"settling {i}" for i in range(6)], **fields,
    }  # fmt: skip
    return VoicesLoad(**values)


def faces(**fields: Any) -> FacesLoad:
    values: dict[str, Any] = {
        "name": "faces", "tenant": "head", "follows": "voices", "listeners": 1, "fps": 25, "realtime": False,
        **fields,
    }  # fmt: skip
    return FacesLoad(**values)


def completions(**fields: Any) -> CompletionsLoad:
    values: dict[str, Any] = {
        "name": "decode", "tenant": "llm", "mode": "alive", "streams": 1, "rate_per_s": None, "prompt": 16,
        "output": 5, **fields,
    }  # fmt: skip
    return CompletionsLoad(**values)


def settings(tenants: list[Tenant], loads: list[Load], **fields: Any) -> Settings:
    values: dict[str, Any] = {
        "name": "listeners", "index": 1, "run_dir": Path(), "run_id": "run-1", "seed": 7,
        "audio_limit_bytes": None, "player": PlayerOptions(lookahead_ns=400 * NS_PER_MS),
        "stall_limit_ns": 300 * NS_PER_MS, "request_limit_ns": 60 * NS_PER_S,
        "tenants": {one.name: one for one in tenants}, "loads": {one.name: one for one in loads}, **fields,
    }  # fmt: skip
    return Settings(**values)


@contextlib.asynccontextmanager
async def desk_for(
    told: Settings, *, rows: KeptRows | None = None, late: KeptRows | None = None, stamps: bool = True
) -> AsyncIterator[tuple[Desk, KeptRows]]:
    kept = rows or KeptRows()
    async with web_session() as web:
        transport = Transport(ClockMap(read_pair()), stamps=stamps)
        yield Desk(settings=told, writer=kept, late_audio=late, transport=transport, web=web), kept


def new_stage(name: str = "one", *, start_ns: int = 0, window: tuple[int, int] | None = None) -> Stage:
    stage = Stage(name=name, round=1, start_ns=start_ns)
    if window is not None:
        stage.window_start_ns, stage.window_end_ns = window
    return stage


def run(work: Coroutine[Any, Any, T], *, uv: bool = True) -> T:
    """Runs it to its end, within 30 s."""

    async def limited() -> T:
        async with asyncio.timeout(30):
            return await work

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uv else None) as runner:
        return runner.run(limited())


PCM_HEADERS: Mapping[str, str] = {"Content-Type": "audio/pcm;rate=24000"}
SSE_HEADERS: Mapping[str, str] = {"Content-Type": "text/event-stream"}
