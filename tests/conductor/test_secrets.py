"""An API key of a tested service stands nowhere in what a run leaves behind."""

import asyncio
from pathlib import Path

import pytest

from cotenant.testing.truth_server import Served
from tests.conductor import harness

KEY = "sk-s3cret-0123456789abcdef"


async def _recorded(folder: Path) -> tuple[harness.Ended, list[Served]]:
    async with harness.speech_server() as server:
        scenario = harness.voice_scenario(f"{server.url}/v1/audio/speech?api_key={KEY}")
        scenario["tenants"]["tts"] |= {"api_key_env": "TTS_TEST_KEY", "extra": {"password": KEY}}
        ended = await harness.ran(folder, scenario)
        return ended, [served for served in server.served if served.body]


def test_no_file_of_a_run_holds_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTS_TEST_KEY", KEY)
    ended, asked = asyncio.run(_recorded(tmp_path))
    assert ended.run_dir is not None, ended.err
    # It was used in every way, so that it could have been kept.
    assert asked
    for served in asked:
        assert {name.lower(): text for name, text in served.headers.items()}[
            "authorization"
        ] == f"Bearer {KEY}"
        assert KEY in served.path
        assert KEY.encode() in served.body
    files = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert KEY not in ended.out + ended.err
