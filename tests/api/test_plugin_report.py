"""What a test that used `cotenant_run` shows where it fails: short objects, table, why, where the run is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cotenant
from cotenant.conductor import prepare, run
from cotenant.conductor.run import Recorded
from cotenant.live.progress import Progress
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from cotenant.verdict.typed import summary_of
from tests.by_hand import write_run
from tests.verdict.recordings import good_run

pytest_plugins = ["pytester"]

# What pytest shows of an object at most.
SHOWN = 240


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """In the crowd every second utterance has a chunk 1300 ms late."""
    return write_run(good_run(late_ms=1300.0, share=0.5), tmp_path / "run")


@pytest.fixture(autouse=True)
def this_plugin_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "150")


def failing(pytester: pytest.Pytester, test: str, *arguments: str) -> str:
    pytester.makepyfile(test)
    return pytester.runpytest_inprocess("-p", "cotenant.pytest_plugin", *arguments).stdout.str()


def test_what_is_asserted_on_shows_itself_in_short(run_dir: Path) -> None:
    found = cotenant.open_run(run_dir)
    assert repr(found) == f"Run('{run_dir}')", "judged by being looked at"
    crowd, alone = found.stage("crowd"), found.stage("alone")
    assert repr(found).startswith(f"Run('{run_dir}', verdict='FAIL', validity='valid', because='crowd: ")
    assert repr(crowd) == (
        "Stage('crowd', verdict='fail', validity='valid', because='speech.clean_share 0.5, >= 0.95 asked')"
    )
    assert repr(alone) == "Stage('alone', verdict='pass', validity='valid')"
    assert repr(crowd.speech) == "Speech(streams=24, failed=0, underruns=12, clean_share=0.5, ...)"
    assert repr(crowd.face).startswith("Face(streams=")
    assert repr(crowd.llm["decode"]).startswith("Llm(finished=")
    assert repr(found.summary).endswith("verdict='fail', validity='valid', because='crowd')")
    assert len(repr(found)) - len(str(run_dir)) < SHOWN


def test_an_invalid_stage_says_so_and_why() -> None:
    builder = good_run(faces=False)
    raw = judge(builder.build(), JudgeOptions())
    raw["stages"][1] |= {"validity": "invalid", "invalid_because": ["our own reads came late " + "x" * 200]}
    (_, crowd) = summary_of(raw).stages
    assert "validity='invalid', because='our own reads came late xxx" in repr(crowd)
    assert len(repr(crowd)) < SHOWN


FAILS = """
def test_voice(cotenant_run):
    speech = cotenant_run({path!r}, lookahead="390ms").stage("crowd").speech
    assert speech.clean_share >= 0.95
"""


def test_a_failure_shows_the_table_why_and_where_the_run_is(pytester: pytest.Pytester, run_dir: Path) -> None:
    told = failing(pytester, FAILS.format(path=str(run_dir)))
    assert "where 0.5 = Speech(streams=24, failed=0, underruns=12, clean_share=0.5, ...).clean_share" in told
    section = told.split("- cotenant -")[1]
    assert "lookahead 390 ms" in section, "not as this test judged it"
    assert "crowd" in section
    assert "\nFAIL   crowd: 50 % of utterances clean" in section
    assert f"\nrun    {run_dir}\npage   cotenant report {run_dir} writes it\n" in section


def test_a_failure_in_a_process_without_a_terminal(pytester: pytest.Pytester, run_dir: Path) -> None:
    pytester.makepyfile(FAILS.format(path=str(run_dir)))
    reports = pytester.inline_run("-p", "cotenant.pytest_plugin", "-p", "no:terminal").getfailures()
    (told,) = [text for title, text in reports[0].sections if title == "cotenant"]
    assert told.endswith(f"\nrun    {run_dir}\npage   cotenant report {run_dir} writes it")


def test_only_the_runs_of_the_test_that_failed(pytester: pytest.Pytester, run_dir: Path) -> None:
    told = failing(
        pytester,
        f"""
        import pytest

        @pytest.fixture(scope="module")
        def mine(cotenant_run):
            return cotenant_run({str(run_dir)!r}, lookahead="391ms").stage("crowd")

        def test_passes(cotenant_run):
            assert cotenant_run({str(run_dir)!r}, lookahead="2s").stage("crowd").speech.clean_share == 1

        def test_of_its_own(cotenant_run):
            cotenant_run({str(run_dir)!r}, lookahead="392ms")
            assert not "own"

        def test_of_a_fixture(mine):
            assert mine.verdict == "pass"

        def test_of_the_same_fixture(mine):
            assert mine.verdict == "pass"

        def test_of_something_else():
            assert not "else"
        """,
    )
    parts = [part.split("_ test_")[0] for part in told.split("_ test_")[1:]]
    looked = [[ms for ms in ("391 ms", "392 ms", "2000 ms") if f"lookahead {ms}" in part] for part in parts]
    assert looked[:2] == [["392 ms"], ["391 ms"]]
    assert "391 ms" in looked[2]
    assert looked[3] == []


def test_a_run_that_cannot_be_judged_hides_no_failure(pytester: pytest.Pytester, run_dir: Path) -> None:
    told = failing(
        pytester,
        f"""
        def test_voice(cotenant_run):
            cotenant_run({str(run_dir)!r}, gates=["speech.nothing <= 1"])
            assert not "mine"
        """,
    )
    assert "assert not 'mine'" in told
    assert "it cannot be judged: " in told
    assert "INTERNALERROR" not in told


@pytest.mark.parametrize("arguments", [(), ("-q",), ("-s",)])
def test_a_run_tells_how_it_goes_on(
    arguments: tuple[str, ...], pytester: pytest.Pytester, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded(*_: object, make_progress: Callable[[], Progress], **__: object) -> Recorded:
        make_progress().line("[1/2] alone: done")
        return Recorded(run_dir=run_dir, status="complete")

    def prepared(*_: object, **__: object) -> tuple[Any, Any]:
        return None, None

    monkeypatch.setattr(run, "record", recorded)
    monkeypatch.setattr(prepare, "prepare", prepared)
    told = failing(
        pytester, "def test_it(cotenant_run): assert cotenant_run('tts-alone').manifest", *arguments
    )
    lines = ["cotenant: [1/2] alone: done", f"cotenant: run    {run_dir}"]
    assert [line in told.splitlines() for line in lines] == [arguments != ("-q",)] * 2
    assert "1 passed" in told
