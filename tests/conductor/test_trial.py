"""The trial of a service has a limit, says what it waits for, and leaves nothing behind, whatever ends it."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.cli.app import make_app
from cotenant.conductor.doctor import trial
from cotenant.conductor.doctor.try_services import Given, Outcome, try_services
from cotenant.report.doctor.facts import Tried
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario
from cotenant.testing.truth_server import Script, Served, truth_server
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.conductor.test_try_services import beside

KEEP_ALIVES = Script(
    pieces=[(n * 50_000_000, b": still here\n\n") for n in range(400)],
    headers={"Content-Type": "text/event-stream"},
)
SLOW_HEAD = Script(pieces=[(n * 50_000_000, b"H" if not n else b"T") for n in range(400)], raw=True)
HANGS = {
    "no answer": Script(head=False, ending="silent"),
    "a head byte by byte": SLOW_HEAD,
    "keep-alives alone": KEEP_ALIVES,
    "a head without a body": Script(ending="silent", headers={"Content-Type": "audio/pcm;rate=24000"}),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files are made in these tests; there must be none at the end."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    assert list(place.iterdir()) == []


@pytest.fixture(scope="module")
def all_together() -> Scenario:
    return load("all-together")


@pytest.mark.parametrize("kind", ["speech", "face", "completions"])
@pytest.mark.parametrize("name", HANGS)
def test_a_service_that_hangs(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_QUIET_S", 0.01)
    said: list[str] = []

    def answer(served: Served) -> Script:
        return Script(status=404) if served.path in ("/openapi.json", "/v1/models", "/info") else HANGS[name]

    def look(url: str) -> Outcome:
        given = [Given(kind=kind, url=f"{url}/?token=abcdefgh12345678")]
        return try_services(
            "all-together", given, ["device=cpu"], None, limit_ns=200 * NS_PER_MS, tell=said.append
        )

    begun_s = time.monotonic()
    outcome = beside(truth_server, answer, then=look)
    assert time.monotonic() - begun_s < 20
    (one,) = outcome.tried
    assert one.failed is not None
    if one.failed.kind == "timeout":
        assert "was not complete within 200ms" in one.failed.text
        assert "--limit 2m" in one.failed.hint
        (line,) = said
        assert "waiting for" in line
        assert "200ms at most" in line
    else:  # a head that is asked by GET and answers otherwise
        assert (kind, one.failed.kind) == ("face", "protocol")
    assert outcome.text is None
    assert "abcdefgh12345678" not in "".join(said) + one.url


def test_a_quick_one_is_not_talked_about(all_together: Scenario) -> None:
    said: list[str] = []

    async def attempt(scenario: Scenario, name: str, folder: Path) -> Tried:
        (folder / "something").write_text("x")
        return Tried(tenant=name, kind="speech", url="")

    asyncio.run(trial.within_limit(attempt, all_together, "tts", NS_PER_S, said.append))
    assert said == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_within_a_trial(number: signal.Signals, all_together: Scenario) -> None:
    async def attempt(scenario: Scenario, name: str, folder: Path) -> Tried:
        (folder / "something").write_text("x")
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)
        raise AssertionError("it was not stopped")

    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with pytest.raises(trial.Stopped) as stopped:
            trial.run_until_signal(trial.within_limit(attempt, all_together, "tts", 60 * NS_PER_S, print))
    finally:
        for each, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(each, handler)
    assert stopped.value.code == 128 + number


def test_the_command_is_stopped_by_ctrl_c(tmp_path: Path) -> None:
    """A server that accepts and never answers; the signal comes once the trial has begun."""

    def doctor(url: str) -> tuple[int, str]:
        arguments = ["--llm", url, "--set", "device=cpu", "--write", "x.yaml"]
        process = subprocess.Popen(
            [sys.executable, "-m", "cotenant", "doctor", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        return process.returncode, err

    def answer(_served: Served) -> Script:
        asked.set()
        return HANGS["no answer"]

    asked = threading.Event()
    code, err = beside(truth_server, answer, then=doctor)
    assert (code, err.splitlines()[-1]) == (130, "cotenant: interrupted; nothing is written")
    assert "Traceback" not in err
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--limit", "1m"], "all-together attaches none; add --tts, --llm or --face URL"),
        (["--limit", "1m", "--no-try"], "leave it out, or --no-try"),
        (["--llm", "http://h", "--no-try"], "--no-try is for the services of a scenario"),
        (["--llm", "http://h", "--limit", "0s"], "a service needs time to answer"),
        (["--llm", "http://h", "--limit", "soon"], "--limit: 'soon' is not a duration"),
    ],
)
def test_a_limit_that_is_none(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", *arguments], prog_name="cotenant")
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
