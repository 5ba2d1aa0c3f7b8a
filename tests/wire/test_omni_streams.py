"""What vLLM-Omni's and SGLang-Omni's own server code sent, around a stand-in for the model, as we read it."""

import base64
import json
import struct
from typing import Final

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Head, Http1Client, status_kind
from cotenant.wire.json_values import error_text, json_object
from cotenant.wire.speech import Audio, Finished
from cotenant.wire.speech_servers import SERVERS
from cotenant.wire.speech_socket import SpeechSocketDecoder, session_messages
from tests.wire.test_speech_quirks import CAPTURED, RAMP, cuts, heard

PIECE_BYTES: Final = 2400
BROKE: Final = "stand-in: generation failed in mid-stream"

GOOD: Final = {
    # name: protocol, the tenant's rate, the rate that is played
    "vllm-omni": ("vllm-omni", 24_000, 24_000),
    "vllm-omni-wav": ("vllm-omni", 24_000, 44_100),
    "vllm-omni-sse": ("vllm-omni-sse", 24_000, 24_000),
    "vllm-omni-sse-wav": ("vllm-omni-sse", None, 44_100),
    "sglang-omni": ("sglang-omni", None, 44_100),
    "sglang-omni-sse": ("sglang-omni", None, 24_000),
}


def answer(name: str) -> bytes:
    return (CAPTURED / f"{name}.http").read_bytes()


@pytest.mark.parametrize("name", GOOD)
def test_every_sample_however_it_is_cut(name: str) -> None:
    protocol, given_hz, rate_hz = GOOD[name]
    data = answer(name)
    for pieces in cuts(data):
        client = heard(protocol, pieces, given_hz)
        assert client.failure is None
        assert client.samples == RAMP
        assert client.decoder is not None
        assert (client.decoder.rate_hz, client.decoder.sample_format) == (rate_hz, "s16")
        assert client.done
        if len(pieces) == len(data):
            assert client.first_at is not None
            # To one line end.
            end = first_samples_end(data, after_header=name.endswith("wav"))
            assert end - 1 <= client.first_at <= end + 2


def first_samples_end(data: bytes, *, after_header: bool) -> int:
    """Bytes of an answer up to the end of its first chunk with samples; a WAV header is one of its own."""
    at = data.index(b"\r\n\r\n") + 4
    for last in (False, True) if after_header else (True,):
        size, _, _ = data[at:].partition(b"\r\n")
        end = at + len(size) + 2 + int(size, 16)
        at = end if last else end + 2
    return at


def test_raw_samples_of_vllm_omni_tell_no_rate() -> None:
    assert SERVERS["vllm-omni"].rate_hz is None
    assert "`rate`" in str(heard("vllm-omni", [answer("vllm-omni")]).failure)


@pytest.mark.parametrize("name", ["vllm-omni-broken", "sglang-omni-broken", "vllm-omni-never"])
def test_an_engine_that_fails_in_raw_audio_cuts_it_off(name: str) -> None:
    """Status 200 stands already, and no byte is left that could tell why."""
    client = heard(name.rpartition("-")[0], [answer(name), b""], 24_000)
    assert client.samples == (b"" if name.endswith("never") else RAMP[:PIECE_BYTES])
    assert not client.done
    assert client.failure is not None
    assert client.failure.kind == "truncated"


@pytest.mark.parametrize("name", ["vllm-omni-sse-broken", "sglang-omni-sse-broken"])
def test_an_engine_that_fails_among_events_says_so(name: str) -> None:
    protocol = {"vllm-omni-sse-broken": "vllm-omni-sse", "sglang-omni-sse-broken": "sglang-omni"}[name]
    for pieces in cuts(answer(name))[::2]:
        client = heard(protocol, pieces, 24_000)
        assert client.samples == RAMP[:PIECE_BYTES]
        assert client.failure is not None
        assert (client.failure.kind, str(client.failure)) == ("in_stream", BROKE)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("vllm-omni-no-model", "not_found", "The model `nope` does not exist."),
        ("vllm-omni-no-voice", "protocol", "Invalid voice 'zoe'. Supported: ryan, vivian"),
        ("sglang-omni-no-voice", "protocol", "Unknown voice 'zoe'. Supported voices: default, Vivian, Ryan"),
        ("sglang-omni-failed", "server_error", "stand-in: generation failed"),
        ("sglang-omni-full", "overloaded", "The request queue is full."),
    ],
)
def test_what_is_refused(name: str, kind: str, said: str) -> None:
    client = Http1Client()
    client.request("POST", "x", "/", {}, b"")
    head, *_ = client.feed(answer(name))
    assert isinstance(head, Head)
    assert status_kind(head.status) == kind
    assert error_text(json_object(answer(name).partition(b"\r\n\r\n")[2], "refusal")) == said


class Talked:
    """What is made of a session's messages."""

    def __init__(self, name: str, rate_hz: int | None = None) -> None:
        server = SERVERS["-".join(name.split("-")[:3])]
        decoder = SpeechSocketDecoder(
            rate_hz=rate_hz, sample_format=server.sample_format, nominal=server.rate_from is not None
        )
        self.sizes: list[int] = []
        self.samples = b""
        self.ended: Finished | ServiceError | None = None
        for line in (CAPTURED / f"{name}.jsonl").read_text().splitlines():
            message = json.loads(line)
            if "closed" in message:
                continue
            data = message["text"] if "text" in message else base64.b64decode(message["base64"])
            for event in decoder.feed(data):
                if isinstance(event, Audio):
                    self.sizes.append(len(event.data))
                    self.samples += event.data
                else:
                    self.ended = event
        self.rate_hz = decoder.rate_hz


def test_a_session_of_two_sentences() -> None:
    """vLLM-Omni tells 24 kHz of a model at 44.1 kHz, SGLang-Omni the truth."""
    for name, given_hz, rate_hz in (
        ("vllm-omni-socket", 44_100, 44_100),
        ("vllm-omni-socket", None, 24_000),
        ("sglang-omni-socket", None, 44_100),
        ("sglang-omni-socket", 24_000, 44_100),
    ):
        session = Talked(name, given_hz)
        assert session.samples == RAMP * 2
        assert session.sizes == [PIECE_BYTES] * 6
        assert isinstance(session.ended, Finished)
        assert session.rate_hz == rate_hz


@pytest.mark.parametrize(
    ("name", "said", "samples"),
    [
        (
            "vllm-omni-socket-broken",
            f"Generation failed for utterance 0, sentence 0: {BROKE}",
            RAMP[:PIECE_BYTES],
        ),
        (
            "vllm-omni-socket-no-voice",
            "Generation failed for utterance 0, sentence 0: Invalid voice 'zoe'. Supported: ryan, vivian",
            b"",
        ),
        ("sglang-omni-socket-broken", BROKE, RAMP[:PIECE_BYTES]),
        ("sglang-omni-socket-no-voice", "Unknown voice 'zoe'. Supported voices: default, Vivian, Ryan", b""),
    ],
)
def test_a_session_that_fails(name: str, said: str, samples: bytes) -> None:
    session = Talked(name)
    assert isinstance(session.ended, ServiceError)
    assert (session.ended.kind, str(session.ended)) == ("in_stream", said)
    assert session.samples == samples


def test_a_client_never_has_more_than_16_messages_waiting() -> None:
    """SGLang-Omni hangs up on one that has, while it speaks the first sentence."""
    for words in (1, 11, 12, 13, 24, 25, 500):
        text = "One. " + "word " * words
        said = [json.loads(message) for message in session_messages(text, {})]
        assert len(said) <= 14
        assert "".join(message["text"] for message in said[1:-1]) == text


def test_a_rate_in_the_audio_itself_is_no_nominal_one() -> None:
    decoder = SpeechSocketDecoder(rate_hz=None, sample_format=None, nominal=True)
    start = json.dumps({"type": "audio.start", "sample_rate": 24_000})
    piece = base64.b64encode(struct.pack("<4h", 1, 2, 3, 4)).decode()
    chunk = json.dumps({"type": "audio.chunk", "sample_rate": 44_100, "audio_b64": piece})
    events = [event for message in (start, chunk) * 2 for event in decoder.feed(message)]
    assert [event.samples for event in events if isinstance(event, Audio)] == [4, 4]
    assert decoder.rate_hz == 44_100
