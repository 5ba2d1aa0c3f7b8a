"""Token events of a streamed answer of OpenAI's `/v1/completions` and `/v1/chat/completions`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cotenant.errors import ServiceError
from cotenant.units import NS_PER_MS
from cotenant.wire.http1 import Body, Head, refuse_encoded
from cotenant.wire.json_values import COUNT_LIMIT, count, error_text, json_object, short
from cotenant.wire.speech import Finished, parse_content_type
from cotenant.wire.sse import SseDecoder, SseEvent

# Eleven days: a longer time of a request is garbage.
_TIME_LIMIT_MS: Final = 1e9
# Where a chat's delta has what was generated.
_TOKEN_KEYS: Final = (
    "content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls",
    "function_call",
)  # fmt: skip
_BROKEN_OFF: Final = ("error", "abort")


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
# How far an answer got: its reason was told, and after that the usage that stands alone.
Closing = Literal["no", "reason", "usage"]


class CompletionDecoder:
    """Events of one streamed completion or chat.

    A chunk with a text is a token event even if the text is empty (partial UTF-8, a server without a
    tokenizer); in a chat so are reasoning and tool calls, but not who speaks and why it ended. It holds as
    many tokens as the running usage grew by, without one as many as it has token ids, else 1. `ended`: it was
    told why the answer ended, or `[DONE]` came (`said_done`). `closing` says whether the answer is complete
    but for its `[DONE]`; some servers give each chunk a reason, and one after which tokens come is no end.
    Raises ServiceError("protocol") for an answer that is no event stream, or a compressed one. A ServiceError
    among the events carries the byte of the body up to which it had read.
    """

    def __init__(self, head: Head) -> None:
        refuse_encoded(head)
        content_type, _ = parse_content_type(head.headers.get("content-type", ""))
        if content_type != "text/event-stream":
            text = f"the answer is {content_type or 'of no type'}, not text/event-stream"
            raise ServiceError("protocol", text, offset=0)
        self.ended = self.said_done = False
        self.closing: Closing = "no"
        self._reasons_are_ends = True
        self._sse = SseDecoder()
        self._counted = 0
        self._offset = 0  # of the piece's first byte
        self._dead = False

    def feed(self, body: Body) -> list[CompletionEvent]:
        """The events that are complete with this piece; after Finished or a ServiceError there are none."""
        events: list[CompletionEvent] = []
        if self._dead:
            return events
        read_bytes = 0
        try:
            for event in self._sse.feed(body.data):
                read_bytes = len(body.data) - event.after_bytes
                events += self._chunk(event, body.after_bytes)
                if self._dead:
                    break
        except ServiceError as error:
            self._dead, error.offset = True, self._offset + read_bytes
            events.append(error)
        self._offset += len(body.data)
        return events

    def _chunk(self, event: SseEvent, rest_bytes: int) -> list[CompletionEvent]:
        if event.data.strip() == b"[DONE]":
            self._dead = self.ended = self.said_done = True
            return [Finished()]
        value = json_object(event.data, "completion chunk")
        if value.get("error") or value.get("object") == "error" or event.name == "error":
            raise ServiceError("in_stream", error_text(value))
        usage, choice = _usage(value), _choice(value.get("choices"))
        events: list[CompletionEvent] = [] if usage is None else [usage]
        if choice is None:
            if usage is not None and self.closing == "reason":
                self.closing = "usage"
        else:
            reason = choice.get("finish_reason")
            if reason in _BROKEN_OFF:
                raise ServiceError("in_stream", f"the server broke it off (finish_reason {reason})")
            self.ended = self.ended or bool(reason)
            ids = _token_count(choice)
            # Some send a usage with every chunk and fill it in at the end.
            running = usage is not None and usage.output_tokens > 0
            tokens = max(0, usage.output_tokens - self._counted) if usage and running else ids
            self._counted = min(COUNT_LIMIT, self._counted + tokens)
            self._close(bool(reason), tokens)
            events.append(Tokens(tokens=tokens, shared_read=event.after_bytes + rest_bytes > 0))
        return events

    def _close(self, reason: bool, tokens: int) -> None:
        if self.closing != "no" and tokens:
            self._reasons_are_ends, self.closing = False, "no"
        elif reason and self._reasons_are_ends and self.closing == "no":
            self.closing = "reason"


def _usage(chunk: Mapping[str, Any]) -> Usage | None:
    usage, times = chunk.get("usage"), chunk.get("metrics")
    if not usage:
        return None
    if not isinstance(usage, dict):
        raise ServiceError("protocol", f"no completion chunk: its usage is {short(usage)}")
    return Usage(
        prompt_tokens=count(usage.get("prompt_tokens"), "prompt_tokens"),
        output_tokens=count(usage.get("completion_tokens"), "completion_tokens"),
        queue_ns=_time_ns(times, "queue_time_ms"),
        first_token_ns=_time_ns(times, "time_to_first_token_ms"),
    )


def _time_ns(times: Any, key: str) -> int | None:
    """A time that nothing depends on: what is no time is left out."""
    value_ms = times.get(key) if isinstance(times, Mapping) else None
    if not isinstance(value_ms, int | float) or not 0 <= value_ms <= _TIME_LIMIT_MS:
        return None
    return round(value_ms * NS_PER_MS)


def _choice(choices: Any) -> Mapping[str, Any] | None:
    """The first choice, None without one."""
    if not choices:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise ServiceError("protocol", f"no completion chunk: its choices are {short(choices)}")
    choice: Mapping[str, Any] = choices[0]
    return choice


def _token_count(choice: Mapping[str, Any]) -> int:
    """How many tokens a choice holds, as far as it alone tells."""
    ids = choice.get("token_ids")
    if ids is not None:
        if not isinstance(ids, list):
            raise ServiceError("protocol", f"no completion chunk: its token_ids are {short(ids)}")
        return len(ids)
    delta = choice.get("delta")
    if delta is None:
        return int(choice.get("text") is not None)
    if not isinstance(delta, dict):
        raise ServiceError("protocol", f"no completion chunk: its delta is {short(delta)}")
    if "role" in delta and not any(delta.get(key) for key in _TOKEN_KEYS):
        return 0
    # An empty text is a token too, an empty list of calls is none.
    return int(any(delta.get(key) not in (None, [], {}) for key in _TOKEN_KEYS))
