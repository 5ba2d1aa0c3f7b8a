"""What services tell of themselves may be anything at all: nothing but a fact, or none, comes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from cotenant.errors import ServiceError
from cotenant.scenario.schema import Tenant
from cotenant.tenants import attach, ready, service_facts, speech_probe
from cotenant.testing.truth_server import Answer, Script, Served, truth_server
from cotenant.units import NS_PER_S
from cotenant.wire.json_values import json_value

DEEP: Final = b"[" * 60_000
NONSENSE: Final = {
    "deep list": DEEP,
    "deep objects": b'{"active":' * 6_000,
    "infinity": b'{"active": 1e999, "version": 1e999, "data": 1e999}',
    "named infinity": b'{"active": Infinity, "version": -Infinity, "data": Infinity}',
    "no number": b'{"active": NaN, "version": NaN, "data": NaN}',
    "long number": b'{"active": %b, "version": %b, "data": %b}' % ((b"9" * 5_000,) * 3),
    "large number": b'{"active": 1e300, "version": 1e300, "data": 1e300}',
    "negative": b'{"active": -5, "version": -5, "data": -5}',
    "lists": b'{"active": [1], "version": ["1"], "data": [[1], "id", null]}',
    "objects": b'{"active": {"a": 1}, "version": {"v": 1}, "data": {"id": "m"}}',
    "half a surrogate": rb'{"active": "\ud800", "version": "0.1\udfff"}',
    "no UTF-8": b'{"active": "\xff", "version": "\xff", "data": [{"id": "\xfe"}]}',
    "no object": b"17",
    "null": b"null",
    "half": b'{"active": ',
    "bytes": bytes(range(256)),
}
LLM: Final = Tenant.model_validate({"kind": "completions", "engine": "attach", "url": "http://h"})
METRICS: Final = b"""vllm:num_requests_running{engine="0"} %b
vllm:cache_config_info{num_gpu_blocks="%b",kv_cache_size_tokens="%b",enable_prefix_caching="%b"} 1.0
"""


def asked(answer: Answer, question: Callable[[str], Awaitable[Any]]) -> Any:
    """What `question` makes of a server's answers."""

    async def main() -> Any:
        async with truth_server(answer) as server:
            return await question(server.url)

    return asyncio.run(asyncio.wait_for(main(), 30))


def always(body: bytes) -> Answer:
    return lambda _served: Script(
        framing="length", pieces=[(0, body)], headers={"Content-Type": "text/plain"}
    )


@pytest.mark.parametrize("body", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_tells_nothing(body: bytes) -> None:
    assert asked(always(body), attach.facts) == {}
    assert asked(always(body), lambda url: service_facts.models(url, LLM)) == []
    assert asked(always(body), lambda url: service_facts.prefix_cache(url, LLM)) is None
    assert asked(always(body), lambda url: ready.wait_idle([url], limit_ns=NS_PER_S // 5))


@pytest.mark.parametrize("body", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_beside_a_voice_that_speaks(body: bytes) -> None:
    def answer(served: Served) -> Script:
        if served.path != "/v1/audio/speech":
            return Script(framing="length", pieces=[(0, body)])
        return Script(headers={"Content-Type": "audio/pcm;rate=24000"}, pieces=[(0, bytes(480))])

    tts = Tenant.model_validate({"kind": "speech", "engine": "attach", "url": "http://h"})
    found = asked(answer, lambda url: speech_probe.find("tts", url, tts))
    assert found.protocol["settings"] == {"protocol": "openai", "rate": 24_000, "sample_format": "s16"}


@pytest.mark.parametrize("value", [b"9" * 400, b"1e999", b"+Inf", b"NaN", b"-1", b"9" * 5_000, b"\xff", b""])
def test_a_vllm_with_nonsense_in_its_metrics(value: bytes) -> None:
    def answer(served: Served) -> Script:
        page = METRICS % ((value,) * 4) if served.path == "/metrics" else b""
        return Script(framing="length", pieces=[(0, page)])

    assert asked(answer, lambda url: ready.wait_idle([url], limit_ns=NS_PER_S // 5))
    assert asked(answer, attach.facts) == {}
    assert asked(answer, lambda url: service_facts.prefix_cache(url, LLM)) is None


def test_what_is_told_well_is_taken() -> None:
    def answer(served: Served) -> Script:
        bodies = {
            "/version": b'{"version": "0.25.1"}',
            "/metrics": METRICS % (b"2.0", b"10", b"160", b"True"),
            "/v1/models": b'{"data": [{"id": "m", "max_model_len": 9}, {"id": "n", "max_model_len": 1e999}]}',
        }
        return Script(framing="length", pieces=[(0, bodies.get(served.path, b""))])

    told = asked(answer, attach.facts)
    assert (told["version"], told["kv_cache"]["blocks"], told["kv_cache"]["tokens"]) == ("0.25.1", 10, 160)
    listed = asked(answer, lambda url: service_facts.models(url, LLM))
    assert [(model.name, model.context_tokens) for model in listed] == [("m", 9), ("n", None)]
    assert not asked(answer, lambda url: ready.wait_idle([url], limit_ns=0))


@pytest.mark.parametrize("body", [rb'{"data": [{"id": "a\ud800"}]}', b'{"data": [{"id": "a\xed\xa0\x80"}]}'])
def test_a_model_that_no_request_can_name(body: bytes) -> None:
    with pytest.raises(ServiceError, match=r"half of a surrogate pair, 'a\\ud800'") as error:
        asked(always(body), lambda url: service_facts.models(url, LLM))
    assert error.value.kind == "protocol"
    # Whoever gave a name of their own needs none of the list.
    named = LLM.model_copy(update={"model": "mine"})
    assert len(asked(always(body), lambda url: service_facts.models(url, named))) == 1


def test_an_answer_without_end_is_an_answer() -> None:
    """As a head's that is watched: its status came, its body comes byte by byte and goes on."""

    def answer(_served: Served) -> Script:
        return Script(pieces=[(0, b"--frame\r\n")], ending="silent")

    async def question(url: str) -> str:
        async with asyncio.timeout(2):
            return await attach.check("head", url)

    assert asked(answer, question).startswith("http://127.0.0.1")


@pytest.mark.parametrize("body", [DEEP, b"9" * 5_000, b"\xff", b"", b"{"])
def test_what_is_no_json_is_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_value(body)


async def _refused(host: str, *, listening: bool) -> bool:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), host, 0)
    port = server.sockets[0].getsockname()[1]
    if not listening:
        server.close()
        await server.wait_closed()
    try:
        return await attach.refuses(f"http://{host}:{port}/v1?key=x")
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_only_a_port_that_nothing_listens_on_refuses(host: str) -> None:
    assert asyncio.run(_refused(host, listening=False)) is True
    assert asyncio.run(_refused(host, listening=True)) is False


@pytest.mark.parametrize("url", ["http://no-such-host.invalid:1", "http://x" + "y" * 70])
def test_what_cannot_be_asked_does_not_refuse(url: str) -> None:
    assert asyncio.run(attach.refuses(url)) is False
