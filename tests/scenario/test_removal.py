"""A tenant or load that is removed with null: what goes with it, what is said, what stays an error."""

from pathlib import Path

import pytest

from cotenant.errors import UserError
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario


def without(name: str, *overrides: str) -> tuple[Scenario, list[str]]:
    told: list[str] = []
    return load(name, overrides, tell=told.append), told


def test_the_ladder_without_its_head_is_the_packaged_one() -> None:
    found, told = without("all-together", "tenants.head=null", "name=voice-and-llm")
    assert found.model_copy(update={"about": ""}) == load("voice-and-llm").model_copy(update={"about": ""})
    assert told == [
        "the load faces is removed with its tenant head",
        "the stage talking-head is dropped: without faces it is the same as tts-alone",
        "the stage all-together runs without faces",
    ]
    assert without("voice-and-llm")[1] == []


@pytest.mark.parametrize(
    ("override", "stages"),
    [
        ("tenants.llm=null", {"tts-alone": ["voices"], "talking-head": ["voices", "faces"]}),
        (
            "tenants.tts=null",
            {
                "llm-decode": ["decode"],
                "llm-long-prefill": ["prefill"],
                "all-together": ["decode", "prefill"],
            },
        ),
        (
            "load.decode=null",
            {
                "tts-alone": ["voices"],
                "talking-head": ["voices", "faces"],
                "llm-long-prefill": ["voices", "prefill"],
                "all-together": ["voices", "faces", "prefill"],
            },
        ),
    ],
)
def test_the_stages_that_are_left(override: str, stages: dict[str, list[str]]) -> None:
    found, told = without("all-together", override)
    assert {stage.name: stage.load for stage in found.stages} == stages
    before = load("all-together")
    for stage in before.stages:
        changed = stages.get(stage.name) != stage.load
        assert any(f"the stage {stage.name} " in note for note in told) is changed
    for name in before.load.keys() - found.load.keys() - {override.partition(".")[2].partition("=")[0]}:
        assert any(note.startswith(f"the load {name} is removed with ") for note in told)


def test_the_baseline_stays_one_where_its_stage_is_dropped() -> None:
    stages = "stages=[{name: a, load: [voices]}, {name: b, load: [voices, faces], baseline: true}]"
    found, _ = without("all-together", stages, "tenants.head=null")
    assert [(stage.name, stage.baseline) for stage in found.stages] == [("a", True)]


def test_stages_that_were_the_same_before_stay() -> None:
    stages = "stages=[{name: a, load: [voices]}, {name: b, load: [voices]}]"
    assert [stage.name for stage in without("all-together", stages, "tenants.head=null")[0].stages] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(("wrong", "told"), [("tenants.hed", "'head'"), ("load.face", "'faces'")])
def test_what_is_not_there_cannot_be_removed(wrong: str, told: str) -> None:
    with pytest.raises(UserError, match=f"to remove; did you mean {told}"):
        without("all-together", f"{wrong}=null")


def test_nor_by_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: all-together\ntenants:\n  hed: null\n")
    with pytest.raises(UserError) as caught:
        without(str(path))
    assert "has one error" in str(caught.value)
    assert "tenants.hed (line 3): there is no tenant 'hed' to remove; did you mean 'head'?" in str(
        caught.value
    )


def test_an_error_says_what_went_before_it() -> None:
    gate = "gate=[{metric: speech.clean_share, op: '>=', limit: 0.9, stages: [talking-head]}]"
    with pytest.raises(UserError) as caught:
        without("all-together", gate, "tenants.head=null")
    assert "there is no stage 'talking-head'" in str(caught.value)
    assert "note: the stage talking-head is dropped: without faces it is" in str(caught.value)


def test_errors_in_stages_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\n"
        "tenants:\n"
        "  tts: {kind: speech}\n"
        "  head: {kind: face}\n"
        "load:\n"
        "  voices: {tenant: tts, kind: voices}\n"
        "  faces: {tenant: head, kind: faces, follows: voices}\n"
        "stages:\n"
        "  - {name: a, load: [voices]}\n"
        "  - {name: b, load: [voices, faces]}\n"
        "  - {name: c, load: [voices], base: yes}\n"
    )
    with pytest.raises(UserError, match=r"stages\[1\]\.base \(line 11\): unknown key"):
        without(str(path), "tenants.head=null")


def test_what_is_no_name_among_a_stages_loads_stays_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: all-together\nstages:\n  - {name: a, load: [voices, [faces], prefill]}\n")
    with pytest.raises(UserError, match=r"stages\[0\]\.load\[1\] \(line 3\): "):
        without(str(path), "tenants.llm=null")


def test_a_file_removes_and_may_say_itself_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: all-together\ntenants:\n  head: null\n")
    found, told = without(str(path))
    assert [stage.name for stage in found.stages] == [stage.name for stage in load("voice-and-llm").stages]
    assert len(told) == 3
    # Another tenant in its place takes over the loads.
    path.write_text(
        "extends: all-together\ntenants:\n  llm: null\n  mine: {kind: completions}\n"
        "load:\n  decode: {tenant: mine}\n  prefill: {tenant: mine}\n"
    )
    found, told = without(str(path))
    assert (found.stages, told) == (load("all-together").stages, [])
    # Stages of its own are as they stand: a mistake in them is one.
    path.write_text(
        "extends: all-together\ntenants:\n  head: null\nstages:\n  - {name: a, load: [voices, faces]}\n"
    )
    with pytest.raises(UserError, match=r"stages\[0\]\.load\[1\] \(line 5\): there is no load 'faces'"):
        without(str(path))
