"""TLS: user stamps, and certificates that are not to be trusted."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from cotenant.load.voice import Turn, speak
from cotenant.testing.truth_server import Script, truth_server
from cotenant.tls import Trust, context
from tests.load.rig import PCM_HEADERS, KeptRows, desk_for, new_stage, run, settings, tenant, voices

GOOD = Script(headers=PCM_HEADERS, pieces=[(0, bytes(4800))])


async def spoken(url: str, trusted: Path | None = None) -> KeptRows:
    async with desk_for(settings([tenant(url)], [voices()], stall_limit_ns=10**10)) as (desk, rows):
        if trusted is not None:
            desk.transport.trust = Trust(own={}, usual=context(str(trusted)))
        turn = Turn(listener=0, due_ns=0, delayed_ns=0, line=lambda: (0, "Hi."), tap=None)
        await speak(desk, new_stage(), voices(), turn)
        return rows


def test_a_trusted_server(certificate: Path) -> None:
    async def work() -> KeptRows:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        async with truth_server(lambda _: GOOD, tls=context) as server:
            return await spoken(server.url, trusted=certificate)

    rows = run(work())
    row = rows.stream()
    assert (row["end"], row["stamp"], row["error"]) == ("eos", "user", None)
    assert row["due"] < row["connected"] <= row["sent"] <= row["first_byte"] <= row["done"]
    assert sum(chunk["bytes"] for chunk in rows.rows["chunks"]) == 4800


def test_a_certificate_that_nobody_vouches_for(certificate: Path) -> None:
    async def work() -> KeptRows:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        async with truth_server(lambda _: GOOD, tls=context) as server:
            return await spoken(server.url)

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == ("error", "tls")
    assert "certificate" in row["error"]


@contextlib.asynccontextmanager
async def plain_server() -> AsyncIterator[str]:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Plain\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def test_a_plain_server_behind_https() -> None:
    async def work() -> KeptRows:
        async with plain_server() as url:
            return await spoken(url)

    row = run(work()).stream()
    assert (row["end"], row["error_kind"]) == ("error", "tls")
