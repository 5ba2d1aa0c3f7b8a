"""`cotenant.open_run` and the pytest fixture, on a run recorded by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

import cotenant
from cotenant.errors import ExitCode, UserError
from tests.by_hand import write_run
from tests.verdict.recordings import good_run

pytest_plugins = ["pytester"]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """In the crowd every second utterance has a chunk 1300 ms late."""
    return write_run(good_run(late_ms=1300.0, share=0.5), tmp_path / "run")


def test_the_summary_is_typed_and_judged_as_the_run_says(run_dir: Path) -> None:
    run = cotenant.open_run(run_dir)
    crowd = run.stage("crowd")
    assert run.manifest["tool"] == "cotenant"
    assert run.summary.lookahead_ms == 400.0
    assert crowd.speech is not None
    assert crowd.speech.clean_share == 0.5
    assert crowd.speech.stall_ms.longest == crowd.raw["speech"]["stall_ms"]["longest"]
    assert crowd.speech.ttfa_ms.n == 24
    assert crowd.face is not None
    assert crowd.llm["decode"].tokens_per_s == crowd.raw["llm"]["decode"]["tokens_per_s"]
    assert {gate.verdict for gate in crowd.gates} == {"pass", "fail"}
    assert run.exit_code is ExitCode.FAIL
    assert run.stage("alone").face is None


def test_other_options_judge_it_anew(run_dir: Path) -> None:
    run = cotenant.open_run(run_dir, lookahead="2s", gates=["speech.clean_share >= 95 %"])
    speech = run.stage("crowd").speech
    assert speech is not None
    assert speech.clean_share == 1.0
    assert [gate.metric for gate in run.stage("crowd").gates] == ["speech.clean_share"]
    assert run.exit_code is ExitCode.PASS


def test_an_infinity_is_a_number(tmp_path: Path) -> None:
    builder = good_run(faces=False)
    builder.scenario["stages"][1:] = [{"name": "crowd", "load": ["voices"]}]
    start = 80 * 10**9
    for utterance in range(12, 40):
        builder.voice("crowd", start + utterance * 10**9, [], [], utterance=utterance, end="error")
    speech = cotenant.open_run(write_run(builder, tmp_path / "run")).stage("crowd").speech
    assert speech is not None
    assert speech.ttfa_ms.p95 == float("inf")


def test_tables_are_frames_with_whole_numbers(run_dir: Path) -> None:
    run = cotenant.open_run(run_dir)
    streams = run.table("streams")
    assert str(streams["due"].dtype) == "Int64"
    assert set(streams["stage"]) == {"alone", "crowd", "alone/again"}
    assert run.table("chunks")["media"].sum() == 3 * 24 * 20 * 160_000_000
    assert run.table("gpu").empty


def test_what_is_not_there_is_said(run_dir: Path, tmp_path: Path) -> None:
    run = cotenant.open_run(run_dir)
    with pytest.raises(UserError, match="no table 'stream'; the tables are streams"):
        run.table("stream")
    with pytest.raises(UserError, match="no stage 'nope' in this run; the stages are alone, crowd"):
        run.stage("nope")
    with pytest.raises(UserError, match="lookahead"):
        cotenant.open_run(run_dir, lookahead="400")
    with pytest.raises(UserError, match="no such folder"):
        cotenant.open_run(tmp_path / "none")
    with pytest.raises(AttributeError, match="nothing"):
        cotenant.nothing  # noqa: B018


def test_the_package_and_the_plugin_import_nothing_heavy() -> None:
    code = (
        "import sys, cotenant, cotenant.pytest_plugin\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'torch', 'pydantic', 'aiohttp', 'rich'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


EXAMPLE = """
def test_voice(cotenant_run):
    run = cotenant_run({path!r}, lookahead={lookahead!r})
    assert run.stage("crowd").speech.clean_share >= 0.95
"""


def test_a_gate_can_be_a_test(
    pytester: pytest.Pytester, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        test_too_little=EXAMPLE.format(path=str(run_dir), lookahead="400ms"),
        test_enough=EXAMPLE.format(path=str(run_dir), lookahead="2s"),
    )
    pytester.runpytest_inprocess("-p", "cotenant.pytest_plugin").assert_outcomes(passed=1, failed=1)


def test_a_recorded_run_takes_no_options_of_a_run(
    pytester: pytest.Pytester, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        f"""
        import pytest
        from cotenant.errors import UserError

        def test_refused(cotenant_run):
            with pytest.raises(TypeError, match="not for a recorded run"):
                cotenant_run({str(run_dir)!r}, quick=True)
            with pytest.raises(UserError, match="nope"):
                cotenant_run("nope")
            # Found before anything is started.
            with pytest.raises(UserError, match="there is no metric 'speech.clen_share'"):
                cotenant_run("tts-alone", gates=["speech.clen_share >= 95 %"])
            with pytest.raises(UserError, match="cannot be judged in any stage"):
                cotenant_run("tts-alone", gates=["face.fps_p5 >= 24"])
            with pytest.raises(UserError, match="lookahead"):
                cotenant_run("tts-alone", lookahead="400")
        """
    )
    pytester.runpytest_inprocess("-p", "cotenant.pytest_plugin").assert_outcomes(passed=1)


def test_underruns_of_a_voice_and_whether_they_cut_into_speech(tmp_path: Path) -> None:
    builder = good_run(late_ms=1300.0, share=0.5)
    path = write_run(builder, tmp_path / "run")
    run = cotenant.open_run(path)
    voices = run.table("streams").query("kind == 'voices' and stage == 'crowd'")
    heard = {int(stream): run.underruns(int(stream)) for stream in voices["stream"]}
    late = [events for events in heard.values() if events]
    assert len(late) == len(heard) // 2
    speech = run.stage("crowd").speech
    assert speech is not None
    assert sum(len(events) for events in heard.values()) == speech.underruns
    for (event,) in late:
        assert event.duration_ns > 0
        assert event.since_previous_ns is None
        assert event.in_speech is None  # no audio was kept
    assert (
        cotenant.open_run(path, lookahead="2s").underruns(next(s for s, events in heard.items() if events))
        == ()
    )
    with pytest.raises(UserError, match="there is no voice 99"):
        run.underruns(99)


def test_gates_in_a_file(run_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "- speech.clean_share >= 99 %\n- {metric: speech.rtf.p95, op: <, limit: 3, level: warn}\n"
    )
    gates = cotenant.open_run(run_dir, gates=[str(file)]).stage("crowd").gates
    assert [(gate.metric, gate.level) for gate in gates] == [
        ("speech.clean_share", "fail"),
        ("speech.rtf.p95", "warn"),
    ]
    file.write_text("- {metric: speech.rtf.p95}\n- 7\n")
    with pytest.raises(UserError, match=r"the gates in .*mine\.yaml are wrong"):
        cotenant.open_run(run_dir, gates=[str(file)])
    with pytest.raises(UserError, match="is not there"):
        cotenant.open_run(run_dir, gates=["none.yaml"])
