"""`cotenant listen`: which voice, which samples reach the card, and what is said without one.

There is no sound card where tests run: a stand-in for sounddevice calls the callback as PortAudio does.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from cotenant.cli.app import make_app
from tests.report.sounds import write_voice_run
from tests.verdict.recordings import S

# Listeners 0 and 1 in turn. The second voice stalls for 50 ms, the third for 200 ms.
VOICES = [
    [(100.0, 2400), (200.0, 2400)],
    [(100.0, 2400), (250.0, 2400)],
    [(100.0, 2400), (400.0, 2400)],
    [(100.0, 2400), (150.0, 2400)],
]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_voice_run(tmp_path / "run", VOICES)
    return tmp_path / "run"


def listen(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        make_app()(["listen", *map(str, arguments)], prog_name="cotenant")
    return int(ended.value.code or 0)


class FakeCard:
    """As much of the module sounddevice as is used; blocks of 1000 samples, some of them late."""

    class PortAudioError(Exception):
        pass

    class CallbackStop(Exception):
        pass

    def __init__(self, *, late: int = 0, blocks: int | None = None, refused: str = "") -> None:
        self.late, self.blocks, self.refused = late, blocks, refused
        self.heard: list[Any] = []
        self.options: dict[str, Any] = {}
        self.closed = self.aborted = 0

    def OutputStream(self, *, callback: Any, finished_callback: Any, **options: Any) -> Any:
        if self.refused:
            raise self.PortAudioError(self.refused)
        self.options = options

        def start() -> None:
            number = 0
            while self.blocks is None or number < self.blocks:
                out = np.full((1000, 1), 7, dtype=options["dtype"])
                try:
                    callback(out, 1000, None, SimpleNamespace(output_underflow=number < self.late))
                except self.CallbackStop:
                    self.heard.append(out)
                    finished_callback()
                    return
                self.heard.append(out)
                number += 1

        def close() -> None:
            self.closed += 1

        def abort() -> None:
            self.aborted += 1

        return SimpleNamespace(start=start, close=close, abort=abort)


def test_the_card_gets_every_sample_and_its_own_faults_are_told_apart(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    card = FakeCard(late=3)
    monkeypatch.setitem(sys.modules, "sounddevice", card)
    assert listen(run_dir, "alone/1/0", "--lookahead", "0ms") == 0
    assert card.options["samplerate"] == 24_000
    assert (card.options["channels"], card.options["dtype"]) == (1, "int16")
    assert (card.closed, card.aborted) == (1, 0)
    heard = np.concatenate(card.heard)[:, 0]
    assert listen(run_dir, "1000002", "--lookahead", "0ms", "--wav", tmp_path / "a.wav") == 0
    written, rate_hz = soundfile.read(tmp_path / "a.wav", dtype="int16")
    assert rate_hz == 24_000
    assert len(written) == 4800 + 1200
    # The card's last block is filled up with silence.
    assert heard.tolist() == written.tolist()
    told = capsys.readouterr().err
    assert "alone/1/0 (stream 1000002): 0.20 s of speech at 24000 Hz, 1 underrun, 50 ms of silence" in told
    assert "this sound card ran dry 3 times while playing; the recording's own underruns: 1" in told


def test_the_last_block_is_filled_up_with_silence(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = FakeCard()
    monkeypatch.setitem(sys.modules, "sounddevice", card)
    assert listen(run_dir, "1000001", "--lookahead", "0ms") == 0
    heard = np.concatenate(card.heard)[:, 0]
    assert len(heard) == 5000
    assert heard[:4800].all()
    assert not heard[4800:].any()


def test_the_player_can_be_another_one(run_dir: Path, tmp_path: Path) -> None:
    def length(*flags: str) -> int:
        assert listen(run_dir, "1000003", "--wav", tmp_path / "x.wav", *flags) == 0
        return int(soundfile.info(tmp_path / "x.wav").frames)

    assert length("--lookahead", "0ms") == 4800 + 4800
    assert length("--lookahead", "0ms", "--after-underrun", "drop") == 4800
    assert length("--lookahead", "150ms") == 4800
    # It starts with the second chunk, 400 ms after it was due.
    assert length("--lookahead", "150ms", "--wait") == 4800 + 9600
    assert length("--lookahead", "100ms", "--start", "delay") == 4800 + 2400


def test_worst_is_the_one_with_the_least_headroom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_voice_run(tmp_path / "run", VOICES, window=(0, 60 * S))
    assert listen(tmp_path / "run", "worst", "--lookahead", "0ms", "--wav", tmp_path / "w.wav") == 0
    assert "alone/0/1 (stream 1000003)" in capsys.readouterr().err


def test_worst_is_there_where_the_window_held_none_but_one_that_was_under_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Due at second 1, still spoken at second 9; the next one only at second 11."""
    slow = [(100.0 + 1000 * number, 2400) for number in range(9)]
    write_voice_run(tmp_path / "run", [slow, *VOICES[1:]], window=(3 * S, 8 * S))
    assert listen(tmp_path / "run", "worst", "--lookahead", "0ms", "--wav", tmp_path / "w.wav") == 0
    assert "alone/0/0 (stream 1000001)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("99", "no voice '99' in this run: give a stream's number (as 1000003)"),
        ("crowd/0/0", "the stages are alone"),
        ("nonsense", "STAGE/LISTENER/UTTERANCE (as alone/0/1) or 'worst'"),
        ("worst", "there is no voice with sound in this run"),
        ("\x1b[2J", "no voice"),
    ],
)
def test_a_name_that_names_nothing_is_2(
    name: str, told: str, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listen(run_dir, name) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "\x1b" not in error


def test_audio_that_was_not_kept_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_voice_run(tmp_path / "run", VOICES, audio_limit_bytes=None)
    assert listen(tmp_path / "run", "1000001", "--wav", tmp_path / "x.wav") == 2
    assert "no audio was kept in this run" in capsys.readouterr().err
    assert not (tmp_path / "x.wav").exists()


def test_without_portaudio_the_package_is_named(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Missing:
        """Importing sounddevice without PortAudio raises OSError, not ImportError."""

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    assert listen(run_dir, "1000001") == 5
    assert "apt install libportaudio2" in capsys.readouterr().err


def test_without_a_device_the_sentence_names_the_way_out(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeCard(refused="Error querying device -1"))
    assert listen(run_dir, "1000001") == 5
    told = capsys.readouterr().err
    assert "no sound device that plays 24000 Hz mono here (Error querying device -1); --wav FILE" in told
    assert "ran dry" not in told


def test_a_device_that_goes_away_ends_it(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = FakeCard(blocks=2)
    monkeypatch.setitem(sys.modules, "sounddevice", card)
    monkeypatch.setattr("cotenant.cli.sound_card._LOOK_S", 0.0)
    assert listen(run_dir, "1000001") == 5
    told = capsys.readouterr().err
    assert "takes no more samples" in told
    assert "stopped at 0.08 s" in told
    assert (card.closed, card.aborted) == (1, 1)


def test_ctrl_c_stops_the_sound_and_tells_what_was_counted(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = FakeCard(blocks=1, late=1)
    monkeypatch.setitem(sys.modules, "sounddevice", card)

    def interrupted(self: object, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("threading.Event.wait", interrupted)
    assert listen(run_dir, "1000001") == 130
    told = capsys.readouterr().err
    assert "stopped at 0.04 s; this sound card ran dry 1 time " in told
    assert (card.closed, card.aborted) == (1, 1)


def test_a_wav_that_cannot_be_written_is_2(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listen(run_dir, "1000001", "--wav", run_dir / "none" / "x.wav") == 2
    assert "--wav: cannot write" in capsys.readouterr().err
