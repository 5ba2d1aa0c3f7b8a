"""What is said of stand-ins on a GPU: only where they are not as fast as their models."""

from typing import Any

import pytest

from cotenant.conductor.stand_ins import notes
from cotenant.scenario.schema import Tenant


def said(told: dict[str, Any], **fields: Any) -> list[str]:
    tenant = Tenant.model_validate(
        {"kind": "speech", "engine": "builtin", "shape": "qwen3-tts-0.6b", **fields}
    )
    return list(notes({"tts": tenant}, {"tts": {"device": "gpu", **told}}))


@pytest.mark.parametrize(
    ("frame_ms", "optimistic", "words"),
    [
        (8.71, True, ["tts: optimistic stand-in: a frame takes 8.71 ms, the published model 15 ms"]),
        (13.0, False, []),
        (17.2, False, []),
        (17.3, False, ["tts: pessimistic stand-in: a frame takes 17.3 ms, the published model 15 ms"]),
    ],
)
def test_a_stand_in_beside_its_model(frame_ms: float, optimistic: bool, words: list[str]) -> None:
    told = {"frame_ms": frame_ms, "published_frame_ms": 15.0, "optimistic": optimistic, "mode": "graphs"}
    assert said(told) == words
    assert said(told | {"device": "cpu"}) == []


def test_what_cannot_be_compared_says_so() -> None:
    told = {"frame_ms": 31.0, "published_frame_ms": None, "optimistic": None, "mode": "eager"}
    assert said(told, shape="qwen3-tts-1.7b") == [
        "tts: no published time to compare qwen3-tts-1.7b in mode eager with: a frame takes 31 ms"
    ]
    assert said({}, kind="face", shape="ditto") == ["tts: no published time to compare ditto with"]
    assert said({"frame_ms": 1.0}, shape="tiny") == ["tts: the tiny shape stands for no real model"]


def test_a_head_is_compared_by_its_clips() -> None:
    told = {"clip_ms": 80.0, "published_clip_ms": 62.0, "optimistic": False, "mode": "graphs"}
    assert said(told, kind="face", shape="ditto") == [
        "tts: pessimistic stand-in: a clip takes 80 ms, the published model 62 ms"
    ]


def test_real_servers_stand_for_themselves() -> None:
    assert said({}, kind="completions", engine="launch", shape="auto") == []
