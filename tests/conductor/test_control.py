"""The control socket: commands go out, events come back, a lost process is noticed at once."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cotenant.conductor.control import ControlServer, LoadProcess, LoadProcessLost


class Child:
    """The other end of the line, in the same loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def hello(cls, server: ControlServer, name: str) -> "Child":
        reader, writer = await asyncio.open_unix_connection(str(server.path))
        child = cls(reader, writer)
        await child.say(event="hello", name=name, pid=1)
        return child

    async def say(self, **event: Any) -> None:
        self.writer.write(json.dumps(event).encode() + b"\n")
        await self.writer.drain()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def connected(
    tmp_path: Path, events: list[Mapping[str, Any]]
) -> tuple[ControlServer, LoadProcess, Child]:
    server = ControlServer(tmp_path / "c", lambda _name, event: events.append(event))
    process = server.expect("listeners")
    await server.start()
    child = await Child.hello(server, "listeners")
    await process.wait("connected")
    return server, process, child


def run(coroutine: Any) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 20))


def test_commands_out_events_back(tmp_path: Path) -> None:
    async def main() -> None:
        events: list[Mapping[str, Any]] = []
        server, process, child = await connected(tmp_path, events)
        await process.send(do="start", stage="x")
        assert json.loads(await child.reader.readline()) == {"do": "start", "stage": "x"}
        await child.say(event="settled", load="a")
        await child.say(event="settled", load="b", n=2)
        assert (await process.wait("settled", load="b"))["n"] == 2
        assert (await process.wait("settled"))["load"] == "a"
        process.forget()
        late = asyncio.ensure_future(process.wait("settled"))
        await child.say(event="progress", streams=3)
        await child.say(event="settled", load="c")
        assert (await late)["load"] == "c"
        assert {"event": "progress", "streams": 3} in events
        await child.close()
        await server.close()

    run(main())


def test_a_process_that_hangs_up_is_lost_for_every_waiter(tmp_path: Path) -> None:
    async def main() -> None:
        server, process, child = await connected(tmp_path, [])
        waits = [asyncio.ensure_future(process.wait("settled", load=load)) for load in "ab"]
        await asyncio.sleep(0)
        await child.close()
        for wait in waits:
            with pytest.raises(LoadProcessLost, match="'listeners' ended"):
                await wait
        with pytest.raises(LoadProcessLost):
            await process.send(do="drain")
        await server.close()

    run(main())


def test_a_crash_says_why_and_keeps_the_errno(tmp_path: Path) -> None:
    async def main() -> None:
        server, process, child = await connected(tmp_path, [])
        await child.say(event="crashed", error="disk full: x", errno=28)
        with pytest.raises(LoadProcessLost, match="disk full"):
            await process.wait("settled")
        assert process.errno == 28
        await child.close()
        await server.close()

    run(main())


@pytest.mark.parametrize("line", [b"not json\n", b'{"event": "hello", "name": "stranger"}\n', b"{}\n", b""])
def test_a_stranger_is_hung_up_on(tmp_path: Path, line: bytes) -> None:
    async def main() -> None:
        server = ControlServer(tmp_path / "c", lambda _name, _event: None)
        server.expect("listeners")
        await server.start()
        reader, writer = await asyncio.open_unix_connection(str(server.path))
        writer.write(line)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        await server.close()

    run(main())


def test_rubbish_on_the_line_loses_the_process_not_the_conductor(tmp_path: Path) -> None:
    async def main() -> None:
        server, process, child = await connected(tmp_path, [])
        child.writer.write(b"{torn\n")
        with pytest.raises(LoadProcessLost, match="broke its control line"):
            await process.wait("settled")
        await child.close()
        await server.close()

    run(main())
