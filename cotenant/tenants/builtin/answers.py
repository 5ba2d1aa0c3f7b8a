"""What an engine hands to the server's front: pieces of speech, pictures, or why it failed. No torch."""

from dataclasses import dataclass
from typing import Literal

SampleFormat = Literal["s16", "f32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One picture: its number, its time in the audio, its JPEG."""

    index: int
    media_time_ns: int
    jpeg: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One piece of speech: mono samples, little endian."""

    data: bytes
    rate_hz: int
    sample_format: SampleFormat = "s16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The engine gave this request up; the message goes to its client. Nothing follows."""

    message: str
