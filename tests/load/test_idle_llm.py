"""The LLM server that computes nothing: by hand, as a process, and what it tells of itself."""

import asyncio
import json
import sys

import aiohttp
import pytest

from tests.load.rig import run
from tests.load.test_asker import idle_llm


async def answer(url: str, **fields: object) -> tuple[int, list[str], float]:
    """Status, data lines, and seconds of a request's loop time."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    async with aiohttp.ClientSession() as web, web.post(f"{url}/v1/completions", json=fields) as response:
        text = await response.text()
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return response.status, lines, loop.time() - start_s


def test_tokens_come_by_the_clock_after_the_prefill() -> None:
    async def work() -> tuple[int, list[str], float]:
        async with idle_llm(tokens_per_s=100, prefill_tokens_per_s=1000) as url:
            options = {"include_usage": True, "continuous_usage_stats": True}
            return await answer(url, prompt=[7] * 100, max_tokens=11, stream=True, stream_options=options)

    status, lines, seconds = run(work())
    chunks = [json.loads(line) for line in lines[:-1]]
    assert (status, lines[-1]) == (200, "[DONE]")
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [*range(1, 12), 11]
    assert chunks[-1]["choices"] == []
    # 100 ms of prefill and 10 gaps of 10 ms: never less, whatever the machine does.
    assert seconds >= 0.2


def test_a_request_that_is_none() -> None:
    async def work() -> int:
        async with idle_llm() as url:
            return (await answer(url, max_tokens="many"))[0]

    assert run(work()) == 400


def test_what_it_tells_of_itself() -> None:
    async def work() -> tuple[object, object, str]:
        async with idle_llm() as url, aiohttp.ClientSession() as web:
            await answer(url, prompt="a b c", max_tokens=5)
            async with web.get(f"{url}/health") as health, web.get(f"{url}/v1/models") as models:
                told = await health.json(), await models.json()
            async with web.get(f"{url}/metrics") as metrics:
                return *told, await metrics.text()

    health, models, metrics = run(work())
    assert health == {"status": "ok", "active": 0}
    assert isinstance(models, dict)
    assert models["data"][0]["id"] == "idle"
    assert 'vllm:generation_tokens_total{model_name="idle"} 5' in metrics
    assert 'vllm:prompt_tokens_total{model_name="idle"} 3' in metrics


@pytest.mark.parametrize("arguments", [[], ["--tokens-per-s", "50"]])
def test_the_process_says_where_it_is_and_ends_on_sigterm(arguments: list[str]) -> None:
    async def work() -> tuple[dict[str, object], int, int]:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cotenant.testing.idle_llm", "--port", "0", *arguments,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        try:
            ready = json.loads(await child.stdout.readline())
            child.terminate()
            return ready, child.pid, await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()

    ready, pid, code = run(work(), uv=False)
    assert code == 0
    assert (ready["ready"], ready["kind"], ready["pid"]) == (True, "completions", pid)
    assert str(ready["url"]).startswith("http://127.0.0.1:")
