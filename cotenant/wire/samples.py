"""The audio bytes of an answer, message by message -> whole samples; WAV or raw is told by the bytes."""

from typing import Final

from cotenant.errors import ServiceError
from cotenant.wire.json_values import short
from cotenant.wire.pcm import BYTES_PER_SAMPLE, PcmDecoder
from cotenant.wire.wav import WavDecoder, begins_header, is_trailer

_MP3_RATES: Final = 3
# How a compressed stream begins -> what it is.
_MAGIC: Final = {b"ID3": "mp3", b"OggS": "ogg or opus", b"fLaC": "flac", b"\x1aE\xdf\xa3": "webm"}
_BEGINNINGS: Final = (b"RIFF", b"RF64", *_MAGIC)
# MPEG-1, 2 and 2.5, layer III, with and without a checksum: an mp3 frame's second byte.
_MP3_SECOND: Final = (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)
_COMPRESSED: Final = {
    "mpeg": "mp3", "mp3": "mp3", "mpeg3": "mp3", "x-mpeg": "mp3", "mpga": "mp3", "opus": "opus",
    "ogg": "ogg or opus", "webm": "webm", "aac": "aac", "aacp": "aac", "x-aac": "aac", "mp4": "mp4",
    "m4a": "mp4", "x-m4a": "mp4", "flac": "flac", "x-flac": "flac", "basic": "mu-law", "g722": "g722",
}  # fmt: skip


class SampleDecoder:
    """Messages -> whole samples.

    WAV if the first bytes say so, whatever the content type says (both lies are common), else raw.
    `rate_hz` and `sample_format` are those given, until a WAV header tells its own; a stream's are final once
    samples came. `raw_is_sure`: the server calls it pcm, so that nothing is taken for an mp3 by its first two
    bytes. `wav_called`: it calls it WAV, so that the two bytes of an mp3's frame are enough to refuse it.
    `wav_only`: the server does not call it audio, so that it is that or nothing. `wrong_rate`: what it
    told in the place of a rate.
    """

    def __init__(
        self,
        *,
        rate_hz: int | None,
        sample_format: str,
        raw_is_sure: bool,
        wav_called: bool = False,
        wav_only: bool = False,
        wrong_rate: str | None = None,
    ) -> None:
        self.rate_hz = rate_hz
        self._wrong_rate = wrong_rate
        self.sample_format = sample_format
        self._raw_is_sure = raw_is_sure
        self._wav_called = wav_called
        self._wav_only = wav_only
        self._head = b""
        self._wav: WavDecoder | None = None
        self._pcm: PcmDecoder | None = None
        self._known = False

    @property
    def is_wav(self) -> bool:
        """Whether what came is WAV."""
        return self._wav is not None

    def feed(self, message: bytes) -> bytes:
        """The samples that are complete with this message. Raises ServiceError("protocol")."""
        if not self._known:
            message = self._head + message
            self._head = b""
            if self._may_become(message):
                self._head = message
                return b""
            if message[:4] in (b"RIFF", b"RF64"):
                self._wav = WavDecoder()
            elif self._wav_only:
                raise ServiceError(
                    "protocol", f"the answer is no audio: {short(bytes(message[:1024]))}", offset=0
                )
            else:
                refuse_compressed_bytes(message, sure=self._raw_is_sure, wav_called=self._wav_called)
            self._known = True
        elif self._wav is not None and begins_header(message):
            self._wav.restart()
        elif self._wav is not None and is_trailer(message):
            return b""
        return self._raw(message) if self._wav is None else self._of_wav(self._wav, message)

    def new_part(self) -> None:
        """Another sentence begins: half a sample that is left of the one before it is lost."""
        self._pcm = None

    def _may_become(self, head: bytes) -> bool:
        """Whether so few bytes leave open what begins with them."""
        if head[:1] == b"\xff" and not self._raw_is_sure:
            return len(head) == 1 or (len(head) == 2 and head[1] in _MP3_SECOND and not self._wav_called)
        return any(len(head) < len(each) and each.startswith(head) for each in _BEGINNINGS)

    def _of_wav(self, wav: WavDecoder, message: bytes) -> bytes:
        data = wav.feed(message)
        if wav.format is not None:
            self.rate_hz, self.sample_format = wav.format.rate_hz, wav.format.sample_format
        return self._raw(data) if data else b""

    def _raw(self, data: bytes) -> bytes:
        if self._pcm is None:
            if self.rate_hz is None:
                wrong = self._wrong_rate
                what = "does not tell its sample rate"
                if wrong is not None:
                    what = f"tells a sample rate of {wrong[:40]!r}, which is none that is played"
                raise ServiceError("protocol", f"the answer {what}; set the tenant's `rate`")
            self._pcm = PcmDecoder(BYTES_PER_SAMPLE[self.sample_format])
        return self._pcm.feed(data)


def refuse_compressed_type(content_type: str) -> None:
    """Raises ServiceError("protocol") for a content type of compressed audio; it says what to ask for."""
    kind, _, name = content_type.partition("/")
    if kind in ("audio", "video") or name == "ogg":
        found = _COMPRESSED.get(name)
        if found is not None:
            raise _compressed(f"{content_type} ({found})")


def refuse_compressed_name(name: str) -> None:
    """The same for a format's name, as a server tells it in a message."""
    if name not in ("", "pcm", "wav"):
        raise _compressed(name[:40])


def refuse_compressed_bytes(data: bytes, *, sure: bool, wav_called: bool = False) -> None:
    """The same for the first bytes of a body; `sure`: samples may begin as an mp3 or aac frame does, and
    `wav_called`: no samples were to come here, so that an mp3 frame need not be a whole one."""
    for magic, found in _MAGIC.items():
        if data.startswith(magic):
            raise _compressed(found)
    if data[4:8] == b"ftyp":
        raise _compressed("mp4")
    if sure or len(data) < 2 or data[0] != 0xFF or data[1] < 0xE0:
        return
    if data[1] in (0xF0, 0xF1, 0xF8, 0xF9):
        raise _compressed("aac")
    if data[1] not in _MP3_SECOND or (len(data) < 3 and not wav_called):
        return
    if wav_called or (0 < data[2] >> 4 < 15 and data[2] >> 2 & 3 < _MP3_RATES):
        raise _compressed("mp3")


def _compressed(found: str) -> ServiceError:
    return ServiceError(
        "protocol",
        f"the answer is {found}, which is compressed: when its samples could be heard would be a decoder's "
        "doing; ask for pcm or wav, as with `extra: {response_format: pcm}`",
        offset=0,
    )
