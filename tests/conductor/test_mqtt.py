"""`cotenant run --mqtt`: what a dashboard sees of a run, and that no broker keeps a run from its end."""

import asyncio
import contextlib
import json
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.report.table import verdict_word
from cotenant.run_dir.reader import read
from tests.conductor.harness import Ended, ran, speech, speech_server, started, voice_scenario
from tests.live.mosquitto import Mosquitto, Subscriber, mosquitto, needs_mosquitto, subscribed, until


@contextlib.asynccontextmanager
async def dashboard(folder: Path, *flags: str) -> AsyncIterator[tuple[Mosquitto, Subscriber]]:
    """A broker and a subscriber; neither start nor end holds up the runs of other tests."""
    with contextlib.ExitStack() as stack:
        broker = await asyncio.to_thread(stack.enter_context, mosquitto(folder))
        subscriber = await asyncio.to_thread(stack.enter_context, subscribed(broker, *flags, "-q", "1"))
        try:
            yield broker, subscriber
        finally:
            await asyncio.to_thread(stack.close)


def stuttering(number: int, _served: object) -> Any:
    """Every second voice runs dry again and again: 80 ms of sound each 200 ms."""
    return speech(packets=6, gap_ms=200 if number % 2 else 20)


def scenario(url: str, **changes: Any) -> dict[str, Any]:
    return voice_scenario(url, lookahead="100ms", **changes)


def told(subscriber: Subscriber, kind: str) -> list[dict[str, Any]]:
    lines = [line for line in subscriber.lines() if line[0].endswith(f"/{kind}")]
    return [json.loads(payload) for _, _, payload in lines]


def underruns_of(ended: Ended) -> Counter[int]:
    """Stream -> how often it ran dry, played again from what was recorded."""
    from cotenant.playback.player import PlayerOptions, play

    assert ended.run_dir is not None
    recording = read(ended.run_dir)
    chunks = recording.tables["chunks"].to_pylist()
    found: Counter[int] = Counter()
    for row in recording.tables["streams"].to_pylist():
        mine = [chunk for chunk in chunks if chunk["stream"] == row["stream"] and chunk["media"]]
        if row["stage"] == "warm" or not mine:
            continue
        whole = row["end"] == "eos"
        playback = play(
            [chunk["arrival"] for chunk in mine],
            [chunk["media"] for chunk in mine],
            PlayerOptions(lookahead_ns=100_000_000),
            done_ns=row["done"] if whole else None,
            give_up_ns=row["done"],
        )
        found[row["stream"]] += playback.underruns or 0
    return +found


@needs_mosquitto
async def test_a_run_as_it_is_published(folder: Path) -> None:
    async with dashboard(folder) as (broker, subscriber), speech_server(stuttering) as server:
        ended = await ran(folder, scenario(server.url), "--mqtt", broker.url)
        await asyncio.to_thread(until, lambda: len(told(subscriber, "status")) >= 2, "the last status")
    assert ended.run_dir is not None, ended.err
    assert {topic.rpartition("/")[0] for topic, _, _ in subscriber.lines()} == {
        "lab", f"lab/{ended.run_dir.name}"
    }  # fmt: skip
    lines = [json.loads(payload) for topic, _, payload in subscriber.lines() if topic != "lab/ready"]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    recorded = underruns_of(ended)
    assert sum(recorded.values()) > 4
    assert Counter(line["stream"] for line in told(subscriber, "underrun")) == recorded
    places = Counter((line["window"], line["stage"]) for line in told(subscriber, "underrun"))
    assert places["measure", "alone"] == ended.summary["stages"][0]["speech"]["underruns"]
    stages = [(line["name"], line["phase"], line["edge"]) for line in told(subscriber, "stage")]
    for name in ("alone", "alone/again"):
        mine = [(phase, edge) for stage, phase, edge in stages if stage == name]
        assert mine[0] == ("stage", "start")
        assert mine[-1] == ("stage", "end")
        assert ("measure", "start") in mine
    assert told(subscriber, "metrics")[-1]["loads"].keys() == {"voices"}
    (verdict,) = told(subscriber, "verdict")
    assert verdict["exit_code"] == ended.code
    assert verdict["verdict"] == ended.summary["verdict"]
    assert [one["word"] for one in verdict["stages"]] == list(map(verdict_word, ended.summary["stages"]))
    assert str(folder) not in json.dumps(lines)
    first, last = told(subscriber, "status")
    assert (first["status"], last["status"]) == ("running", "complete")
    assert ended.manifest["mqtt"] == {"published": len(lines), "dropped": 0, "reconnects": 0}
    assert f"{len(lines)} published, 0 dropped, 0 reconnects" in ended.err


@needs_mosquitto
async def test_every_underrun_is_seen_once_though_the_broker_is_killed_in_mid_run(folder: Path) -> None:
    async with dashboard(folder, "-c", "-i", "dashboard") as (broker, subscriber):
        async with (
            speech_server(stuttering) as server,
            started(folder, scenario(server.url), "--mqtt", broker.url) as command,
        ):
            await command.until_marked("measure", "alone")
            await asyncio.to_thread(broker.stop, kill=True)
            await command.until_marked("measure", "alone", "end")
            await asyncio.to_thread(broker.start)
            ended = await command.end()
        await asyncio.to_thread(
            until, lambda: "published" in told(subscriber, "status")[-1], "the last status"
        )
    seen: list[dict[str, Any]] = []
    for line in told(subscriber, "underrun"):
        if not seen or line["seq"] > seen[-1]["seq"]:
            seen.append(line)
    assert Counter(line["stream"] for line in seen) == underruns_of(ended)
    assert ended.manifest["mqtt"]["dropped"] == 0
    assert ended.manifest["mqtt"]["reconnects"] == 1


@needs_mosquitto
async def test_the_last_will_of_a_run_that_was_killed(folder: Path) -> None:
    async with dashboard(folder) as (broker, subscriber):
        async with (
            speech_server() as server,
            started(folder, scenario(server.url), "--mqtt", broker.url) as command,
        ):
            await command.until_marked("measure", "alone")
            command.process.send_signal(signal.SIGKILL)
            await command.end()
        await asyncio.to_thread(until, lambda: len(told(subscriber, "status")) == 2, "the last will")
    assert [line["status"] for line in told(subscriber, "status")] == ["running", "interrupted"]


@needs_mosquitto
async def test_an_interrupted_run_says_so_itself(folder: Path) -> None:
    async with dashboard(folder) as (broker, subscriber):
        async with (
            speech_server() as server,
            started(folder, scenario(server.url), "--mqtt", broker.url) as command,
        ):
            await command.until_marked("measure", "alone")
            command.process.send_signal(signal.SIGINT)
            ended = await command.end()
        await asyncio.to_thread(until, lambda: len(told(subscriber, "status")) == 2, "the last status")
    assert ended.code == 130
    assert told(subscriber, "status")[-1]["status"] == "interrupted"
    assert told(subscriber, "status")[-1]["seq"] is not None
    assert told(subscriber, "verdict") == []
    assert ended.manifest["status"] == "interrupted"
    assert ended.manifest["mqtt"]["dropped"] == 0


async def test_a_broker_that_never_answers_changes_no_verdict(folder: Path) -> None:
    secret = {"COTENANT_MQTT_USER": "me", "COTENANT_MQTT_PASSWORD": "s3cret-0123456789"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}/lab"
        async with speech_server() as server:
            long_enough = scenario(server.url)  # to wait for it in vain
            ended = await ran(folder, long_enough, "--mqtt", url, env=secret)
    assert ended.manifest["status"] == "complete"
    assert ended.summary["stages"][0]["speech"]["streams"] > 0
    assert ended.manifest["mqtt"]["published"] == 0
    assert ended.manifest["mqtt"]["dropped"] > 5
    assert "was never reached" in ended.err
    assert ended.err.count("cannot be reached") == 1
    assert ended.run_dir is not None
    files = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    assert [path for path in files if b"s3cret" in path.read_bytes()] == []
    assert "s3cret" not in ended.err


@pytest.mark.parametrize("url", ["mqtt://me:s3cret@broker", ""])
async def test_a_bad_address_ends_before_anything_starts(folder: Path, url: str) -> None:
    ended = await ran(folder, scenario("http://127.0.0.1:9"), "--mqtt", url)
    assert ended.code == 2
    assert ended.run_dir is None
    assert "s3cret" not in ended.err
    assert len(ended.err.strip().splitlines()) == 1
