"""What one OpenAI-compatible server accepts: the request's body in its dialect, and what a refusal tells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

COMPLETIONS_PATH: Final = "/v1/completions"
CHAT_PATH: Final = "/v1/chat/completions"
_REFUSED: Final = (400, 422)
_NOT_THERE: Final = (404, 405, 501)
# Servers that break at a list of ids instead of refusing it.
_BROKEN: Final = (500,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The fields that a request may have.

    `ids`: the prompt is a list of token ids, else text (a chat's always is). `usage`: asked for with each
    chunk, with the last one, or not at all.
    """

    chat: bool = False
    ids: bool = True
    usage: Literal["running", "last", "none"] = "running"
    ignore_eos: bool = True
    temperature: bool = True
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    @property
    def path(self) -> str:
        return CHAT_PATH if self.chat else COMPLETIONS_PATH

    def fact(self) -> dict[str, Any]:
        """As a run records it."""
        without = [name for name in ("ignore_eos", "temperature") if not getattr(self, name)]
        return {
            "protocol": "chat" if self.chat else "completions",
            "prompt": "ids" if self.ids else "text",
            "usage": self.usage,
            "limit": self.limit,
            "without": without,
        }


CHAT: Final = Dialect(chat=True, ids=False)


def completion_request(
    *,
    model: str | None,
    prompt: Sequence[int] | str,
    max_tokens: int,
    extra: Mapping[str, Any],
    dialect: Dialect = Dialect(),
) -> bytes:
    """The JSON body of a streamed request for exactly `max_tokens`, as far as the dialect has words for that.

    Fields of `extra` win.
    """
    body: dict[str, Any] = {dialect.limit: max_tokens, "stream": True}
    if dialect.ignore_eos:
        body["ignore_eos"] = True
    if dialect.temperature:
        body["temperature"] = 0.0
    if dialect.usage != "none":
        body["stream_options"] = {"include_usage": True}
    if dialect.usage == "running":
        body["stream_options"]["continuous_usage_stats"] = True
    if model is not None:
        body["model"] = model
    text = prompt if isinstance(prompt, str) else list(prompt)
    asked = {"messages": [{"role": "user", "content": text}]} if dialect.chat else {"prompt": text}
    return json.dumps({**body, **asked, **extra}, separators=(",", ":")).encode()


def relaxed(dialect: Dialect, status: int | None, text: str, *, may_chat: bool) -> Dialect | None:
    """What to try next after a refusal: without the field that its text names, else with text for ids.

    `may_chat`: a server without completions is asked for a chat. None where the refusal is not the dialect's.
    """
    if status in _NOT_THERE:
        return CHAT if may_chat and not dialect.chat else None
    if status in _REFUSED:
        named = _without_named(dialect, text.lower())
        if named is not None:
            return named
    if status in (*_REFUSED, *_BROKEN):
        if dialect.ids:
            return replace(dialect, ids=False)
        if may_chat and not dialect.chat:
            return replace(dialect, chat=True)
    return None


def _without_named(dialect: Dialect, text: str) -> Dialect | None:
    if dialect.limit == "max_tokens" and "max_completion_tokens" in text:
        return replace(dialect, limit="max_completion_tokens")
    if "continuous_usage_stats" in text or "stream_options" in text:
        if dialect.usage == "running":
            return replace(dialect, usage="last")
        if dialect.usage == "last":
            return replace(dialect, usage="none")
    if dialect.ignore_eos and "ignore_eos" in text:
        return replace(dialect, ignore_eos=False)
    if dialect.temperature and "temperature" in text:
        return replace(dialect, temperature=False)
    return None
