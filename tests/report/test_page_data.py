"""The data of the page: what is shown, and that what is missing is said to be."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant.report.page.activity import activity_of
from cotenant.report.page.base import read_base
from cotenant.report.page.utterances import NO_AUDIO_ASKED, Extras, utterances
from cotenant.report.page.what_if import grid_ns
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from tests.report.pages import NOTHING, data_of, page_of
from tests.verdict.recordings import ASKERS, MS, Builder, S, good_run, steady


def missing(data: dict[str, Any]) -> dict[str, str]:
    return {entry["what"]: entry["why"] for entry in data["timeline"]["missing"]}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return data_of(good_run(utterances=6, late_ms=900.0, share=0.5).build(), positions=101)


def test_utterances_are_worst_first_and_those_of_the_summary(data: dict[str, Any]) -> None:
    heads = [entry["headroom_ms"] for entry in data["utterances"]]
    assert heads == sorted(heads)
    for stage in data["summary"]["stages"]:
        mine = [entry for entry in data["utterances"] if entry["stage"] == stage["name"]]
        speech = stage["speech"]
        assert len(mine) == speech["streams"] == 12
        assert sum(entry["underruns"] for entry in mine) == speech["underruns"]
        assert sum(entry["clean"] for entry in mine) / len(mine) == pytest.approx(speech["clean_share"])
        assert sum(entry["stall_ms"] for entry in mine) == pytest.approx(speech["stall_ms"]["total"])
        assert max(entry["ttfa_ms"] for entry in mine) >= speech["ttfa_ms"]["p95"]
    assert {entry["stage"] for entry in data["utterances"]} == {"alone", "crowd", "alone/again"}


def test_an_utterance_has_its_chunks_its_underruns_and_what_ran_beside_it(data: dict[str, Any]) -> None:
    worst = data["utterances"][0]
    assert worst["stage"] == "crowd"
    assert (len(worst["arrival_ms"]), len(worst["media_ms"])) == (20, 20)
    assert [event["duration_ms"] for event in worst["events"]] == [worst["stall_ms"]]
    event = worst["events"][0]
    assert worst["play_start_ms"] + event["media_ms"] == pytest.approx(event["start_ms"])
    assert event["start_ms"] + event["duration_ms"] == pytest.approx(worst["arrival_ms"][10])
    assert worst["play_end_ms"] == pytest.approx(worst["play_start_ms"] + 3200 + worst["stall_ms"])
    assert [cause["start_ms"] for cause in worst["causes"]] == [event["start_ms"]]
    assert "the late chunk took" in worst["causes"][0]["text"]
    assert {one["kind"] for one in worst["overlaps"]} >= {"decode", "face"}
    assert all(one["start_ms"] < one["end_ms"] for one in worst["overlaps"])


def test_every_underrun_is_on_the_time_axis(data: dict[str, Any]) -> None:
    events = data["timeline"]["underruns"]
    assert len(events) == sum(entry["underruns"] for entry in data["utterances"]) > 5
    by_stream = {entry["stream"]: entry for entry in data["utterances"]}
    for event in events:
        own = by_stream[event["stream"]]
        starts = [own["due_s"] + one["start_ms"] / 1000 for one in own["events"]]
        assert min(abs(start - event["start_s"]) for start in starts) < 2e-4
        assert event["stage"] == own["stage"]


def test_playable_ahead_falls_to_zero_where_the_player_starves(data: dict[str, Any]) -> None:
    lines = [line for line in data["timeline"]["series"] if line["group"] == "ahead"]
    assert [line["label"] for line in lines] == ["voices, listener 0", "voices, listener 1"]
    starved = [event["start_s"] + event["duration_ms"] / 1000 for event in data["timeline"]["underruns"]]
    seen = [(x, y) for line in lines for x, y in zip(line["x"], line["y"], strict=True) if y is not None]
    assert min(y for _, y in seen) == 0
    for at in starved:
        assert any(abs(x - at) < 1e-3 and y == 0 for x, y in seen)
    # Between two utterances the line is broken.
    assert None in lines[0]["y"]


def test_the_slider_says_what_the_summary_says_at_the_run_s_own_lookahead(data: dict[str, Any]) -> None:
    found, summary = data["what_if"], data["summary"]
    own = found["own"]
    assert len(found["lookahead_ms"]) == 101
    assert found["lookahead_ms"] == sorted(set(found["lookahead_ms"]))
    assert found["lookahead_ms"][own] == summary["lookahead_ms"] == 400.0
    assert found["run_verdict"][own] == summary["verdict"]
    assert found["run_word"][own] == data["console"]["verdict_word"]
    assert found["run_sentence"][own] == data["console"]["verdict_sentence"]
    for stage in summary["stages"]:
        mine = found["stages"][stage["name"]]
        assert mine["verdict"][own] == stage["verdict"]
        assert mine["clean_share"][own] == stage["speech"]["clean_share"]
        assert mine["playback_p95_ms"][own] == stage["speech"]["time_to_playback_ms"]["p95"]
        fails = [at for at, gate in enumerate(stage["gates"]) if gate["verdict"] == "fail"]
        assert mine["failing_gates"][own] == fails
        assert len(mine["gates"]) == len(stage["gates"])
        assert all(len(values) == 101 for name, values in mine.items() if name != "gates")
    for mend in found["mends"]:
        stage = next(one for one in summary["stages"] if one["name"] == mend["stage"])
        assert found["lookahead_ms"][mend["index"]] == stage["mend"]["lookahead_ms"]
    assert found["mends"]


def test_the_slider_s_positions_are_those_of_gate(data: dict[str, Any]) -> None:
    recording, found = good_run(utterances=6, late_ms=900.0, share=0.5).build(), data["what_if"]
    for at in (0, 13, 27, 100):
        lookahead_ns = round(found["lookahead_ms"][at] * MS)
        summary = judge(recording, JudgeOptions(lookahead_ns=lookahead_ns))
        assert found["run_verdict"][at] == summary["verdict"]
        for stage in summary["stages"]:
            mine = found["stages"][stage["name"]]
            assert mine["verdict"][at] == stage["verdict"]
            fails = [n for n, gate in enumerate(stage["gates"]) if gate["verdict"] == "fail"]
            assert mine["failing_gates"][at] == fails


@pytest.mark.parametrize(
    ("own_ms", "also_ms"), [(0, []), (400, [1050]), (123.456, [123.457, 77]), (9000, [250]), (50, [50])]
)
def test_the_grid_holds_what_was_asked_for(own_ms: float, also_ms: list[float]) -> None:
    wanted = [round(at * MS) for at in (own_ms, *also_ms)]
    grid = grid_ns(wanted[0], wanted[1:])
    assert len(grid) == len(set(grid)) == 101
    assert grid == sorted(grid)
    assert grid[0] == 0
    assert set(wanted) <= set(grid)
    assert grid[-1] >= 5 * S


def test_a_run_without_a_gpu_says_so(data: dict[str, Any]) -> None:
    why = missing(data)
    assert {what for what, reason in why.items() if reason == "no NVIDIA GPU"} >= {"sm", "dram", "canary"}
    assert "ahead" not in why


def test_a_run_without_faces_and_one_without_voices() -> None:
    faceless = data_of(good_run(utterances=2, faces=False).build())
    assert faceless["faces"] == {}
    builder = good_run(utterances=2)
    builder.scenario["stages"] = [{"name": "crowd", "load": ["decode"]}]
    for name in ("streams", "chunks", "frames"):
        builder.rows[name] = [row for row in builder.rows[name] if row["stream"] > ASKERS]
    builder.scenario["gate"] = ["llm.decode.tokens_per_s >= 1"]
    mute = data_of(builder.build())
    assert (mute["what_if"], mute["utterances"], mute["timeline"]["underruns"]) == (None, [], [])
    assert "no stage has voices" in mute["what_if_why"]
    assert missing(mute)["ahead"] == "no stage has voices"
    assert missing(mute)["fps"] == "no stage has faces"
    assert mute["llm"]["decode"]["crowd"]["tokens_per_s"]["y"]


def test_a_run_that_recorded_nothing() -> None:
    empty = data_of(Builder(status="failed").build())
    assert empty["console"]["verdict_word"] == "COULD NOT RUN"
    assert (empty["utterances"], empty["timeline"]["series"], empty["timeline"]["stages"]) == ([], [], [])
    assert missing(empty)["ahead"] == "nothing was recorded"
    assert page_of(Builder(status="failed").build())


def test_a_run_cut_in_mid_stage() -> None:
    builder = good_run(utterances=4)
    cut = 45 * S
    builder.rows["marks"] = [row for row in builder.rows["marks"] if row["t"] < cut]
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["due"] < cut]
    builder.rows["chunks"] = [row for row in builder.rows["chunks"] if row["arrival"] < cut]
    builder.status = "interrupted"
    data = data_of(builder.build())
    assert data["run"]["status"] == "interrupted"
    assert [stage["name"] for stage in data["timeline"]["stages"]] == ["alone"]
    assert {entry["stage"] for entry in data["utterances"]} == {"alone"}


def test_ten_minutes_without_an_event() -> None:
    data = data_of(good_run(seconds=600, utterances=3).build())
    assert (data["timeline"]["underruns"], data["timeline"]["freezes"]) == ([], [])
    assert data["timeline"]["length_s"] > 1800


def test_a_stage_with_ten_thousand_underruns_keeps_them_all() -> None:
    builder = good_run(utterances=1, faces=False)
    start = 80 * S
    for number in range(50):
        # Each chunk of 10 ms comes 15 ms after the one before: 200 underruns.
        arrivals = steady(100.0, 201, 15.0)
        builder.voice("crowd", start + number * S, arrivals, [10.0] * 201, listener=2 + number)
    builder.scenario["gate"] = ["speech.clean_share >= 95 %"]
    data = data_of(builder.build(), lookahead_ns=0)
    assert len(data["timeline"]["underruns"]) == 10_000
    assert sum(entry["underruns"] for entry in data["utterances"]) == 10_000


def test_utterances_that_have_no_room_say_so_and_the_stalled_ones_go_first() -> None:
    builder = good_run(utterances=6, late_ms=900.0, share=0.5)
    options = JudgeOptions()
    base = read_base(builder.build(), options)
    found = utterances(base, activity_of(base), {}, NOTHING, most_chunks=100)
    stalled = [entry for entry in found if entry["underruns"]]
    assert [entry["detail"] for entry in stalled] == [True] * 6
    left_out = [entry for entry in found if not entry["detail"]]
    assert len(left_out) == 30
    for entry in left_out:
        assert (entry["arrival_ms"], entry["media_ms"], entry["events"], entry["overlaps"]) == (
            [],
            [],
            [],
            [],
        )
        assert "too big" in entry["detail_why"]
    assert all(entry["detail_why"] is None for entry in found if entry["detail"])


def test_sound_and_texts_come_from_outside() -> None:
    builder = good_run(utterances=2, faces=False)
    texts = [f"text {number}" for number in range(20)]
    first = builder.rows["streams"][0]["stream"]
    extras = Extras(
        audio={first: ("data:audio/wav;base64,AAAA", ""), first + 1: (None, "its audio was not kept")},
        texts={"voices": texts},
        run="runs/it",
    )
    data = data_of(builder.build(), extras)
    assert data["run"]["argument"] == "runs/it"
    found = {entry["stream"]: entry for entry in data["utterances"]}
    assert found[first]["audio"] == "data:audio/wav;base64,AAAA"
    assert found[first]["audio_why"] is None
    assert (found[first + 1]["audio"], found[first + 1]["audio_why"]) == (None, "its audio was not kept")
    assert found[first + 2]["audio_why"] == NO_AUDIO_ASKED.format("runs/it", first + 2)
    for entry in found.values():
        assert entry["text"] == texts[(entry["listener"] * 7 + entry["utterance"]) % 20]


def test_voices_that_never_played_are_the_worst() -> None:
    builder = good_run(utterances=3, faces=False)
    builder.voice("crowd", 85 * S, [], [], listener=0, utterance=9, end="error", error="gone")
    worst = data_of(builder.build())["utterances"][0]
    assert (worst["headroom_ms"], worst["headroom_why"], worst["end"]) == (None, "-inf", "error")
    assert worst["error"] == "gone"
    assert (worst["play_start_ms"], worst["underruns"], worst["stall_ms"]) == (None, None, None)
    assert worst["clean"] is False


def test_distributions_have_the_closing_baseline_beside_the_first(data: dict[str, Any]) -> None:
    for metric in ("ttfa_ms", "playback_ms", "headroom_ms", "chunk_gap_max_ms", "stall_ms"):
        assert [*data["distributions"][metric]] == ["alone", "alone/again", "crowd"]
    found = data["distributions"]["headroom_ms"]["crowd"]
    assert found["n"] == len(found["values"]) == 12
    assert found["values"] == sorted(found["values"])


def test_faces_and_llm(data: dict[str, Any]) -> None:
    seen = data["faces"]["crowd"]
    assert len(seen["by_face"]) == 6
    assert set(seen["fps"]["y"]) <= {24.0, 25.0, 26.0}
    asked = data["llm"]["decode"]["crowd"]
    assert asked["itl_ms"]["v"][50] == 50.0
    assert asked["ttft_ms"]["n"] == data["summary"]["stages"][1]["llm"]["decode"]["ttft_ms"]["n"]
    assert max(asked["open"]["y"]) <= 2
    total = sum(asked["tokens_per_s"]["y"])
    window = data["summary"]["stages"][1]["llm"]["decode"]["tokens_per_s"] * 60
    assert total == pytest.approx(window, rel=0.01)


def test_started_is_the_wall_clock_at_t0() -> None:
    recording = good_run(utterances=1).build()
    anchor = {"mono_ns": 10 * S, "wall_ns": 1_800_000_000 * S}
    found = data_of(replace(recording, manifest={**recording.manifest, "anchor": anchor}))
    # The first stage begins at 9 s.
    assert found["run"]["started"] == "2027-01-15T07:59:59.000Z"
    assert data_of(recording)["run"]["started"] is None
