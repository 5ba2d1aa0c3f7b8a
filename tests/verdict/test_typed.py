"""The typed summary against summary.json: every key has a field, every field its value."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from cotenant.verdict.summary import JudgeOptions, judge
from cotenant.verdict.typed import Face, Llm, summary_of
from tests.verdict.recorded import RUNS, judged
from tests.verdict.recordings import Builder, S, good_run


def in_the_form_of_the_classes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """summary.json with what the classes lay out otherwise, by intent: four things."""
    stages = []
    for entry in raw["stages"]:
        entry = dict(entry)
        if (what_if := entry.get("what_if")) is not None:
            assert set(what_if) <= {"start", "slower_share", "policies"}
            assert what_if.get("start", raw["player"]["start"]) == raw["player"]["start"]
            entry |= {
                "what_if": what_if.get("policies", {}),
                "slower_share": what_if.get("slower_share"),
            }
        flat = dict(entry.get("vs_reference", {}))
        for load, metrics in flat.pop("llm", {}).items():
            flat |= {f"llm.{load}.{name}": found for name, found in metrics.items()}
        stages.append({**entry, "vs_reference": flat, "caveats": list(map(_caveat, entry["caveats"]))})
    solo = {
        load: {
            **{key: entry[key] for key in ("invalid_because", "why")},
            "caveats": list(map(_caveat, entry["caveats"])),
            "got": {
                key: value for key, value in entry.items() if key not in ("invalid_because", "caveats", "why")
            },
        }
        for load, entry in raw["solo"].items()
    }
    again = raw["a_a"]["stage"]
    if again is not None:
        again = {**again, "caveats": list(map(_caveat, again["caveats"]))}
    a_a, caveats = {**raw["a_a"], "stage": again}, list(map(_caveat, raw["caveats"]))
    return {**raw, "stages": stages, "solo": solo, "a_a": a_a, "caveats": caveats}


def _caveat(entry: Mapping[str, Any]) -> dict[str, Any]:
    words = ("kind", "text", "advice")
    return {
        **{key: entry[key] for key in words},
        "numbers": {key: value for key, value in entry.items() if key not in words},
    }


def differences(raw: Any, typed: Any, path: str = "") -> Iterator[str]:
    """Where the two differ: keys without a field, values that are others."""
    if raw is None:
        infinite = isinstance(typed, float) and typed in (float("inf"), float("-inf"))
        if not (typed is None or infinite or typed in ({}, ())):
            yield f"{path}: {typed!r} out of nothing"
    elif isinstance(raw, dict):
        named = {one.name for one in fields(typed)} if is_dataclass(typed) else set(typed)
        for key, value in raw.items():
            if key not in named:
                yield f"{path}.{key} is not named"
            else:
                yield from differences(
                    value, getattr(typed, key) if is_dataclass(typed) else typed[key], f"{path}.{key}"
                )
    elif isinstance(raw, list):
        if len(raw) != len(typed):
            yield f"{path}: {len(raw)} against {len(typed)}"
        for number, (one, other) in enumerate(zip(raw, typed, strict=False)):
            yield from differences(one, other, f"{path}[{number}]")
    elif raw != typed:
        yield f"{path}: {raw!r} against {typed!r}"


def check(raw: dict[str, Any]) -> None:
    assert list(differences(in_the_form_of_the_classes(raw), summary_of(raw))) == []


@pytest.mark.parametrize("name", RUNS)
def test_every_key_of_a_recorded_run_has_a_field(name: str) -> None:
    check(judged(name))


def failed_run() -> Builder:
    """In the crowd the voice stops: later ones are refused, and with them the faces and the LLM's requests,
    some of which are cut."""
    builder = good_run(late_ms=1300.0, share=0.5)
    builder.status = "failed"
    for number, row in enumerate(builder.rows["streams"]):
        if row["stage"] == "crowd" and row["due"] >= 110 * S:
            row |= {"end": "error", "error_kind": "refused", "error": "refused"}
            builder.rows["chunks"] = [one for one in builder.rows["chunks"] if one["stream"] != row["stream"]]
            if row["kind"] == "completions" and number % 2:
                row |= {"end": "truncated", "error_kind": "truncated"}
    builder.fault("tts", 110 * S)
    return builder


def test_every_key_of_a_run_that_failed_has_a_field() -> None:
    raw = judge(failed_run().build(), JudgeOptions(decision="point"))
    check(raw)
    summary = summary_of(raw)
    assert summary.status == "failed"
    assert summary.error == "the run failed, and its manifest.json does not say why"
    assert summary.measured
    failures = {failure.of: failure for failure in summary.stage("crowd").failures}
    assert failures["voices"].tenant == "tts"
    assert failures["voices"].kinds == {"refused": failures["voices"].failed}
    assert failures["voices"].since_s == pytest.approx(101 + 3, abs=1)
    assert set(failures) == {"voices", "completions"}  # a clip without its voice is no failure of the face
    speech = summary.stage("crowd").speech
    assert speech is not None
    assert speech.errors == {"refused": speech.failed}


def test_every_key_of_a_run_in_which_nothing_was_measured_has_a_field() -> None:
    builder = Builder(status="failed")
    builder.fault("tts", S)
    recording = builder.build()
    manifest = {**recording.manifest, "error": "tts does not start"}
    raw = judge(type(recording)(manifest=manifest, tables=recording.tables), JudgeOptions())
    check(raw)
    summary = summary_of(raw)
    assert (summary.error, summary.measured) == ("tts does not start", False)
    assert summary.a_a.stage is None
    assert summary.a_a.why["stage"]


def test_what_was_in_raw_only_is_there_by_name() -> None:
    summary = summary_of(judged("h200-voices-apart"))
    crowd = summary.stage("all-together")
    assert crowd.gpu["sm_percent"].mean == crowd.raw["gpu"]["sm_percent"]["mean"]
    assert crowd.canary_ms.p99 == crowd.raw["canary_ms"]["p99"]
    assert crowd.timing["voices"].p99_ms == crowd.raw["timing"]["voices"]["p99_ms"]
    assert (
        crowd.vs_reference["llm.decode.ttft_p95"].ratio
        == crowd.raw["vs_reference"]["llm"]["decode"]["ttft_p95"]["ratio"]
    )
    assert crowd.vs_reference["ttfa_p95"].bounds_of == "ratio"
    assert crowd.mend is not None
    assert isinstance(summary.solo["decode"].got, Llm)
    assert isinstance(summary.solo["faces"].got, Face)
    assert summary.a_a.ttfa_p95_ratio == summary.raw["a_a"]["ttfa_p95_ratio"]
    assert summary.a_a.stage is not None
    assert summary.player.start == "prefill"


def test_a_key_without_a_field_and_another_value_are_found() -> None:
    raw = judge(good_run().build(), JudgeOptions(decision="point"))
    summary = summary_of(raw)
    form = in_the_form_of_the_classes(raw)
    form["stages"][0]["speech"] = {**form["stages"][0]["speech"], "new": 1, "streams": 7}
    form["brand_new"] = {}
    streams = summary.stages[0].raw["speech"]["streams"]
    assert list(differences(form, summary)) == [
        f".stages[0].speech.streams: 7 against {streams}",
        ".stages[0].speech.new is not named",
        ".brand_new is not named",
    ]
