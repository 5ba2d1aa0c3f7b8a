"""What one listener heard: the audio that was kept, with silence wherever the player had none.

Every sample that was heard is there once, unchanged and in order: nothing is resampled. Only silence is put
between samples, and, under `drop`, in place of what came too late. Rounding: all silence up to a place is
summed in nanoseconds and then rounded once to samples, so the sound never drifts from the playback and its
length is, to the sample, the audio that was heard plus round(stalls * rate).
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import Playback
from cotenant.records import Recording
from cotenant.report.listening import playback_of
from cotenant.units import NS_PER_S
from cotenant.verdict import columns

Samples = NDArray[np.int16] | NDArray[np.float32]

LONGEST_S: Final = 3600
_DTYPES: Final[dict[str, np.dtype[Any]]] = {"s16": np.dtype("<i2"), "f32": np.dtype("<f4")}
_SUBTYPES: Final = {"i": "PCM_16", "f": "FLOAT"}
NEVER_BEGAN: Final = "nothing was played: it was given up before the player's buffer was full"
NO_AUDIO: Final = "no audio arrived"
NOT_KEPT: Final = (
    "its audio is not in the run directory (it was over the run's limit, its writer was killed, or it was "
    "left out of this copy)"
)
NO_AUDIO_KEPT: Final = "no audio was kept in this run"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsHeard:
    """A voice as heard. `samples`: mono, int16 or float32, at the stream's own rate; the first is heard at
    `start_ns` (monotonic) less what was asked for as wait."""

    stream: int
    samples: Samples
    rate_hz: int
    playback: Playback
    start_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSound:
    """Why a stream has no sound; a sentence's part, as in "no audio arrived"."""

    stream: int
    why: str


def sound_of(
    recording: Recording,
    stream: int,
    options: PlayerOptions,
    read_audio: Callable[[int], bytes | None],
    *,
    with_wait: bool = False,
) -> AsHeard | NoSound:
    """One voice as that player plays it. `read_audio`: stream -> its samples as received, None if not kept.

    `with_wait` puts the silence from when it was due to the start of playback before it. A stream that was
    cut off ends with the silence in which it was given up.
    """
    row = _row(recording, stream)
    if row is None or row["kind"] != "voices":
        return NoSound(stream=stream, why="it is no voice of this run")
    chunks = columns.table(recording, "chunks")
    mine = chunks.filter(pc.equal(chunks["stream"], stream))
    playback = playback_of(row, columns.ints(mine, "arrival"), columns.ints(mine, "media"), options)
    if playback is None:
        return NoSound(stream=stream, why=NO_AUDIO)
    if playback.start_ns is None:
        return NoSound(stream=stream, why=NEVER_BEGAN)
    audio = read_audio(stream)
    if audio is None:
        kept = chunks.column("audio_offset")
        return NoSound(stream=stream, why=NOT_KEPT if kept.null_count < len(kept) else NO_AUDIO_KEPT)
    wait_ns = max(0, playback.start_ns - row["due"]) if with_wait and row["due"] is not None else 0
    if wait_ns + playback.heard_ns + (playback.stall_total_ns or 0) > LONGEST_S * NS_PER_S:
        return NoSound(stream=stream, why=f"it lasts more than {LONGEST_S} s, which is no utterance")
    try:
        samples = as_heard(playback, audio, row["rate_hz"], row["sample_format"], wait_ns=wait_ns)
    except ValueError as error:
        return NoSound(stream=stream, why=str(error))
    return AsHeard(
        stream=stream, samples=samples, rate_hz=row["rate_hz"], playback=playback, start_ns=playback.start_ns
    )


def as_heard(
    playback: Playback, audio: bytes, rate_hz: int, sample_format: str, *, wait_ns: int = 0
) -> Samples:
    """The samples of `audio` (mono, as received) laid out as the playback plays them, `wait_ns` of silence
    first.

    Raises ValueError for a stream that never began, and for audio that is not as long as its chunks say.
    """
    if playback.start_ns is None:
        raise ValueError(NEVER_BEGAN)
    source = np.frombuffer(audio, dtype=_DTYPES[sample_format])
    if len(source) != _samples(playback.audio_ns, rate_hz):
        raise ValueError("the audio that was kept is not as long as its chunks say")
    source = _without_lost(source, playback, rate_hz)
    steps = list(zip(playback.clock_media_ns.tolist(), playback.clock_wall_ns.tolist(), strict=True))
    if playback.end_ns != steps[-1][1]:
        # Else the last step is where it was given up, and nothing is played from there.
        steps.append((playback.audio_ns, playback.end_ns))
    pieces, length = [], 0
    for (media_ns, wall_ns), (next_media_ns, _) in zip(steps, [*steps[1:], steps[-1]], strict=True):
        first = _samples(media_ns, rate_hz)
        silent = _samples(wait_ns + wall_ns - playback.start_ns - media_ns, rate_hz)
        pieces.append(np.zeros(first + silent - length, source.dtype))
        pieces.append(source[first : _samples(next_media_ns, rate_hz)])
        length += len(pieces[-2]) + len(pieces[-1])
    laid: Samples = np.concatenate(pieces)
    return laid


def _without_lost(source: Samples, playback: Playback, rate_hz: int) -> Samples:
    """`drop` is silent while the clock runs: where that is, the samples came too late to be heard."""
    if playback.options.after_underrun != "drop" or playback.end_ns is None:
        return source
    heard = source.copy()
    media, wall = playback.clock_media_ns, playback.clock_wall_ns
    dry = np.append(wall[:-1] + np.diff(media), playback.end_ns)
    silences = zip(playback.silence_start_ns.tolist(), playback.silence_duration_ns.tolist(), strict=True)
    for start_ns, length_ns in silences:
        step = int(np.searchsorted(wall, start_ns, side="right")) - 1
        end_ns = min(start_ns + length_ns, int(dry[step]))
        shift_ns = int(media[step] - wall[step])
        heard[_samples(start_ns + shift_ns, rate_hz) : _samples(end_ns + shift_ns, rate_hz)] = 0
    return heard


def wav_bytes(samples: Samples, rate_hz: int) -> bytes:
    """A WAV file: 16-bit PCM of int16 samples, 32-bit float of float32 ones. The same samples give the same
    bytes."""
    import soundfile

    file = io.BytesIO()
    subtype = _SUBTYPES[samples.dtype.kind]
    soundfile.write(file, samples, rate_hz, format="WAV", subtype=subtype)
    data = bytearray(file.getvalue())
    # libsndfile writes the time of day into the PEAK chunk of float files.
    peak = data.find(b"PEAK", 12, data.index(b"data", 12))
    if peak >= 0:
        data[peak + 12 : peak + 16] = bytes(4)
    return bytes(data)


def wav_files(
    recording: Recording, options: PlayerOptions, read_audio: Callable[[int], bytes | None]
) -> Iterator[tuple[str, bytes | NoSound]]:
    """(File name, WAV file, or why there is none) of each voice, warm-up and settling too.

    Names hold numbers alone, whatever stages and loads are called: `utterances` tells which stream is which.
    """
    for row in voices(recording):
        found = sound_of(recording, row["stream"], options, read_audio)
        yield wav_name(row), found if isinstance(found, NoSound) else wav_bytes(found.samples, found.rate_hz)


def wav_name(row: Mapping[str, Any]) -> str:
    """The name of the WAV file of a row of `streams`: numbers alone, whatever its stage is called."""
    return f"stream-{int(row['stream']):09d}.wav"


def voices(recording: Recording) -> Sequence[dict[str, Any]]:
    """The rows of `streams` that are voices, in the table's order."""
    rows = columns.table(recording, "streams")
    found: list[dict[str, Any]] = rows.filter(pc.equal(rows["kind"], "voices")).to_pylist()
    return found


def _row(recording: Recording, stream: int) -> dict[str, Any] | None:
    rows = columns.table(recording, "streams")
    found: list[dict[str, Any]] = rows.filter(pc.equal(rows["stream"], stream)).to_pylist()
    return found[0] if found else None


def _samples(length_ns: int, rate_hz: int) -> int:
    """The nearest whole number of samples; exact for what was made of a whole number of them."""
    return (2 * length_ns * rate_hz + NS_PER_S) // (2 * NS_PER_S)
