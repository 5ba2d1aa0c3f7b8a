"""Whatever a user's generator raises, however: its request alone ends, with words, and the next is served."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant.errors import CouldNotRun, UserError
from cotenant.tenants.builtin import source, telling
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.workers import Workers
from tests.tenants import failing_generators
from tests.tenants.built_in import serving
from tests.tenants.failing_generators import ERRORS, PIECE, WAYS
from tests.tenants.test_source_face import show
from tests.tenants.test_source_speech import health, speak

TEXTS = [f"{way} {error}" for way in WAYS for error in ERRORS]


def test_every_fault_of_a_voice_ends_its_request_alone(tmp_path: Path) -> None:
    async def all_of_them(url: str) -> None:
        for text in TEXTS:
            async with asyncio.timeout(10):
                response, body = await speak(url, text, stream=False)
            assert response.status == 500, text
            message = json.loads(body)["error"]["message"]
            assert 0 < len(message) < 3_000, text
            assert (await speak(url, "good"))[1] == PIECE.tobytes(), text
        assert await health(url) == {"status": "ok", "active": 0}

    with serving("speech", "failing_generators:say", tmp_path / "log") as server:
        asyncio.run(all_of_them(server.url))
        assert server.stop() == 0
    log = (tmp_path / "log").read_text(errors="replace")
    assert "Exception in thread" not in log
    assert log.count("failing_generators:say failed") == len(TEXTS)


def test_every_fault_of_a_head_ends_its_clip_alone(tmp_path: Path) -> None:
    async def all_of_them(url: str) -> None:
        for way in range(len(WAYS)):
            for error in range(len(ERRORS)):
                async with asyncio.timeout(10):
                    _, last = await show(url, np.array([way, error] * 320, "<i2").tobytes())
                assert last["type"] == "error", (list(WAYS)[way], list(ERRORS)[error], last)
        frames, last = await show(url, np.full(640, -1, "<i2").tobytes())
        assert (len(frames), last) == (1, {"type": "done", "frames": 1})

    with serving("face", "failing_generators:show", tmp_path / "log") as server:
        asyncio.run(all_of_them(server.url))
        assert server.stop() == 0
    assert "Exception in thread" not in (tmp_path / "log").read_text(errors="replace")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoRate", "attribute 'rate' cannot be read: RuntimeError: no rate"),
        ("NoAttributes", "looking at it failed: ZeroDivisionError: "),
        ("OddRate", "RuntimeError: no number"),
        ("ExitsWhenMade", r"ExitsWhenMade\(\) failed: SystemExit: 4$"),
        ("BadTextWhenMade", r"failed: NoText, whose message cannot be read$"),
        ("OddSignature", "RuntimeError: no signature"),
        ("gone", "RuntimeError: this module is lazy"),
    ],
)
def test_an_object_that_fails_where_it_is_looked_at_is_one_sentence(name: str, words: str) -> None:
    with pytest.raises(CouldNotRun, match=words) as raised:
        source.load(f"tests.tenants.failing_generators:{name}", "speech", batched=False)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_can_be_told(error: str) -> None:
    text = telling.told(ERRORS[error]())
    assert text.strip()
    assert len(text) < 3_000
    assert "\n" not in telling.first_line(ERRORS[error]())


@pytest.mark.parametrize("error", ["SystemExit", "ValueError", "NoText"])
def test_a_module_that_fails_where_it_is_imported_is_one_sentence(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"from tests.tenants.failing_generators import ERRORS\nraise ERRORS[{error!r}]()\n"
    (tmp_path / "fails_at_import.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CouldNotRun, match=f"importing fails_at_import failed: {error}"):
        source.load("fails_at_import:say", "speech", batched=False)


def test_a_rate_that_cannot_be_shown_is_refused() -> None:
    with pytest.raises(UserError, match="the rate is a Odd that cannot be shown"):
        source.whole_rate(Odd(), "the rate")


class Odd:
    """A value that is no number, and cannot be written."""

    def __repr__(self) -> str:
        raise failing_generators.NoText


class Unfailing:
    """A job that cannot even be told that it failed."""

    cancelled = False

    def finish(self) -> None:
        """Never."""

    def fail(self, error: BaseException) -> None:
        raise OSError("no way to tell it")


def test_a_worker_that_breaks_ends_the_server() -> None:
    broke, ready = threading.Event(), threading.Event()
    met: list[BaseException] = []

    def run(_: Source, jobs: list[Any], __: Any) -> Iterator[None]:
        raise ValueError("no luck today")
        yield

    def failed(error: BaseException) -> None:
        met.append(error)
        broke.set()

    made = Source(name="x", call=print, batch=None, rate_hz=None)
    workers = Workers(lambda: made, run, count=1, batch=1, on_ready=ready.set, on_failure=failed)
    workers.start()
    workers.put(Unfailing())
    assert broke.wait(10)
    assert ready.is_set()
    assert workers.failed
    assert [str(error) for error in met] == ["no way to tell it"]
    assert workers.stop(1.0)
