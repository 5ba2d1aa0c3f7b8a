"""The examples of a generator of one's own: what `serve --help` and the messages print runs as it stands."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from cotenant.cli.app import make_app
from cotenant.errors import UserError
from cotenant.tenants.builtin import source
from cotenant.tenants.builtin.source_examples import EXAMPLES, FILES
from cotenant.tenants.builtin.source_head import Audio
from cotenant.tenants.builtin.source_pieces import SpeechPieces, one_by_one, read_frame


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind, example in EXAMPLES.items():
        (tmp_path / f"{FILES[kind]}.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("lengths", [[640] * 25, [1, 639, 700, 15_999], [100]])
def test_the_face_draws_a_picture_for_each_part_of_a_second(lengths: list[int]) -> None:
    found = source.load("my_head:generate", "face", batched=False)
    audio = Audio()
    for length in lengths:
        audio.put(np.full(length, -32768, np.int16))
    audio.put(None)
    frames = [read_frame(one, number, 25) for number, one in enumerate(one_by_one(found.call(audio, 25)))]
    assert len(frames) == -(-sum(lengths) * 25 // 16_000)
    assert [frame.media_time_ns for frame in frames] == [number * 40_000_000 for number in range(len(frames))]


@pytest.mark.usefixtures("folder")
def test_a_frame_comes_with_its_audio() -> None:
    """Not at its end: the generator reads as it draws."""
    found = source.load("my_head:generate", "face", batched=False)
    audio = Audio()
    audio.put(np.zeros(1_280, np.int16))
    assert len(list(itertools.islice(found.call(audio, 25), 2))) == 2


@pytest.mark.usefixtures("folder")
def test_the_voice_speaks() -> None:
    found = source.load("my_voice:generate", "speech", batched=False)
    pieces = SpeechPieces(found.rate_hz, "s16")
    said = [pieces.read(piece) for piece in one_by_one(found.call("Hello there, everyone.", None))]
    assert [spoken is not None and spoken.rate_hz for spoken in said] == [24_000] * 3


@pytest.mark.parametrize("kind", EXAMPLES)
def test_they_stand_in_the_help_and_where_a_call_does_not_fit(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        make_app()(["serve", "--help"], prog_name="cotenant")
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    lines = [line.strip() for line in EXAMPLES[kind].splitlines()]
    first = shown.index(lines[0])
    assert shown[first : first + len(lines)] == lines
    (folder / f"wrong_{kind}.py").write_text("def generate(one): ...\nnumber = 1\n", encoding="utf-8")
    for name in ("generate", "number"):
        with pytest.raises(UserError) as error:
            source.load(f"wrong_{kind}:{name}", kind, batched=False)
        told = [line.removeprefix("  ") for line in str(error.value).splitlines()]
        assert told[-len(lines) :] == EXAMPLES[kind].splitlines()
