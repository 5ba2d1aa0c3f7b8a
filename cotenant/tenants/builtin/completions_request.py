"""The body of a completions or chat request, checked: pure, no I/O."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the engine takes it; `continuous_usage` holds only with `include_usage`, as in vLLM."""

    prompt: list[int]
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    temperature: float
    stream: bool
    include_usage: bool
    continuous_usage: bool
    model: str | None


def parse(body: Mapping[str, Any], *, vocabulary: int, context: int, chat: bool = False) -> Asked:
    """Checks a body; fields that this server does not know are let pass, as vLLM does.

    A chat's messages are one prompt, each with a token for who speaks.

    Raises ValueError with a sentence that says what would be right.
    """
    prompt = _chat(body.get("messages"), vocabulary) if chat else _prompt(body.get("prompt"), vocabulary)
    # A chat's newer name of the limit; it wins, as in vLLM.
    newer = chat and body.get("max_completion_tokens") is not None
    max_tokens = _whole(body, "max_completion_tokens" if newer else "max_tokens", 16, least=1)
    if len(prompt) + max_tokens > context:
        raise ValueError(
            f"the prompt has {len(prompt)} tokens and max_tokens is {max_tokens}; "
            f"together they may be at most {context}"
        )
    stream = _flag(body, "stream")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise ValueError("stream_options must be an object")
    if options and not stream:
        raise ValueError("stream_options may stand only with stream: true")
    if body.get("n") not in (None, 1):
        raise ValueError("n must be 1")
    model = body.get("model")
    include_usage = _flag(options, "include_usage")
    return Asked(
        prompt=prompt,
        max_tokens=max_tokens,
        min_tokens=_whole(body, "min_tokens", 0, least=0),
        ignore_eos=_flag(body, "ignore_eos"),
        temperature=_temperature(body.get("temperature")),
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and _flag(options, "continuous_usage_stats"),
        model=model if isinstance(model, str) else None,
    )


def _prompt(prompt: Any, vocabulary: int) -> list[int]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return [
            1 + zlib.crc32(piece.encode()) % (vocabulary - 1)
            for piece in re.findall(r"\s*\S{1,4}|\s+", prompt)
        ]
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        if not all(0 <= token < vocabulary for token in prompt):
            raise ValueError(f"the prompt's token ids must be from 0 to {vocabulary - 1}")
        return prompt
    raise ValueError("prompt must be a text or a list of token ids, one prompt a request and not empty")


def _chat(messages: Any, vocabulary: int) -> list[int]:
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages must be a list of {role, content}, and not empty")
    tokens: list[int] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str) or not isinstance(message.get("role"), str):
            raise ValueError("a message must have a role and a content, both texts")
        tokens += _prompt(f"<{message['role'][:2]}>", vocabulary)
        tokens += _prompt(content, vocabulary) if content else []
    return tokens


def _whole(body: Mapping[str, Any], name: str, default: int, *, least: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return bool(value)


def _temperature(value: Any) -> float:
    if value is None:
        return 1.0
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 2:
        raise ValueError("temperature must be a number from 0 to 2")
    return float(value)
