"""What one request showed: numbers from arrivals, and the findings made of them."""

from typing import Any

import numpy as np
import pytest

from cotenant.errors import HINTS
from cotenant.records import ERROR_KINDS
from cotenant.report.doctor.facts import Tried
from cotenant.report.doctor.text import render
from cotenant.report.doctor.tried import (
    face_numbers,
    failed,
    llm_numbers,
    service_findings,
    summary_line,
    voice_numbers,
)

MS = 1_000_000
ROW: dict[str, Any] = {
    "due": 0,
    "connected": 2 * MS,
    "sent": 10 * MS,
    "done": 500 * MS,
    "rate_hz": 24_000,
    "sample_format": "s16",
    "stamp": "kernel",
    "prompt_tokens": 128,
    "output_tokens": 4,
}


def voice(arrival_ms: list[int], media_ms: list[int], **row: Any) -> dict[str, Any]:
    arrival_ns, media_ns = (np.array(values, dtype=np.int64) * MS for values in (arrival_ms, media_ms))
    return voice_numbers({**ROW, **row}, arrival_ns, media_ns, [48 * media for media in media_ms])


def found(kind: str, measured: dict[str, Any]) -> list[tuple[str, str]]:
    tried = Tried(tenant="x", kind=kind, url="http://h", told=("protocol y",), measured=measured)
    return [(one.word, one.text) for one in service_findings(tried)]


def test_a_voice_by_hand() -> None:
    told = voice([60, 200, 460], [80, 320, 100])
    assert told["ttfa_ms"] == 50
    assert told["audio_s"] == 0.5
    assert told["rtf"] == pytest.approx(490 / 500)
    assert (told["first_chunk_bytes"], told["first_chunk_ms"]) == (3_840, 80)
    assert (told["gap_ms"].least, told["gap_ms"].most) == (140, 260)
    assert told["chunk_audio_ms"].median == 100
    # 80 ms play from 60 to 140; the next comes at 200, 60 ms late.
    assert told["required_lookahead_ms"] == 60
    assert told["connect_ms"] == 2
    words = found("speech", told)
    assert {word for word, _ in words} == {"ok"}
    assert any("a lookahead of 60 ms" in text for _, text in words)


def test_a_header_is_no_sound() -> None:
    assert voice([20, 90, 400], [0, 80, 320])["ttfa_ms"] == 80


def test_a_slow_voice_and_one_that_does_not_stream() -> None:
    assert any("slower than real time" in text for word, text in found("speech", voice([60, 490], [80, 80]))
               if word == "note")  # fmt: skip
    (note,) = [text for word, text in found("speech", voice([60], [800])) if word == "note"]
    assert "it is the only one: nothing streams" in note


def test_a_face_by_hand() -> None:
    arrival_ms, media_ms = [110, 150, 190, 250], [0, 40, 80, 120]
    told = face_numbers(ROW, [at * MS for at in arrival_ms], [at * MS for at in media_ms], [9, 9, 9, 10], 25)
    assert (told["frames"], told["first_frame_ms"], told["media_fps"]) == (4, 100, 25)
    assert told["arrived_fps"] == pytest.approx(3 / 0.14)
    assert any("fewer than are shown" in text for word, text in found("face", told) if word == "note")
    slower_clock = [round(index * 40.3) for index in range(50)]
    told = face_numbers(
        ROW, [at * MS for at in slower_clock], [index * 40 * MS for index in range(50)], [9] * 50, 25
    )
    assert {word for word, _ in found("face", told)} == {"ok"}
    single = face_numbers(ROW, [1], [0], [9], 25)
    assert (single["arrived_fps"], single["media_fps"], single["gap_ms"]) == (None, None, None)
    assert found("face", single)


def test_an_llm_by_hand() -> None:
    told = llm_numbers(ROW, [110 * MS, 120 * MS, 140 * MS], [1, 1, 2], 4)
    assert told["ttft_ms"] == 100
    assert told["tokens_per_s"] == pytest.approx(3 / 0.03)
    assert {word for word, _ in found("completions", told)} == {"ok"}
    short = llm_numbers({**ROW, "output_tokens": None, "prompt_tokens": None}, [110 * MS], [3], 32)
    assert (short["output_tokens"], short["tokens_per_s"]) == (3, None)
    assert ("note", "prompt not told tokens, answer 3 of 32 asked") in found("completions", short)


@pytest.mark.parametrize(
    ("kind", "measured"),
    [
        ("speech", voice([60, 200], [80, 320])),
        ("face", face_numbers(ROW, [11 * MS, 12 * MS], [0, 40 * MS], [1, 2], 25)),
        ("completions", llm_numbers(ROW, [11 * MS, 12 * MS], [1, 1], 2)),
    ],
)
def test_every_kind_has_its_line_and_folds(kind: str, measured: dict[str, Any]) -> None:
    tried = Tried(tenant="x", kind=kind, url="http://h", measured=measured)
    assert summary_line(tried).startswith("x: ")
    text = render("heading", list(service_findings(tried)), 60)
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_a_failure_has_its_kind_first_and_its_hint(kind: str) -> None:
    one = Tried(tenant="tts", kind="speech", url="http://h", failed=failed(kind, "it says so"))
    (finding,) = service_findings(one)
    assert (finding.word, finding.text, finding.advice) == ("missing", f"{kind}: it says so", HINTS[kind])
