"""The protocols of talking heads and of LLM servers: one row each, what it is and how it was tried.

Those of speech servers are in `speech_servers`, with what each is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

# `real server`: it runs in the tests. `captured bytes`: what one sent. `server of our tests`: we wrote it,
# and it met no other.
Tested = Literal["real server", "real engine behind our server", "captured bytes", "server of our tests"]
_OURS_ALONE: Final = "server of our tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProtocol:
    """`protocol:` of a face or completions tenant."""

    title: str
    tested: Tested
    how_tested: str

    @property
    def experimental(self) -> bool:
        """Never met its real server, nor bytes of it."""
        return is_experimental(self.tested)


def is_experimental(tested: Tested) -> bool:
    """Whether nothing that somebody else wrote was met."""
    return tested == _OURS_ALONE


# The row of a head that speaks MJPEG and gets no audio (`frames: {audio: {send: none}}`).
_WATCHED: Final = "mjpeg, watched"

FACES: Final[Mapping[str, ServiceProtocol]] = {
    "cotenant": ServiceProtocol(
        title="cotenant's own WebSocket: binary audio in, numbered JPEGs out",
        tested="real server",
        how_tested="the built-in head, and generators behind it (serve face --from), in the tests",
    ),
    "websocket": ServiceProtocol(
        title="another head's WebSocket, read through `frames`",
        tested="real server",
        how_tested="Chromium's screencast, in the tests: base64 pictures in JSON, its end and its errors; it "
        "takes the messages with audio and does not listen. Binary pictures, binary audio, index and time_ms "
        "met a server of our tests alone; no talking head of somebody else was met",
    ),
    "mjpeg": ServiceProtocol(
        title="MJPEG over HTTP (multipart/x-mixed-replace), the audio as the body of a POST",
        tested="server of our tests",
        how_tested="no server of somebody else took the audio; the answer is read as ffmpeg's, which is "
        "watched",
    ),
    _WATCHED: ServiceProtocol(
        title="MJPEG over HTTP that gets no audio (frames: {audio: {send: none}})",
        tested="real server",
        how_tested="ffmpeg 5.1.9, in the tests",
    ),
}

_VLLM: Final = "vLLM 0.32.0 on a CPU, in the tests"

LLMS: Final[Mapping[str, ServiceProtocol]] = {
    "openai": ServiceProtocol(
        title="whichever of the two the server takes, found out before anything is measured",
        tested="real server",
        how_tested=f"{_VLLM}; refusals of other servers after their documentation",
    ),
    "completions": ServiceProtocol(
        title="OpenAI /v1/completions, token ids or text",
        tested="real server",
        how_tested=f"{_VLLM}, and bytes of it",
    ),
    "chat": ServiceProtocol(
        title="OpenAI /v1/chat/completions",
        tested="captured bytes",
        how_tested="bytes of vLLM 0.32.0; the built-in LLM",
    ),
}

_BY_KIND: Final = {"face": FACES, "completions": LLMS}


def protocol_fact(kind: str, name: str, audio_send: str | None = None) -> dict[str, Any]:
    """What a run's manifest says of the protocol of a face or completions tenant.

    `audio_send`: of a head, its `frames.audio.send`, None where the scenario does not tell.
    """
    watched = name == "mjpeg" and audio_send == "none"
    row = _BY_KIND[kind][_WATCHED if watched else name]
    return {
        "name": name,
        "title": row.title,
        "tested": row.tested,
        "how_tested": row.how_tested,
        "experimental": row.experimental,
    }
