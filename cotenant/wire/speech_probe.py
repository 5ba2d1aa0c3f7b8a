"""Which speech server it is, by what it says of itself, and what its first answer tells. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, Head
from cotenant.wire.speech import Audio, SpeechDecoder, parse_content_type, told_rate_hz, wrong_rate
from cotenant.wire.speech_servers import DEFAULT_PROTOCOL, SERVERS, SpeechServer

# Where servers say what they are; each answers JSON or nothing.
ASKED: Final = ("/openapi.json", "/v1/models", "/info")
PROBE_TEXT: Final = "Hello."

# The first that matches, in openapi.json: a word of the title, then a path.
_BY_TITLE: Final = (
    ("sglang-omni", "sglang-omni"),
    ("pocket tts", "pocket-tts"),
    ("orpheus", "orpheus-fastapi"),
    ("kokoro", "kokoro-fastapi"),
    ("xtts", "xtts"),
)
_BY_PATH: Final = (
    ("/dev/captioned_speech", "kokoro-fastapi"),
    ("/tts_stream", "xtts"),
    ("/stream/inference_sft", "cosyvoice-f32"),
    ("/inference_sft", "cosyvoice"),
)
_OPENAI_PATH: Final = "/v1/audio/speech"
# Stands for a rate that is not known, so that the answer can be read.
_UNTOLD_HZ: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A row of `speech_servers` and why it was taken; `sure` is False where nothing told."""

    protocol: str
    why: str
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the first answer told.

    `kind`: wav, sse or raw. Where it did not tell its rate, `rate_hz` is the row's, None without one; None
    too where it told one that is none.
    """

    kind: str
    content_type: str
    samples: int
    rate_hz: int | None
    told_rate: bool
    sample_format: str


def recognise(said: Mapping[str, Any]) -> Recognised:
    """`said`: path of `ASKED` -> the JSON it answered; what did not answer is not in it."""
    api = said.get("/openapi.json")
    info = api.get("info") if isinstance(api, dict) else None
    title = str(info.get("title", "")) if isinstance(info, dict) else ""
    listed = api.get("paths") if isinstance(api, dict) else None
    paths = set(listed) if isinstance(listed, dict) else set()
    for word, protocol in _BY_TITLE:
        if word in title.lower():
            return Recognised(protocol=protocol, why=f"its openapi.json is titled {title[:60]!r}", sure=True)
    for path, protocol in _BY_PATH:
        if path in paths:
            return Recognised(protocol=protocol, why=f"its openapi.json has {path}", sure=True)
    owner = _owner(said.get("/v1/models"))
    if owner.startswith("vllm"):
        return Recognised(protocol="vllm-omni", why=f"its /v1/models are owned by {owner!r}", sure=True)
    voice = said.get("/info")
    if isinstance(voice, dict) and isinstance(voice.get("voice"), dict) and "num_speakers" in voice["voice"]:
        return Recognised(protocol="piper", why="its /info tells a voice as Piper does", sure=True)
    if _OPENAI_PATH in paths:
        return Recognised(protocol=DEFAULT_PROTOCOL, why=f"its openapi.json has {_OPENAI_PATH}", sure=True)
    return Recognised(
        protocol=DEFAULT_PROTOCOL,
        why=f"nothing there says what it is, so {_OPENAI_PATH} is asked",
        sure=False,
    )


def _owner(models: Any) -> str:
    listed = models.get("data") if isinstance(models, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return str(first.get("owned_by", ""))[:40] if isinstance(first, dict) else ""


def read_answer(head: Head, body: bytes, server: SpeechServer) -> Answered:
    """The first answer, whole or as far as it came. Raises ServiceError for one that cannot be played."""
    content_type, _ = parse_content_type(head.headers.get("content-type", ""))
    assumed = server.rate_hz
    decoder = SpeechDecoder(
        head,
        rate_hz=assumed or _UNTOLD_HZ,
        sample_format=server.sample_format,
        wav_called=server.wav_called,
    )
    events = decoder.feed(Body(data=body, closes=True, after_bytes=0))
    failure = next((event for event in events if isinstance(event, ServiceError)), None)
    samples = sum(event.samples for event in events if isinstance(event, Audio))
    if failure is not None and not samples:
        raise failure
    wav = decoder.is_wav
    wrong = not wav and wrong_rate(head) is not None
    told = wav or wrong or told_rate_hz(head) is not None
    rate_hz = decoder.rate_hz if not wrong and (told or assumed is not None) else None
    return Answered(
        kind="sse" if content_type == "text/event-stream" else "wav" if wav else "raw",
        content_type=content_type or "no content type",
        samples=samples,
        rate_hz=rate_hz,
        told_rate=told,
        sample_format=decoder.sample_format,
    )


def describe(name: str) -> dict[str, Any]:
    """What a run's manifest says of a protocol, whoever chose it."""
    server = SERVERS[name]
    return {
        "name": name,
        "title": server.title,
        "tested": server.tested,
        "how_tested": server.how_tested,
        "experimental": server.experimental,
        "whole": server.whole,
        "settings": {},
    }
