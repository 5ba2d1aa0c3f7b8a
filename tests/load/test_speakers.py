"""An XTTS server: its voices are asked for once, and each request carries the numbers of one."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from cotenant.load.voice import Turn, speak
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.load.rig import KeptRows, desk_for, new_stage, run, settings, tenant, voices
from tests.wire.make_quirks import wav

PCM: Final = bytes(range(240)) * 10
ANA: Final = {"speaker_embedding": [0.5, 1], "gpt_cond_latent": [[0.25]]}
LISTED: Final = {"Ana": ANA, "Bo": {**ANA, "speaker_embedding": [2]}}


def spoken(listed: Script, **fields: Any) -> tuple[KeptRows, list[Served]]:
    """Two utterances in turn."""

    def answer(served: Served) -> Script:
        if served.path == "/studio_speakers":
            return listed
        return Script(headers={"Content-Type": "audio/wav"}, pieces=[(0, wav(0)), (0, PCM)])

    async def work() -> tuple[KeptRows, list[Served]]:
        async with truth_server(answer) as server:
            one = tenant(server.url, protocol="xtts", rate_hz=None, **fields)
            async with desk_for(settings([one], [voices()], stall_limit_ns=10**10)) as (desk, rows):
                for number in range(2):
                    line = _line(number)
                    turn = Turn(listener=0, due_ns=time.monotonic_ns(), delayed_ns=0, line=line, tap=None)
                    await speak(desk, new_stage(), voices(), turn)
                return rows, server.served

    return run(work())


def _line(number: int) -> Callable[[], tuple[int, str]]:
    return lambda: (number, "Hi.")


def listing(value: Any, status: int = 200) -> Script:
    return Script(status=status, framing="length", pieces=[(0, json.dumps(value).encode())])


@pytest.mark.parametrize(("voice", "numbers"), [(None, [0.5, 1]), ("Bo", [2])])
def test_the_voices_are_asked_for_once(voice: str | None, numbers: list[float]) -> None:
    rows, served = spoken(listing(LISTED), voice=voice, headers={"Authorization": "Bearer k"})
    assert [one.path for one in served] == ["/studio_speakers", "/tts_stream", "/tts_stream"]
    assert {one.headers["authorization"] for one in served} == {"Bearer k"}
    asked: Mapping[str, Any] = json.loads(served[1].body)
    assert asked["speaker_embedding"] == numbers
    assert (asked["text"], asked["language"], asked["gpt_cond_latent"]) == ("Hi.", "en", [[0.25]])
    assert {row["end"] for row in rows.rows["streams"]} == {None, "eos"}
    assert bytes(rows.audio) == PCM * 2


def test_numbers_in_the_scenario_are_taken() -> None:
    _, served = spoken(listing({}), extra=ANA)
    assert [one.path for one in served] == ["/tts_stream", "/tts_stream"]
    assert json.loads(served[0].body)["speaker_embedding"] == [0.5, 1]


@pytest.mark.parametrize(
    ("listed", "kind", "words"),
    [
        (listing(LISTED), "protocol", "no voice 'Zoe' in /studio_speakers; it lists Ana, Bo"),
        (listing("no", 403), "forbidden", "HTTP 403"),
        (Script(framing="length", pieces=[(0, b"{")]), "protocol", "/studio_speakers"),
        (Script(head=False, ending="close"), "protocol", "/studio_speakers"),
    ],
)
def test_no_voice(listed: Script, kind: str, words: str) -> None:
    rows, _ = spoken(listed, voice="Zoe")
    row = rows.stream()
    assert (row["end"], row["error_kind"]) == ("error", kind)
    assert words in row["error"]
