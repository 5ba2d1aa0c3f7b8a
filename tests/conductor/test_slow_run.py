"""Whole runs of services so slow that nothing falls due in a window: the answer is FAIL, not inconclusive."""

from pathlib import Path
from typing import Any

from cotenant.testing.truth_server import Script, Served
from tests.conductor.harness import Ended, ran, speech, speech_server, voice_scenario

SILENT = Script(pieces=[], ending="silent", headers={"Content-Type": "audio/pcm;rate=24000"})
SLOW = speech(packets=40, gap_ms=400)  # five times slower than it is to be heard


async def ended_run(folder: Path, answer: Script) -> Ended:
    """The warm-up goes well; from then on every answer is that one."""

    def of(number: int, _served: Served) -> Script:
        return speech() if number < 2 else answer

    async with speech_server(of) as server:
        scenario = voice_scenario(server.url, lookahead="80ms")
        scenario["stages"][0]["baseline"] = False
        scenario["timing"] = {
            "settle": "100ms", "settle_limit": "600ms", "measure": "1s", "stall_limit": "30s"
        }  # fmt: skip
        return await ran(folder, scenario)


def failed(stage: dict[str, Any]) -> list[str]:
    return [gate["metric"] for gate in stage["gates"] if gate["verdict"] == "fail"]


async def test_a_voice_at_a_fifth_of_real_time_fails_though_nothing_fell_due(folder: Path) -> None:
    ended = await ended_run(folder, SLOW)
    (stage,) = ended.summary["stages"]
    assert ended.measured("alone") == []
    # On a machine that is busy with something else the run is INVALID, and says so.
    assert ended.code == (1 if stage["validity"] == "valid" else 4), ended.err
    assert stage["verdict"] == "fail"
    heard = stage["speech"]
    assert (heard["streams"], heard["under_way"], heard["failed"], heard["clean_share"]) == (2, 2, 0, 0.0)
    assert heard["underruns"] >= 4
    # 80 ms are heard, 320 are not.
    assert 0.6 < heard["stall_ratio"] < 0.95
    assert failed(stage) == ["speech.clean_share", "speech.stall_ratio", "speech.headroom_ms.p5"]
    assert "FAIL" in ended.err
    assert (folder / "runs").exists()
    assert "could not be written" not in ended.err


async def test_a_voice_that_hangs_fails_by_every_gate(folder: Path) -> None:
    ended = await ended_run(folder, SILENT)
    (stage,) = ended.summary["stages"]
    assert ended.measured("alone") == []
    assert ended.code == (1 if stage["validity"] == "valid" else 4), ended.err
    assert stage["verdict"] == "fail"
    assert (stage["speech"]["clean_share"], len(failed(stage))) == (0.0, 5)
    assert "2 listeners had no output of voices" in ended.err
