"""Causes of freezes, and what the GPU's own rows say of causes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cotenant.records import TABLES, Recording
from cotenant.report.notes import notes
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict import prefills
from tests.verdict.prefills import POINT, crowd_of, known
from tests.verdict.recordings import MS, Builder, S, good_run, steady


def test_a_freeze_whose_sound_stood_still_waited_for_the_voice() -> None:
    builder = good_run(late_ms=1500, share=0.5)
    prefills.watched(builder, 0, 250 * S)
    causes = crowd_of(judge(builder.build(), POINT))["causes"]
    face = {cause["what"] for cause in causes if cause["of"] == "face"}
    assert face == {"voice_late"}


@pytest.mark.parametrize(("alone", "solo"), [(True, "15s"), (False, "15s"), (False, "0ms")])
def test_pictures_that_come_slower_than_in_the_solo_window(alone: bool, solo: str) -> None:
    """Against a solo window of the same head the others are to blame; without one nothing is, and it is said
    what would tell."""
    builder = good_run(faces=False)
    builder.scenario["timing"] = {**builder.scenario["timing"], "solo": solo}
    prefills.watched(builder, 0, 260 * S)
    for utterance in range(12):
        arrivals = [250.0 + 90 * index + 400 * (index // 12) for index in range(40)]
        builder.face("crowd", 80 * S + utterance * 5 * S, arrivals, utterance=utterance)
    if alone:
        builder.window("solo:faces", 225 * S, 240 * S)
        for utterance in range(3):
            arrivals = [250.0 + 36 * index + utterance for index in range(80)]
            builder.face("solo:faces", 225 * S + utterance * 5 * S, arrivals, utterance=utterance)
    causes = crowd_of(judge(builder.build(), POINT))["causes"]
    (cause,) = [cause for cause in causes if cause["of"] == "face"]
    if alone:
        assert cause["what"] == "co_tenancy"
        assert "beside voices and decode" in cause["text"]
        assert 2.5 < cause["evidence"]["slower_than_solo"] < 4
    else:
        assert cause["what"] == "unattributed"
        assert ": head was not measured alone" in cause["text"]
        assert ("(--set timing.solo=5s)" in cause["text"]) is (solo == "0ms")


def _gpu_rows(beside: Any, low_mhz: float) -> pa.Table:
    """A clock that is low in some of the samples of 200 ms."""
    ends = np.arange(200 * MS, 280 * S, 200 * MS)
    value = np.where(beside(ends), low_mhz, 1980.0)
    columns = {"t0": ends - 200 * MS, "t1": ends, "value": value}
    words = {"gpu": "GPU-1", "metric": "sm_clock_mhz", "status": "ok"}
    every = {name: [word] * len(ends) for name, word in words.items()}
    return pa.table({**columns, **every}).select(TABLES["gpu"].names).cast(TABLES["gpu"])


def test_a_clock_that_fell_is_named_where_stalls_go_with_it() -> None:
    """Stalls where a prompt was read; the rows of the prompts are gone, and the clock fell then."""
    recording, _ = known()
    rows = recording.tables["streams"]
    asked = rows.filter(pc.equal(rows["load"], "prefill"))
    spans = [(row["due"], row["done"]) for row in asked.to_pylist()]
    gpu = _gpu_rows(lambda t: np.array([any(a <= x < b for a, b in spans) for x in t]), 1200.0)
    manifest = {**recording.manifest, "device": {"kind": "gpu"}}
    tables = {
        **recording.tables,
        "gpu": gpu,
        "streams": rows.filter(pc.not_equal(rows["load"], "prefill")),
    }
    cause = crowd_of(judge(Recording(manifest=manifest, tables=tables), POINT))["causes"][0]
    assert cause["what"] == "throttle"
    assert "below 95" in cause["text"]
    assert cause["risk_ratio"]["low"] > 1


def test_the_use_of_the_gpu_alone_names_nothing() -> None:
    recording, _ = known()
    rows = recording.tables["streams"]
    gpu = _gpu_rows(lambda t: np.zeros(len(t), dtype=bool), 0.0)
    used = gpu.set_column(3, "metric", pa.array(["sm_percent"] * len(gpu)))
    manifest = {**recording.manifest, "device": {"kind": "gpu"}}
    tables = {
        **recording.tables,
        "gpu": used,
        "streams": rows.filter(pc.not_equal(rows["load"], "prefill")),
    }
    (cause,) = crowd_of(judge(Recording(manifest=manifest, tables=tables), POINT))["causes"]
    assert cause["what"] == "unattributed"
    assert cause["evidence"]["gpu_window_ms"] == 200
    assert 0 < cause["evidence"]["gpu_window_fits_share"] <= 1


def test_the_canary_counts_busy_processes_under_time_slicing_only() -> None:
    found = {}
    for sharing in ("time-slice", "mps"):
        recording = prefills.run("prefill", 3)
        rng = np.random.default_rng(1)
        at = np.arange(0, 260 * S, 20 * MS)
        beside = (at > 95 * S) & (at < 160 * S)
        latency = np.where(beside, rng.uniform(0.1, 8.9, len(at)), 0.1) * MS
        canary = pa.table(
            {"t": at, "latency": latency.astype(np.int64), "device": ["cuda:0"] * len(at)},
            schema=TABLES["canary"],
        )
        scenario = {**recording.manifest["scenario"], "sharing": sharing, "device": "cuda:0"}
        manifest = {**recording.manifest, "scenario": scenario, "device": {"kind": "gpu"}}
        run = Recording(manifest=manifest, tables={**recording.tables, "canary": canary})
        found[sharing] = crowd_of(judge(run, POINT))["causes"][0]
    assert found["time-slice"]["evidence"]["gpu_processes"] == 4
    assert "assumed" in found["time-slice"]["evidence"]["gpu_processes_how"]
    assert found["mps"]["evidence"]["gpu_processes"] is None
    assert found["mps"]["why"]["evidence.gpu_processes"] == "counted under time slicing only"


@pytest.mark.parametrize(
    ("busy", "tenants", "starved"),
    [
        ({"tts": 8.0, "llm": 3.9}, 12, True),
        ({"tts": 8.0, "llm": 3.9}, None, False),  # 11.9 of 16
        ({"tts": 8.0, "llm": 2.0, "listeners": 4.0}, 12, False),  # our own have other cores
        ({"tts": 8.0, "llm": 3.5, "listeners": 4.0}, None, True),
    ],
)
def test_tenants_that_used_all_of_their_cores_were_starved(
    busy: dict[str, float], tenants: int | None, starved: bool
) -> None:
    recording, _ = known()
    rows = recording.tables["host"]
    seconds = np.arange(0, 280)
    parts = [
        {"t": int(second) * S, "source": source, "metric": "cpu_s", "value": used * float(second)}
        for source, used in busy.items()
        for second in seconds
    ]
    host = pa.concat_tables([rows, pa.Table.from_pylist(parts, schema=TABLES["host"])])
    cores = {"own": [], "tenants": None if tenants is None else list(range(tenants))}
    manifest = {**recording.manifest, "device": {"kind": "gpu", "cpu_count": 16}, "cores": cores}
    tables = {**recording.tables, "host": host}
    causes = crowd_of(judge(Recording(manifest=manifest, tables=tables), POINT))["causes"]
    texts = [cause["text"] for cause in causes if cause["what"] == "host"]
    assert [("used all of their cores" in text) for text in texts] == [True] * starved


@pytest.mark.parametrize("exact", [True, False])
def test_a_solo_window_that_is_invalid_tells_nothing_of_the_head(exact: bool) -> None:
    """A head that draws too slowly alone is named; where that window is INVALID nothing is."""
    builder = Builder()
    builder.stamps(0, 100 * S)
    for t in range(0, 100 * S, S):
        lag = {"t": t, "source": "host", "metric": "sleep_lag_ns", "value": 1e5}
        builder.rows["host"].append(lag)
    if not exact:
        builder.rows["host"] = [
            row for row in builder.rows["host"] if row["t"] < 70 * S or row["source"] == "host"
        ]
        builder.stamps(70 * S, 100 * S, bracket_ns=22 * MS, lag_ns=22 * MS)
    builder.window("crowd", 10 * S, 60 * S)
    builder.window("solo:faces", 75 * S, 95 * S)
    for number in range(8):
        builder.voice("crowd", (10 + 6 * number) * S, steady(200.0, 20), [160.0] * 20, utterance=number)
        drawn = [at + (600.0 if index >= 20 else 0.0) for index, at in enumerate(steady(250.0, 50, 60.0))]
        builder.face("crowd", (10 + 6 * number) * S, drawn, utterance=number)
    for number in range(3):
        builder.face("solo:faces", (75 + 6 * number) * S, steady(250.0, 50, 60.0), utterance=number)
    recording = builder.build()
    summary = judge(recording, JudgeOptions(gates=("face",), decision="point"))
    (cause,) = [cause for cause in summary["stages"][1]["causes"] if cause["of"] == "face"]
    told = [note for note in notes(summary, recording.manifest) if "solo window of faces is INVALID" in note]
    if exact:
        assert cause["what"] == "service_slow"
        assert "(solo window)" in cause["text"]
        assert told == []
        return
    assert summary["solo"]["faces"]["invalid_because"]
    assert cause["what"] == "unattributed"
    assert "the solo window is invalid (faces: our own timing error is" in cause["text"]
    assert len(told) == 1
