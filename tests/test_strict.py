"""COTENANT_CI_STRICT: a test that is skipped for what it names fails, and every other one does not."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from tests.conftest import pytest_runtest_makereport

@pytest.mark.skipif(True, reason="no ffmpeg: apt-get install ffmpeg")
def test_marked(): ...

@pytest.fixture
def browser(): pytest.skip("no Chromium here")

def test_in_a_fixture(browser): ...

def test_within(): pytest.skip("no espeak-ng on PATH")

def test_of_something_else(): pytest.skip("there is no GPU")

@pytest.mark.xfail(reason="no ffmpeg")
def test_expected(): assert False
"""


@pytest.mark.parametrize(
    ("strict", "failed"),
    [(None, 0), ("", 0), ("ffmpeg", 1), ("chromium espeak-ng ffmpeg flite", 3), ("piper vllm", 0)],
)
def test_a_skip_for_what_is_promised_fails(
    strict: str | None, failed: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTENANT_CI_STRICT", raising=False)
    if strict is not None:
        monkeypatch.setenv("COTENANT_CI_STRICT", strict)
    hooks, tests = TESTS.split("\n\n", 1)
    pytester.makeconftest(hooks)
    pytester.makepyfile("import pytest\n\n" + tests)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    outcomes = result.parseoutcomes()
    # What is skipped before it begins is an error.
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) + outcomes.get("error", 0) == failed
    assert (outcomes["skipped"], outcomes["xfailed"]) == (4 - failed, 1)
    assert (result.ret == 0) == (failed == 0)
    if failed:
        result.stdout.fnmatch_lines("*COTENANT_CI_STRICT names it: no *")
