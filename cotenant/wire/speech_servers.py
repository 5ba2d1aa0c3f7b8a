"""The speech servers that are spoken to: one row each, what is sent where and what is known of the answer.

`protocol:` of a speech tenant names a row. What is played is decided by the answer, never by the row: its
rate and sample format are for answers that do not tell.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlencode

from cotenant.errors import ServiceError
from cotenant.wire.protocols import Tested, is_experimental

DEFAULT_PROTOCOL: Final = "openai"
# Where an XTTS server lists its voices.
SPEAKERS_PATH: Final = "/studio_speakers"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechServer:
    """How one server is spoken to.

    `body`: `json`, `form` (urlencoded) or `socket` (a WebSocket). `text`, `voice` and `model` are names of
    fields, None where it has none; `fixed` are further ones, over which the tenant's `extra` wins.
    `wav_called`: the content type that it puts on its WAV though that means something else.
    `whole`: it answers when all is spoken. `needs_speaker`: a voice is numbers that it is asked for first.
    `rate_from`: the row whose WAV tells the rate of the model, where nothing that is measured does.
    """

    title: str
    path: str
    tested: Tested
    how_tested: str
    body: Literal["json", "form", "socket"] = "json"
    text: str = "input"
    voice: str | None = "voice"
    model: str | None = "model"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    rate_hz: int | None = None
    sample_format: Literal["s16", "f32"] = "s16"
    wav_called: str | None = None
    whole: bool = False
    needs_speaker: bool = False
    rate_from: str | None = None

    @property
    def experimental(self) -> bool:
        """Never met its real server, nor bytes of it."""
        return is_experimental(self.tested)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCall:
    """One request, ready to be sent."""

    content_type: str
    body: bytes


_OPENAI_PATH: Final = "/v1/audio/speech"
_RAW: Final = {"response_format": "pcm", "stream": True}
_BY_SOCKET: Final = {"response_format": "pcm", "stream_audio": True, "split_granularity": "sentence"}
_VLLM_OMNI: Final = "bytes of its server (0.30.0) around a stand-in for the model"
_SGLANG_OMNI: Final = "bytes of its server (0.1.9) around a stand-in for the model"

SERVERS: Final[Mapping[str, SpeechServer]] = {
    "openai": SpeechServer(
        title="OpenAI /v1/audio/speech and what speaks like it",
        path=_OPENAI_PATH,
        fixed=_RAW,
        rate_hz=24_000,
        tested="real engine behind our server",
        how_tested="hibari-tts, espeak-ng and flite behind the built-in server, in the tests; what was "
        "captured from Kokoro-FastAPI and Orpheus-FastAPI is of this kind too",
    ),
    "vllm-omni": SpeechServer(
        title="vLLM-Omni, raw audio",
        path=_OPENAI_PATH,
        fixed={**_RAW, "stream_format": "audio"},
        rate_from="vllm-omni",
        tested="captured bytes",
        how_tested=_VLLM_OMNI,
    ),
    "vllm-omni-sse": SpeechServer(
        title="vLLM-Omni, events",
        path=_OPENAI_PATH,
        fixed=_RAW,
        rate_from="vllm-omni",
        tested="captured bytes",
        how_tested=_VLLM_OMNI,
    ),
    "vllm-omni-socket": SpeechServer(
        title="vLLM-Omni, text in pieces over a WebSocket",
        path=_OPENAI_PATH + "/stream",
        body="socket",
        fixed=_BY_SOCKET,
        rate_from="vllm-omni",
        tested="captured bytes",
        how_tested=_VLLM_OMNI,
    ),
    "sglang-omni": SpeechServer(
        title="SGLang-Omni",
        path=_OPENAI_PATH,
        fixed=_RAW,
        tested="captured bytes",
        how_tested=_SGLANG_OMNI,
    ),
    "sglang-omni-socket": SpeechServer(
        title="SGLang-Omni, text in pieces over a WebSocket",
        path=_OPENAI_PATH + "/stream",
        body="socket",
        fixed=_BY_SOCKET,
        tested="captured bytes",
        how_tested=_SGLANG_OMNI,
    ),
    "kokoro-fastapi": SpeechServer(
        title="Kokoro-FastAPI",
        path=_OPENAI_PATH,
        fixed={**_RAW, "model": "kokoro", "voice": "af_heart"},
        rate_hz=24_000,
        tested="captured bytes",
        how_tested="bytes of its server (26eec06) around a stand-in for the model",
    ),
    "xtts": SpeechServer(
        title="XTTS streaming server",
        path="/tts_stream",
        text="text",
        voice=None,
        model=None,
        fixed={"language": "en", "add_wav_header": True, "stream_chunk_size": "20"},
        rate_hz=24_000,
        needs_speaker=True,
        tested="captured bytes",
        how_tested="bytes of its server (99286c1) around a stand-in for the model",
    ),
    "orpheus-fastapi": SpeechServer(
        title="Orpheus-FastAPI",
        path=_OPENAI_PATH,
        fixed={"model": "orpheus", "response_format": "wav"},
        rate_hz=24_000,
        whole=True,
        tested="captured bytes",
        how_tested="bytes of its server (7bd4cfc) around a stand-in for the model",
    ),
    "pocket-tts": SpeechServer(
        title="Pocket-TTS serve",
        path="/tts",
        body="form",
        text="text",
        voice="voice_url",
        model=None,
        rate_hz=24_000,
        tested="captured bytes",
        how_tested="bytes of its server (4.0.1) around a stand-in for the model",
    ),
    "piper": SpeechServer(
        title="Piper's HTTP server",
        path="/synthesize",
        text="text",
        model=None,
        wav_called="text/html",
        whole=True,
        tested="real server",
        how_tested="piper-tts 1.8.0 with the voice en_US-joe-medium, in the tests",
    ),
    "cosyvoice": SpeechServer(
        title="CosyVoice runtime/python/fastapi, 16-bit",
        path="/inference_sft",
        body="form",
        text="tts_text",
        voice="spk_id",
        model=None,
        tested="captured bytes",
        how_tested="bytes of its server (ace7c47) around a stand-in for the model",
    ),
    "cosyvoice-f32": SpeechServer(
        title="CosyVoice's /stream/ paths, float",
        path="/stream/inference_sft",
        body="form",
        text="tts_text",
        voice="spk_id",
        model=None,
        sample_format="f32",
        tested="captured bytes",
        how_tested="bytes of its server (0a6dbb3) around a stand-in for the model",
    ),
}


def fields(
    server: SpeechServer, *, model: str | None, voice: str | None, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """All that is sent beside the text; `extra` wins over the model and voice, these over what is fixed."""
    given = {server.model: model, server.voice: voice}
    named = {name: value for name, value in given.items() if name is not None and value is not None}
    return {**server.fixed, **named, **extra}


def call(
    server: SpeechServer, text: str, *, model: str | None, voice: str | None, extra: Mapping[str, Any]
) -> SpeechCall:
    """The request that has `text` spoken; not for a WebSocket."""
    sent = {server.text: text, **fields(server, model=model, voice=voice, extra=extra)}
    if server.body == "form":
        return SpeechCall(
            content_type="application/x-www-form-urlencoded",
            body=urlencode({name: _form_text(value) for name, value in sent.items()}).encode(),
        )
    return SpeechCall(content_type="application/json", body=json.dumps(sent).encode())


def speaker_fields(listed: Any, voice: str | None) -> dict[str, Any]:
    """The numbers of a voice out of the list at `SPEAKERS_PATH`; without a name, those of the first.

    Raises ServiceError("protocol") where it is not among them.
    """
    voices = listed if isinstance(listed, dict) else {}
    name = next(iter(voices), None) if voice is None else voice
    found = voices.get(name)
    if not isinstance(found, dict):
        known = ", ".join(str(one)[:40] for one in list(voices)[:10]) or "none"
        raise ServiceError("protocol", f"no voice {name!r} in {SPEAKERS_PATH}; it lists {known}")
    return {key: found.get(key) for key in ("speaker_embedding", "gpt_cond_latent")}


def _form_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
