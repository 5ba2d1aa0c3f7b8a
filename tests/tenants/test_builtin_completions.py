"""The built-in LLM as its clients see it: the stream's form, counts, batching, metrics, refusals."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from cotenant.load.asker import ask, prepare
from cotenant.load.warm import Warmth, warm
from cotenant.records import WARM_STAGE
from tests.load import rig
from tests.tenants.built_in import Running, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def llm() -> Iterator[Running]:
    with running("completions") as server:
        yield server


async def stream(session: aiohttp.ClientSession, url: str, **body: Any) -> tuple[list[Any], str]:
    """The events of an answer (the last, `[DONE]`, as text) and its content type."""
    asked = {"model": "m", "stream": True, "ignore_eos": True, "max_tokens": 8, "prompt": [5, 6, 7], **body}
    async with session.post(f"{url}/v1/completions", json=asked) as response:
        assert response.status == 200
        text = (await response.read()).decode()
    assert text.endswith("\n\n")
    events = []
    for event in text[:-2].split("\n\n"):
        assert event.startswith("data: ")
        data = event.removeprefix("data: ")
        events.append(data if data == "[DONE]" else json.loads(data))
    return events, response.headers["Content-Type"]


async def metrics(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """The samples of `/metrics`, by name (bucket lines left out)."""
    async with session.get(f"{url}/metrics") as response:
        text = await response.text()
    found = re.findall(r"^(vllm:\w+)\{([^}]*)\} (\S+)$", text, re.MULTILINE)
    return {
        name: float(value) for name, labels, value in found if "le=" not in labels and "reason" not in labels
    }


async def until_idle(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(20):
        while True:
            async with session.get(f"{url}/health") as response:
                if (await response.json())["active"] == 0:
                    return


def test_a_stream_has_an_event_a_token_the_usage_and_done(llm: Running) -> None:
    async def client() -> tuple[list[Any], str]:
        async with aiohttp.ClientSession() as session:
            return await stream(session, llm.url, stream_options={"include_usage": True})

    events, content_type = asyncio.run(client())
    assert content_type.startswith("text/event-stream")
    *tokens, usage, done = events
    assert done == "[DONE]"
    assert len(tokens) == 8
    assert all(event["object"] == "text_completion" and event["choices"][0]["text"] for event in tokens)
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None] * 7 + ["length"]
    assert all("usage" not in event for event in tokens)
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "total_tokens": 11, "completion_tokens": 8}


def test_running_usage_counts_up_and_no_usage_is_sent_unasked(llm: Running) -> None:
    async def client() -> tuple[list[Any], list[Any]]:
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with aiohttp.ClientSession() as session:
            counted = await stream(session, llm.url, stream_options=options)
            return counted[0], (await stream(session, llm.url))[0]

    counted, plain = asyncio.run(client())
    assert [event["usage"]["completion_tokens"] for event in counted[:-2]] == list(range(1, 9))
    assert len(plain) == 9
    assert all("usage" not in event for event in plain[:-1])


def test_requests_are_batched_and_the_metrics_count_what_was_done(llm: Running) -> None:
    async def client() -> tuple[dict[str, float], dict[str, float], list[int]]:
        async with aiohttp.ClientSession() as session:
            await until_idle(session, llm.url)
            before = await metrics(session, llm.url)
            asked = [
                stream(session, llm.url, prompt=[number + 1] * length, max_tokens=40)
                for number, length in enumerate((600, 3, 900, 20))
            ]
            events = [len(answer[0]) - 1 for answer in await asyncio.gather(*asked)]
            await until_idle(session, llm.url)
            return before, await metrics(session, llm.url), events

    before, after, events = asyncio.run(client())
    done = {name: after[name] - before[name] for name in before}
    assert events == [40] * 4
    assert done["vllm:prompt_tokens_total"] == 1523
    assert done["vllm:generation_tokens_total"] == 160
    # The first token of each is made by its prompt's last step, the other 39 by one token of a step each.
    assert done["vllm:iteration_tokens_total_sum"] == 1523 + 4 * 39
    # One after another it would take 160 steps and more.
    assert 40 <= done["vllm:iteration_tokens_total_count"] < 80
    assert after["vllm:num_requests_running"] == after["vllm:num_requests_waiting"] == 0
    assert after["vllm:kv_cache_usage_perc"] == 0
    assert after["vllm:num_preemptions_total"] == 0


def test_a_text_prompt_and_a_whole_answer(llm: Running) -> None:
    async def client() -> Any:
        asked = {"model": "m", "prompt": "Say something kind.", "max_tokens": 5, "ignore_eos": True}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{llm.url}/v1/completions", json=asked) as response,
        ):
            return await response.json()

    answer = asyncio.run(client())
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["text"].split()) == 5


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "prompt must be"),
        ({"prompt": []}, "prompt must be"),
        ({"prompt": [1, 999_999]}, "token ids"),
        ({"prompt": [1], "max_tokens": 0}, "max_tokens"),
        ({"prompt": [1] * 9000, "max_tokens": 10}, "together"),
        ({"prompt": [1], "stream_options": {"include_usage": True}}, "stream: true"),
        ({"prompt": [1], "ignore_eos": "yes"}, "ignore_eos"),
        ({"prompt": [1], "temperature": -1}, "temperature"),
        ({"prompt": [[1], [2]]}, "one prompt"),
    ],
)
def test_a_bad_request_is_told_what_would_be_right(llm: Running, body: Any, part: str) -> None:
    async def client() -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{llm.url}/v1/completions", json=body) as response,
        ):
            return response.status, (await response.json())["error"]["message"]

    status, message = asyncio.run(client())
    assert status == 400
    assert part in message


def test_a_client_that_leaves_frees_its_slot(llm: Running) -> None:
    async def client() -> float:
        async with aiohttp.ClientSession() as session:
            asked = {"prompt": [3], "max_tokens": 8000, "stream": True, "ignore_eos": True}
            response = await session.post(f"{llm.url}/v1/completions", json=asked)
            await response.content.readany()
            was = (await metrics(session, llm.url))["vllm:num_requests_running"]
            response.close()
            await until_idle(session, llm.url)
            return was

    assert asyncio.run(client()) == 1


def test_the_model_is_listed(llm: Running) -> None:
    async def client() -> Any:
        async with aiohttp.ClientSession() as session, session.get(f"{llm.url}/v1/models") as response:
            return await response.json()

    assert asyncio.run(client())["data"][0]["id"] == "tiny"


async def chat(session: aiohttp.ClientSession, url: str, **body: Any) -> tuple[int, str]:
    asked = {"messages": [{"role": "user", "content": "one two six"}], "max_tokens": 5, "ignore_eos": True}
    async with session.post(f"{url}/v1/chat/completions", json={**asked, **body}) as response:
        return response.status, await response.text()


def test_a_chat_says_who_speaks_and_then_a_token_an_event(llm: Running) -> None:
    async def client() -> tuple[int, str]:
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with aiohttp.ClientSession() as session:
            return await chat(session, llm.url, stream=True, stream_options=options)

    status, text = asyncio.run(client())
    assert status == 200
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    first, *tokens, last = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {event["object"] for event in (first, *tokens, last)} == {"chat.completion.chunk"}
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["usage"]["completion_tokens"] for event in (first, *tokens)] == [0, 1, 2, 3, 4, 5]
    assert all(event["choices"][0]["delta"]["content"] for event in tokens)
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None] * 4 + ["length"]
    # The speaker's token, and one for each of three short words.
    assert (last["choices"], last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == ([], 4, 5)


def test_a_chat_as_a_whole_and_its_refusals(llm: Running) -> None:
    async def client() -> list[tuple[int, str]]:
        async with aiohttp.ClientSession() as session:
            newer = {"max_completion_tokens": 3, "max_tokens": 99}
            wrong: list[dict[str, Any]] = [
                {"messages": []},
                {"messages": "hi"},
                {"messages": [{"role": "user"}]},
            ]
            return [await chat(session, llm.url, **body) for body in (newer, *wrong)]

    (status, text), *refused = asyncio.run(client())
    assert status == 200
    value = json.loads(text)
    assert (value["object"], value["usage"]["completion_tokens"]) == ("chat.completion", 3)
    assert value["choices"][0]["message"]["role"] == "assistant"
    assert len(value["choices"][0]["message"]["content"].split()) == 3
    assert [status for status, _ in refused] == [400] * 3
    assert all("message" in json.loads(text)["error"]["message"] for _, text in refused)


def test_a_load_of_chats_has_prompts_of_the_length_asked_for(llm: Running) -> None:
    async def client() -> tuple[Warmth, rig.KeptRows]:
        load = rig.completions(prompt=200, output=6, streams=2)
        told = rig.settings([rig.tenant(llm.url, "llm", protocol="chat")], [load])
        async with rig.desk_for(told) as (desk, rows):
            warmth = await warm(desk, rig.new_stage(WARM_STAGE), "decode")
            await ask(desk, rig.new_stage(), load, 0, time.monotonic_ns(), prepare(desk, load, 6))
            return warmth, rows

    warmth, rows = asyncio.run(client())
    assert (warmth.ok, warmth.failures) == (2, [])
    assert warmth.request is not None
    assert (warmth.request["protocol"], warmth.request["usage"]) == ("chat", "running")
    row = rows.stream(-1)
    assert (row["end"], row["output_tokens"]) == ("eos", 6)
    # A token of the speaker's is among them.
    assert abs(row["prompt_tokens"] - 200) <= 1
    mine = [token["tokens"] for token in rows.rows["tokens"] if token["stream"] == row["stream"]]
    assert mine == [1] * 6
