"""What the commands print folds to a narrow terminal: no line is longer, and no word of it is lost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from cotenant.cli.app import make_app
from cotenant.cli.list_ import overview
from cotenant.report.table import display_width
from cotenant.resources import data_dir

RUNS = data_dir("fixtures") / "runs"
APART, BATCHED = str(RUNS / "h200-voices-apart"), str(RUNS / "h200-voices-batched")
ARRIVALS = data_dir("fixtures") / "arrivals"
NARROW = [60, 40]


@pytest.fixture(scope="module")
def wide() -> dict[tuple[str, ...], str]:
    """What was printed where nothing is folded, by arguments."""
    return {}


def printed(
    arguments: Sequence[str], width: int | None, capsys: pytest.CaptureFixture[str], codes: Sequence[int]
) -> str:
    """Both streams of a command on a terminal of so many columns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("COLUMNS", raising=False)
        if width is not None:
            patched.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as ended:
            make_app()(list(arguments), prog_name="cotenant")
    out, err = capsys.readouterr()
    assert ended.value.code in codes, err
    return out + err


def longest(text: str) -> int:
    return max(map(display_width, text.splitlines()))


@pytest.mark.parametrize("width", NARROW)
def test_list(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(["list"], width, capsys, [0])
    assert longest(text) <= width
    # In the same order too: nothing is cut, and nothing is left out.
    assert text.split() == overview().split()


def test_a_terminal_that_is_too_narrow_for_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tts-alone" in printed(["list", "voice-and-llm"], 1, capsys, [0])


@pytest.mark.parametrize("what", [["voice-and-llm"], ["faster-qwen3-tts"], ["--fields"]])
def test_list_of_a_scenario_and_of_fields(what: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole, text = (printed(["list", *what], columns, capsys, [0]) for columns in (None, 60))
    for line in text.splitlines():
        # A path of a file is whole, so that it can be copied.
        assert display_width(line) <= 60 or len(line.split()) <= 3, line
    if what == ["--fields"]:
        assert text.split() == whole.split()


def test_list_for_other_programs_has_an_entry_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(["list"], None, capsys, [0]) == overview() + "\n"


@pytest.mark.parametrize("width", NARROW)
def test_compare(width: int, capsys: pytest.CaptureFixture[str], wide: dict[tuple[str, ...], str]) -> None:
    arguments = ("compare", APART, BATCHED)
    if arguments not in wide:
        wide[arguments] = printed(arguments, None, capsys, [3])
    text = printed(arguments, width, capsys, [3])
    assert longest(text) <= width
    shown = text.replace(":", " ").replace(",", " ").split()
    for line in wide[arguments].splitlines():
        if not line.startswith("stage"):
            for word in line.replace(":", " ").replace(",", " ").split():
                assert word in shown, line


@pytest.mark.parametrize("width", NARROW)
def test_gate(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(["gate", BATCHED], width, capsys, [0, 1, 3, 4])
    assert longest(text) <= width
    for stage in ("tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{stage} ") and line[-1].isupper()]
        assert line.split()[-1] in ("PASS", "FAIL", "INCONCLUSIVE")
    # What has no room in the table of the GPU is in it by name, or said to be on wider ones.
    for heading in ("SM clock", "canary p99", "tensor", "power", "processes"):
        assert heading in text


@pytest.mark.parametrize("width", NARROW)
def test_doctor(width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["doctor", "tts-alone", "--set", "device=cpu", "--out", str(tmp_path)]
    *lines, command = printed(arguments, width, capsys, [0]).splitlines()
    assert longest("\n".join(lines)) <= width
    # To be copied, so that it stays whole.
    assert command.strip().endswith("cotenant run tts-alone --set device=cpu")


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("faces", [False, True])
def test_simulate(width: int, faces: bool, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", str(ARRIVALS / "voice_of_face_at_22_fps.csv")]
    if faces:
        arguments += ["--faces", str(ARRIVALS / "face_at_22_fps.csv")]
    whole, text = (printed(arguments, columns, capsys, [0]) for columns in (None, width))
    assert longest(text) <= width
    heads, row = (line.split("  ") for line in whole.splitlines()[:2])
    shown = " ".join(text.split())
    for head, cell in zip(
        *([part.strip() for part in parts if part.strip()] for parts in (heads, row)), strict=True
    ):
        assert f"{head} {cell}" in shown
