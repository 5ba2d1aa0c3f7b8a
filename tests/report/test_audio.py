"""As-heard audio: compared sample by sample with a player that plays one sample after another."""

import io
import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback, play
from cotenant.report.audio import (
    NEVER_BEGAN,
    NO_AUDIO,
    NO_AUDIO_KEPT,
    NOT_KEPT,
    AsHeard,
    NoSound,
    as_heard,
    sound_of,
    wav_bytes,
    wav_files,
)
from cotenant.run_dir.reader import read, read_audio
from cotenant.wire.pcm import media_ns
from tests.report.sounds import RATE_HZ, samples_of, write_voice_run
from tests.verdict.recordings import MS, S

Policy = Literal["resume", "refill", "drop"]
# 1 kHz: a sample is a millisecond, so whole milliseconds need no rounding.
SLOW_HZ = 1000


def options(lookahead_ms: int = 0, after: Policy = "resume") -> PlayerOptions:
    return PlayerOptions(lookahead_ns=lookahead_ms * MS, after_underrun=after)


def played(
    chunks: list[tuple[int, int]], how: PlayerOptions, done_ms: int, *, whole: bool, rate_hz: int = SLOW_HZ
) -> Playback:
    taken, media = 0, []
    for _, count in chunks:
        media.append(media_ns(taken, count, rate_hz))
        taken += count
    arrivals = [arrival * MS for arrival, _ in chunks]
    done, given_up = (done_ms * MS, None) if whole else (None, done_ms * MS)
    return play(arrivals, media, how, done_ns=done, give_up_ns=given_up)


def one_by_one(
    chunks: list[tuple[int, int]],
    samples: list[float],
    how: PlayerOptions,
    start_ms: int,
    done_ms: int,
    whole: bool,
) -> list[float]:
    """The same player at one sample a millisecond; 0 is silence."""
    came = [arrival for arrival, count in chunks for _ in range(count)]
    refill = how.refill_target_ns // MS if how.after_underrun == "refill" else 0
    heard: list[float] = []
    now, k = start_ms, 0
    while k < len(samples):
        if came[k] <= now:
            heard.append(samples[k])
            now, k = now + 1, k + 1
        elif how.after_underrun == "drop":
            heard.append(0)
            now, k = now + 1, k + 1
        else:
            enough = k + max(1, refill) - 1
            ready = (
                came[k] if not refill else came[enough] if enough < len(came) else done_ms if whole else None
            )
            if ready is None:
                return heard + [0] * (done_ms - now)
            heard += [0] * (ready - now)
            now = ready
    return heard if whole else heard + [0] * (done_ms - now)


@settings(max_examples=300, deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=12),
    lookahead=st.integers(0, 80),
    after=st.sampled_from(["resume", "refill", "drop"]),
    later=st.integers(0, 50),
    whole=st.booleans(),
)
def test_it_is_what_a_player_of_single_samples_plays(
    gaps: list[tuple[int, int]], lookahead: int, after: Policy, later: int, whole: bool
) -> None:
    arrivals = np.cumsum([gap for gap, _ in gaps]).tolist()
    chunks = list(zip(arrivals, [count for _, count in gaps], strict=True))
    done_ms = arrivals[-1] + later
    playback = played(chunks, options(lookahead, after), done_ms, whole=whole)
    samples = samples_of(sum(count for _, count in chunks))
    if playback.start_ns is None:
        with pytest.raises(ValueError, match=NEVER_BEGAN):
            as_heard(playback, samples.tobytes(), SLOW_HZ, "s16")
        return
    expected = one_by_one(
        chunks, samples.tolist(), options(lookahead, after), playback.start_ns // MS, done_ms, whole
    )
    assert as_heard(playback, samples.tobytes(), SLOW_HZ, "s16").tolist() == expected
    assert playback.stall_total_ns is not None
    assert len(expected) == (playback.heard_ns + playback.stall_total_ns) // MS


@settings(max_examples=200, deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 90_000_000), st.integers(1, 3000)), min_size=1, max_size=30),
    rate_hz=st.sampled_from([8000, 11_025, 22_050, 24_000, 44_100, 48_000, 192_000]),
    after=st.sampled_from(["resume", "refill"]),
)
def test_its_length_is_audio_and_stalls_to_the_sample_at_any_rate(
    gaps: list[tuple[int, int]], rate_hz: int, after: Policy
) -> None:
    arrivals = np.cumsum([gap for gap, _ in gaps])
    counts = [count for _, count in gaps]
    before = np.cumsum([0, *counts[:-1]]).tolist()
    media = [media_ns(start, count, rate_hz) for start, count in zip(before, counts, strict=True)]
    playback = play(arrivals, media, options(0, after), done_ns=int(arrivals[-1]))
    samples = samples_of(sum(counts))
    heard = as_heard(playback, samples.tobytes(), rate_hz, "s16")
    assert playback.stall_total_ns is not None
    assert len(heard) == len(samples) + int(playback.stall_total_ns * rate_hz / S + 0.5)
    # Nothing lost, nothing changed, all in order.
    assert heard[heard != 0].tolist() == samples.tolist()


def test_ten_thousand_stalls_do_not_drift() -> None:
    # Each stall is 1.3 samples: rounded one by one they would make 10,000 samples, not 13,000.
    count, stall_ns = 10_000, round(1.3 * S / RATE_HZ)
    media = [media_ns(k * 24, 24, RATE_HZ) for k in range(count + 1)]
    ends = np.cumsum(media)
    arrivals = ends - media + np.arange(count + 1) * stall_ns
    playback = play(arrivals, media, options(), done_ns=int(arrivals[-1]))
    samples = samples_of((count + 1) * 24)
    heard = as_heard(playback, samples.tobytes(), RATE_HZ, "s16")
    assert len(heard) - len(samples) == round(count * stall_ns * RATE_HZ / S) == 13_000
    # Half of the way, half of the silence.
    nonzero = np.flatnonzero(heard)
    assert abs(int(nonzero[5000 * 24]) - (5000 * 24 + 6500)) <= 1


def test_the_wait_can_be_put_before_it(tmp_path: Path) -> None:
    (audio,) = write_voice_run(tmp_path / "run", [[(100.0, 2400), (250.0, 2400)]])
    recording = read(tmp_path / "run")
    reading = lambda stream: read_audio(tmp_path / "run", recording, stream)  # noqa: E731
    plain = sound_of(recording, 1_000_001, options(), reading)
    waited = sound_of(recording, 1_000_001, options(), reading, with_wait=True)
    assert isinstance(plain, AsHeard)
    assert isinstance(waited, AsHeard)
    # 100 ms until it starts, a stall of 50 ms.
    assert len(plain.samples) == 4800 + 1200
    assert plain.samples.tolist()[2400:3600] == [0] * 1200
    assert waited.samples.tolist() == [0] * 2400 + plain.samples.tolist()
    assert plain.samples[plain.samples != 0].tobytes() == audio


@pytest.mark.parametrize(("sample_format", "subtype"), [("s16", "PCM_16"), ("f32", "FLOAT")])
def test_a_wav_holds_exactly_these_samples(sample_format: str, subtype: str, tmp_path: Path) -> None:
    chunks = [(0.0, 0), (100.0, 1000), (600.0, 777)]
    (audio,) = write_voice_run(tmp_path / "run", [chunks], rate_hz=22_050, sample_format=sample_format)
    recording = read(tmp_path / "run")
    heard = sound_of(
        recording, 1_000_001, options(), lambda stream: read_audio(tmp_path / "run", recording, stream)
    )
    assert isinstance(heard, AsHeard)
    data = wav_bytes(heard.samples, heard.rate_hz)
    assert data == wav_bytes(heard.samples, heard.rate_hz)
    assert b"PEAK" not in data or data[data.index(b"PEAK") + 12 :][:4] == bytes(4)
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        assert (file.samplerate, file.channels, file.subtype) == (22_050, 1, subtype)
        back = file.read(dtype="int16" if sample_format == "s16" else "float32")
    assert back.tolist() == heard.samples.tolist()
    assert heard.playback.stall_total_ns is not None
    assert len(back) == 1777 + round(heard.playback.stall_total_ns * 22_050 / S)
    assert back[back != 0].tobytes() == audio


def test_what_has_no_sound_says_why(tmp_path: Path) -> None:
    steady = [(100.0, 2400), (200.0, 2400)]

    def why(name: str, stream: int = 1_000_001, lookahead_ms: int = 0) -> str:
        recording = read(tmp_path / name)
        found = sound_of(
            recording,
            stream,
            options(lookahead_ms),
            lambda number: read_audio(tmp_path / name, recording, number),
        )
        assert isinstance(found, NoSound)
        return found.why

    write_voice_run(tmp_path / "off", [steady], audio_limit_bytes=None)
    write_voice_run(tmp_path / "limit", [steady, steady, []], audio_limit_bytes=9600)
    write_voice_run(tmp_path / "cut", [steady], end="truncated")
    write_voice_run(tmp_path / "killed", [steady], end=None)
    assert why("off") == NO_AUDIO_KEPT
    assert why("limit", 1_000_002) == NOT_KEPT
    assert why("limit", 1_000_003) == NO_AUDIO
    assert why("limit", 99) == "it is no voice of this run"
    assert why("cut", lookahead_ms=900) == NEVER_BEGAN
    assert why("killed") == NOT_KEPT
    write_voice_run(tmp_path / "copy", [steady])
    shutil.rmtree(tmp_path / "copy" / "audio")
    assert why("copy") == NOT_KEPT
    assert "left out of this copy" in NOT_KEPT


def test_a_voice_that_was_cut_off_ends_in_the_silence_in_which_it_was_given_up() -> None:
    chunks = [(0, 100), (50, 100)]
    playback = played(chunks, options(), 500, whole=False)
    heard = as_heard(playback, samples_of(200).tobytes(), SLOW_HZ, "s16")
    assert len(heard) == 500
    assert heard[:200].all()
    assert not heard[200:].any()


@settings(max_examples=200, deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=12),
    lookahead=st.integers(0, 80),
    after=st.sampled_from(["resume", "refill", "drop"]),
    quantum=st.integers(1, 25),
    resync=st.sampled_from([None, 0, 30]),
)
def test_with_the_blocks_of_a_device_or_a_resync_lengths_stay_exact(
    gaps: list[tuple[int, int]], lookahead: int, after: Policy, quantum: int, resync: int | None
) -> None:
    arrivals = np.cumsum([gap for gap, _ in gaps]).tolist()
    chunks = list(zip(arrivals, [count for _, count in gaps], strict=True))
    how = PlayerOptions(
        lookahead_ns=lookahead * MS,
        after_underrun=after,
        quantum_ns=quantum * MS,
        resync_after_ns=None if resync is None else resync * MS,
    )
    playback = played(chunks, how, arrivals[-1], whole=True)
    samples = samples_of(sum(count for _, count in chunks))
    heard = as_heard(playback, samples.tobytes(), SLOW_HZ, "s16")
    assert playback.stall_total_ns is not None
    assert len(heard) * MS == playback.heard_ns + playback.stall_total_ns
    assert np.count_nonzero(heard) * MS == playback.heard_ns
    # What is heard is a part of what was said, in order.
    said = iter(samples.tolist())
    assert all(sample in said for sample in heard[heard != 0].tolist())


def test_a_file_for_each_voice_named_by_its_number_alone(tmp_path: Path) -> None:
    steady = [(100.0, 2400), (200.0, 2400)]
    write_voice_run(tmp_path / "run", [steady, steady], audio_limit_bytes=9600, stage="../<b>")
    recording = read(tmp_path / "run")
    found = dict(
        wav_files(recording, options(), lambda stream: read_audio(tmp_path / "run", recording, stream))
    )
    assert list(found) == ["stream-001000001.wav", "stream-001000002.wav"]
    first, second = found.values()
    assert isinstance(first, bytes)
    assert soundfile.info(io.BytesIO(first)).frames == 4800
    assert isinstance(second, NoSound)
    assert second.why == NOT_KEPT


def test_audio_that_is_not_as_long_as_its_chunks_is_refused() -> None:
    playback = played([(0, 100)], options(), 100, whole=True)
    with pytest.raises(ValueError, match="not as long"):
        as_heard(playback, samples_of(99).tobytes(), SLOW_HZ, "s16")


def test_an_utterance_of_hours_is_refused(tmp_path: Path) -> None:
    write_voice_run(tmp_path / "run", [[(0.0, 2400), (4_000_000.0, 2400)]])
    recording = read(tmp_path / "run")
    found = sound_of(recording, 1_000_001, options(), lambda _: bytes(9600))
    assert isinstance(found, NoSound)
    assert "more than 3600 s" in found.why
