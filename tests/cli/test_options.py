"""Flags -> options: what each command hands to the function that does the work."""

import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from cotenant.cli import run as run_command
from cotenant.cli import serve
from cotenant.cli.run import RunOptions
from cotenant.scenario.load import load
from cotenant.verdict.options import JudgeOptions, scenario_overrides
from tests.by_hand import cotenant


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    options: list[RunOptions] = []

    def remember(given: RunOptions) -> int:
        options.append(given)
        return 3

    monkeypatch.setattr(run_command, "run", remember)
    return options


def test_run_without_flags_leaves_everything_to_the_scenario(seen: list[RunOptions]) -> None:
    assert cotenant("run", "all-together") == 3
    assert seen == [
        RunOptions(
            scenario="all-together",
            overrides=(),
            out=Path("runs"),
            quick=False,
            judging=JudgeOptions(),
            json=False,
        )
    ]
    with pytest.raises(FrozenInstanceError):
        setattr(seen[0], "quick", True)  # noqa: B010 - mypy forbids the plain form, which is the point


def test_every_flag_of_run_arrives(seen: list[RunOptions], tmp_path: Path) -> None:
    arguments = ["run", "x.yaml", "--lookahead", "400ms", "--start", "delay", "--after-underrun", "refill"]
    arguments += [
        "--quantum",
        "20ms",
        "--gate",
        "voice",
        "--gate",
        "speech.rtf.p95 <= 0.8",
        "--decision",
        "point",
    ]
    arguments += ["--inconclusive", "fail", "--set", "seed=1", "--set", "gate=[face]", "--quick", "--json"]
    assert cotenant(*arguments, "--out", str(tmp_path)) == 3
    judge = JudgeOptions(
        lookahead_ns=400_000_000,
        start="delay",
        after_underrun="refill",
        quantum_ns=20_000_000,
        gates=("voice", "speech.rtf.p95 <= 0.8"),
        decision="point",
        inconclusive="fail",
    )
    (options,) = seen
    assert options.judging == judge
    assert (options.out, options.quick, options.json) == (tmp_path, True, True)
    assert options.judging.inconclusive == "fail"
    assert options.overrides[:2] == ("seed=1", "gate=[face]")
    scenario = load("all-together", options.overrides)
    assert (scenario.seed, scenario.lookahead_ns, scenario.decision) == (1, 400_000_000, "point")
    assert (scenario.player.start, scenario.player.after_underrun) == ("delay", "refill")
    assert scenario.player.quantum_ns == 20_000_000
    assert scenario.gate == ["voice", "speech.rtf.p95 <= 0.8"]


@pytest.mark.parametrize("lookahead_ns", [0, 1, 400_000_000, 1_234_567_891])
def test_a_lookahead_survives_its_way_through_the_scenario(lookahead_ns: int) -> None:
    options = JudgeOptions(lookahead_ns=lookahead_ns)
    assert load("tts-alone", scenario_overrides(options)).lookahead_ns == lookahead_ns


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["speech"], ["speech", "--shape", "tiny", "--port", "0", "--device", "cpu"]),
        (
            ["llm", "--port", "8000", "--threads", "2", "--device", "cuda:0"],
            ["completions", "--shape", "tiny", "--port", "8000", "--device", "cuda:0", "--threads", "2"],
        ),
        (["face", "--shape", "big"], ["face", "--shape", "big", "--port", "0", "--device", "cpu"]),
        (["face", "--from", "mine:show"], ["face", "--port", "0", "--from", "mine:show"]),
        (
            ["speech", "--from", "m:f", "--rate", "22050", "--sample-format", "f32", "--workers", "2"],
            ["speech", "--port", "0", "--from", "m:f", "--rate", "22050", "--sample-format", "f32",
             "--workers", "2"],
        ),
    ],
)  # fmt: skip
def test_serve_becomes_the_server(
    arguments: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def remember(line: list[str]) -> int:
        seen.append(line)
        return 0

    monkeypatch.setattr(serve, "replace_process", remember)
    assert cotenant("serve", *arguments) == 0
    assert seen == [[sys.executable, "-m", "cotenant.tenants.builtin.server", *expected]]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["speech", "--rate", "24000"], "--rate is for a generator of your own; add --from"),
        (["llm", "--from", "m:f"], "--from is for speech and face"),
        (["speech", "--from", "m:f", "--shape", "tiny"], "--shape is for the built-in model"),
        (["face", "--from", "m:f", "--device", "cuda:0"], "your module chooses"),
    ],
)
def test_serve_refuses_flags_that_do_not_go_together(
    arguments: list[str], part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "replace_process", lambda line: pytest.fail("started"))
    assert cotenant("serve", *arguments) == 2
    assert part in " ".join(capsys.readouterr().err.split())


def test_gate_judges_one_run_and_says_how_to_judge_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cotenant("gate", tmp_path, tmp_path) == 2
    assert "gate judges one run, and 2 are given; give one, or judge each" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "gate"])
def test_help_says_that_gates_may_stand_in_a_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cotenant(command, "--help") == 0
    told = capsys.readouterr().out
    assert "GATE|FILE" in told
    assert "YAML file" in " ".join(told.replace("│", " ").split())
