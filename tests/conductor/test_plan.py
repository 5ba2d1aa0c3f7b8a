"""The ladder as arithmetic: windows, their order, rounds."""

from typing import Any

from cotenant.conductor.load_spec import group_loads, load_specs, split_texts
from cotenant.conductor.plan import looks_ns, used_loads, used_tenants, windows
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario


def scenario(name: str = "all-together", *overrides: str) -> Scenario:
    return resolve(load(name, list(overrides)), "cpu")


def names(*overrides: str, name: str = "all-together") -> list[tuple[str, int]]:
    return [(window.stage, window.round) for window in windows(scenario(name, *overrides))]


def test_solos_then_the_ladder_then_the_baseline_again() -> None:
    assert names() == [
        ("solo:faces", 0),
        ("solo:decode", 0),
        ("solo:prefill", 0),
        ("tts-alone", 0),
        ("talking-head", 0),
        ("llm-decode", 0),
        ("llm-long-prefill", 0),
        ("all-together", 0),
        ("tts-alone/again", 0),
    ]


def test_a_solo_of_no_length_is_left_out() -> None:
    assert not [name for name, _ in names("timing.solo=0s") if name.startswith("solo:")]


def test_only_what_a_stage_uses_is_started() -> None:
    alone = scenario("tts-alone")
    assert used_loads(alone) == ("voices",)
    assert used_tenants(alone) == ("tts",)
    assert [window.stage for window in windows(alone)] == ["tts-alone", "tts-alone/again"]


def test_rounds_walk_the_ladder_again_and_shuffling_is_seeded() -> None:
    walked = names("timing.rounds=3", "timing.order=shuffled")
    assert walked == names("timing.rounds=3", "timing.order=shuffled")
    stages = [
        [name for name, round_ in walked if round_ == r and ":" not in name and "/" not in name]
        for r in range(3)
    ]
    assert all(sorted(each) == sorted(stages[0]) for each in stages)
    assert len({tuple(each) for each in stages}) > 1
    assert walked != names("timing.rounds=3", "timing.order=shuffled", "seed=8")


def test_the_whole_cpu_ladder_is_planned_under_four_minutes() -> None:
    usual_tail_ns = 5_000_000_000
    assert sum(window.planned_ns + usual_tail_ns for window in windows(scenario())) < 240_000_000_000


def test_voices_and_faces_share_a_process() -> None:
    assert group_loads(scenario()) == {"listeners": ("voices", "faces"), "askers": ("decode", "prefill")}
    assert group_loads(scenario("tts-alone")) == {"listeners": ("voices",)}


def test_specs_carry_limits_texts_and_urls(tmp_path: Any) -> None:
    urls = {"tts": ["http://127.0.0.1:1"], "head": ["http://127.0.0.1:2"], "llm": ["http://127.0.0.1:3"]}
    specs = load_specs(scenario(), urls, run_dir=tmp_path, run_id="r", long_texts=False, audio_limit_bytes=5)
    listeners, askers = specs["listeners"], specs["askers"]
    assert listeners["index"] != askers["index"]
    assert listeners["tenants"]["tts"]["urls"] == urls["tts"]
    assert set(askers["tenants"]) == {"llm"}
    assert listeners["player"] == {
        "lookahead_ns": 400_000_000, "start": "prefill", "after_underrun": "resume", "quantum_ns": 0,
    }  # fmt: skip
    texts = listeners["texts"]["voices"]
    assert len(texts["measured"]) >= 18
    assert len(texts["settling"]) == 6
    assert not set(texts["measured"]) & set(texts["settling"])


def test_texts_are_split_into_measured_and_settling() -> None:
    short, long = (split_texts("builtin", long=long) for long in (False, True))
    assert short != long
    assert split_texts([" One. ", "", "Two."], long=False) == {
        "measured": ["One.", "Two."],
        "settling": ["One.", "Two."],
    }
    many = split_texts([f"Line {n}." for n in range(7)], long=False)
    assert many["measured"] == ["Line 0."]


def test_looks_are_fixed_before_the_run() -> None:
    assert looks_ns(scenario()) == (15_000_000_000,)
    extended = scenario("all-together", "timing.extend=30s", "decision=interval")
    assert looks_ns(extended) == (15_000_000_000, 25_000_000_000, 35_000_000_000, 45_000_000_000)
    assert looks_ns(scenario("all-together", "timing.extend=30s")) == (15_000_000_000,)
    by_stage = {window.stage: window.looks_ns for window in windows(extended)}
    assert by_stage["all-together"] == looks_ns(extended)
    assert by_stage["tts-alone/again"] == (15_000_000_000,)
