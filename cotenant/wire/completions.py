"""OpenAI `/v1/completions`: the request, and the token events of its streamed answer."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.errors import ServiceError
from cotenant.units import NS_PER_MS
from cotenant.wire.http1 import Body, Head
from cotenant.wire.speech import Finished, error_text, parse_content_type
from cotenant.wire.sse import SseDecoder, SseEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """New tokens of one chunk (0 for one that only tells why the answer ended)."""

    tokens: int
    shared_read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The server's own counts; the last one holds.

    `queue_ns` and `first_token_ns` (from scheduled to the first token) are the server's own times of this
    request, which vLLM adds to its last usage with --enable-per-request-metrics.
    """

    prompt_tokens: int
    output_tokens: int
    queue_ns: int | None = None
    first_token_ns: int | None = None


CompletionEvent = Tokens | Usage | Finished | ServiceError


def completion_request(
    *, model: str | None, prompt: Sequence[int], max_tokens: int, extra: Mapping[str, Any]
) -> bytes:
    """The JSON body of a streamed request of token ids for exactly `max_tokens`; fields of `extra` win."""
    body: dict[str, Any] = {
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if model is not None:
        body["model"] = model
    return json.dumps({**body, "prompt": list(prompt), **extra}, separators=(",", ":")).encode()


class CompletionDecoder:
    """Events of one streamed completion.

    A chunk with non-empty `choices` is a token event even if its text is empty (partial UTF-8, a server
    without a tokenizer). It holds as many tokens as the running usage grew by, without one as many as it has
    token ids, else 1. Raises ServiceError("protocol") for an answer that is no event stream.
    """

    def __init__(self, head: Head) -> None:
        content_type, _ = parse_content_type(head.headers.get("content-type", ""))
        if content_type != "text/event-stream":
            raise ServiceError(
                "protocol", f"the answer is {content_type or 'of no type'}, not text/event-stream"
            )
        self._sse = SseDecoder()
        self._counted = 0
        self._dead = False

    def feed(self, body: Body) -> list[CompletionEvent]:
        """The events that are complete with this piece; after Finished or a ServiceError there are none."""
        events: list[CompletionEvent] = []
        if self._dead:
            return events
        try:
            for event in self._sse.feed(body.data):
                events += self._chunk(event, body.after_bytes)
                if self._dead:
                    break
        except ServiceError as error:
            self._dead = True
            events.append(error)
        return events

    def _chunk(self, event: SseEvent, rest_bytes: int) -> list[CompletionEvent]:
        if event.data.strip() == b"[DONE]":
            self._dead = True
            return [Finished()]
        try:
            value: Any = json.loads(event.data)
            if value.get("error") or value.get("object") == "error" or event.name == "error":
                raise ServiceError("in_stream", error_text(value))
            choices, usage = value.get("choices"), value.get("usage")
            events: list[CompletionEvent] = []
            if usage:
                prompt, output = (
                    int(usage.get("prompt_tokens") or 0),
                    int(usage.get("completion_tokens") or 0),
                )
                times = value.get("metrics")
                events.append(
                    Usage(
                        prompt_tokens=prompt,
                        output_tokens=output,
                        queue_ns=_time_ns(times, "queue_time_ms"),
                        first_token_ns=_time_ns(times, "time_to_first_token_ms"),
                    )
                )
            if choices:
                tokens = max(0, output - self._counted) if usage else _without_usage(choices[0])
                self._counted += tokens
                events.append(Tokens(tokens=tokens, shared_read=event.after_bytes + rest_bytes > 0))
            return events
        except (ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
            raise ServiceError("protocol", f"an event that is no completion chunk: {error}") from None


def _time_ns(times: Any, key: str) -> int | None:
    """A time that nothing depends on: what is no time is left out."""
    value_ms = times.get(key) if isinstance(times, Mapping) else None
    if not isinstance(value_ms, int | float) or not math.isfinite(value_ms):
        return None
    return round(value_ms * NS_PER_MS)


def _without_usage(choice: Any) -> int:
    ids = choice.get("token_ids")
    return 1 if ids is None else len(ids)
