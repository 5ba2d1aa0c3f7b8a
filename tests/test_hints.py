"""Every kind of failure has a hint, one line, in one place; and notes tell it."""

from typing import Any

import pytest

from cotenant.errors import HINTS, hint_of
from cotenant.records import ERROR_KINDS
from cotenant.report.notes import notes
from cotenant.scenario.hidden import NO_SECRETS


def test_every_kind_has_one_line() -> None:
    assert set(HINTS) == set(ERROR_KINDS)
    assert all("\n" not in hint and 20 < len(hint) < 160 for hint in HINTS.values())


def test_the_notes_tell_the_hint_of_what_happened_most() -> None:
    llm = {"failed": 3, "errors": {"timeout": 1, "unauthorized": 2}}
    stage = {
        "name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [],
        "llm": {"decode": llm},
        "face": {"streams": 5, "failed": 2, "errors": {"truncated": 2}},
        "speech": {"streams": 4, "failed": 1, "errors": {"rate_limited": 1}, "delayed": 0},
    }  # fmt: skip
    summary = {
        "device": "gpu", "status": "complete", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    found = notes(summary)
    assert f"all: 3 requests of decode failed (timeout 1, unauthorized 2); {HINTS['unauthorized']}" in found
    assert f"all: 2 of 5 clips failed (truncated 2); {HINTS['truncated']}" in found
    assert f"all: 1 of 4 utterances failed (rate_limited 1); {HINTS['rate_limited']}" in found


@pytest.mark.parametrize("error", ERROR_KINDS)
@pytest.mark.parametrize("kind", ["speech", "face", "llm"])
def test_each_kind_of_failure_is_told_with_its_hint_for_each_kind_of_service(kind: str, error: str) -> None:
    failed = {"streams": 4, "failed": 2, "errors": {error: 2}, "delayed": 0}
    part = {"llm": {"asked": failed}} if kind == "llm" else {kind: failed}
    stage = {"name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [], **part}
    summary = {
        "device": "gpu", "status": "complete", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    (line,) = (line for line in notes(summary) if f"failed ({error} 2)" in line)
    assert line.endswith(HINTS[error])


@pytest.mark.parametrize("engine", ["builtin", "launch", "attach"])
@pytest.mark.parametrize("kind", ["voices", "faces", "completions"])
def test_a_server_that_the_run_itself_started_has_ended_where_it_refuses(kind: str, engine: str) -> None:
    failed: dict[str, Any] = {"streams": 4, "failed": 2, "errors": {"refused": 2}, "delayed": 0}
    parts: dict[str, dict[str, Any]] = {
        "voices": {"speech": failed}, "faces": {"face": failed}, "completions": {"llm": {"asked": failed}},
    }  # fmt: skip
    stage = {
        "name": "all", "baseline": False, "invalid_because": [], "caveats": [], "gates": [], **parts[kind],
    }  # fmt: skip
    summary = {
        "device": "gpu", "status": "failed", "stages": [stage], "caveats": [],
        "a_a": {"ttfa_p95_ratio": None, "why": {}},
    }  # fmt: skip
    other = {"tenant": "far", "kind": "voices" if kind != "voices" else "faces"}
    scenario: dict[str, Any] = {
        "tenants": {"near": {"engine": engine}, "far": {"engine": "attach"}},
        "load": {"asked": {"tenant": "near", "kind": kind}, "other": other},
        "stages": [{"name": "alone", "load": ["other"]}, {"name": "all", "load": ["asked", "other"]}],
    }
    line = next(line for line in notes(summary, {"scenario": scenario}) if "failed (refused 2)" in line)
    ended = "the server of near, which the run itself started, has ended: see logs/near*.log"
    assert line.endswith(HINTS["refused"] if engine == "attach" else ended)
    failed["errors"] = {"unauthorized": 2}
    scenario["tenants"]["near"]["api_key_env"] = "NEAR_KEY"
    line = next(line for line in notes(summary, {"scenario": scenario}) if "failed (unauthorized 2)" in line)
    assert line.endswith("; the key in NEAR_KEY was refused: export the right one")
    failed["errors"] = {"refused": 2}
    unknown = next(line for line in notes(summary) if "failed (refused 2)" in line)
    assert unknown.endswith(HINTS["refused"])


def test_only_a_refusal_tells_of_an_end() -> None:
    assert hint_of("timeout", ["tts"]) == HINTS["timeout"]
    assert hint_of("refused") == HINTS["refused"]
    assert hint_of("no such kind", ["tts"]) == ""


def test_a_key_that_is_named_was_refused_and_not_left_out() -> None:
    assert (
        hint_of("unauthorized", key_env="TTS_KEY") == "the key in TTS_KEY was refused: export the right one"
    )
    wanted = "it wants a key: export one, and name its variable in tenants.tts.api_key_env"
    assert hint_of("unauthorized", tenant="tts") == wanted
    assert NO_SECRETS.text(wanted) == wanted
    assert hint_of("unauthorized") == HINTS["unauthorized"]


FASTAPI = (
    'HTTP 422: {"detail":[{"type":"missing","loc":["body","%s"],"msg":"Field required",'
    '"input":{"model":"a","voice":"b","input":"Hello."}}]}'
)


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        (FASTAPI % "voice", ["voice"]),
        (FASTAPI % "model", ["model"]),
        (FASTAPI.removesuffix('"Hello."}}]}') % "voice", ["voice"]),  # told in part
        (FASTAPI % "speed", []),
        ('HTTP 400: {"error":{"message":"you must provide a model parameter"}}', ["model"]),
        ("HTTP 400: voice field required", ["voice"]),
        ("HTTP 400: 'voice' is a required property; model: field required", ["voice", "model"]),
        ("HTTP 400: Missing required parameter: 'voice'.", ["voice"]),
        ("HTTP 400: model and voice are required", ["voice"]),
        ("HTTP 400: voice must be provided, model is required", ["voice", "model"]),
        ("CustomVoice requires a 'voice' parameter when no default speaker is configured.", ["voice"]),
        ("HTTP 400: this model has no such voice", []),
        ("HTTP 400: the input is required by the model", []),
    ],
)
def test_a_field_that_a_server_requires_is_named(said: str, fields: list[str]) -> None:
    hint = hint_of("protocol", tenant="tts", said=said)
    assert [field for field in ("voice", "model") if f"--set tenants.tts.{field}=NAME" in hint] == fields
    assert (hint == HINTS["protocol"]) == (not fields)
    assert hint_of("server_error", tenant="tts", said=said) == HINTS["server_error"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('HTTP 400: {"error":{"message":"Invalid voice \'zoe\'. Supported: ryan, vivian"}}', True),
        ("Unknown voice 'zoe'. Supported voices: default, Vivian, Ryan", True),
        ("Unsupported Qwen3-TTS CustomVoice speaker 'zoe'", True),
        ("HTTP 400: unknown field voice_url", False),
        ("HTTP 400: invalid input: no voice can say that", False),
    ],
)
def test_a_voice_that_a_server_does_not_have_is_to_be_another(said: str, told: bool) -> None:
    hint = "it has no such voice: --set tenants.tts.voice=NAME, with one that it names"
    for kind in ("protocol", "in_stream"):
        assert hint_of(kind, tenant="tts", said=said) == (hint if told else HINTS[kind])
        assert hint_of(kind, said=said) == HINTS[kind]
    assert hint_of("server_error", tenant="tts", said=said) == HINTS["server_error"]
