"""What an LLM server's refusal tells of the requests that it would take."""

import json
from typing import Any

import pytest

from cotenant.wire.dialect import CHAT, Dialect, completion_request, relaxed


def body(dialect: Dialect, prompt: Any = "one two", **extra: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        completion_request(model="m", prompt=prompt, max_tokens=4, extra=extra, dialect=dialect)
    )
    return value


def test_the_whole_request() -> None:
    assert body(Dialect(), [7, 8], priority=1) == {
        "model": "m", "prompt": [7, 8], "max_tokens": 4, "stream": True, "ignore_eos": True,
        "temperature": 0.0, "priority": 1,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip


def test_a_chat_of_few_words() -> None:
    dialect = Dialect(
        chat=True, ids=False, usage="none", ignore_eos=False, temperature=False, limit="max_completion_tokens"
    )
    assert body(dialect) == {
        "model": "m", "messages": [{"role": "user", "content": "one two"}], "max_completion_tokens": 4,
        "stream": True,
    }  # fmt: skip
    assert dialect.path == "/v1/chat/completions"
    assert dialect.fact()["without"] == ["ignore_eos", "temperature"]


def chat(**fields: Any) -> Dialect:
    return Dialect(chat=True, ids=False, **fields)


IDS_422 = (
    '{"error":"Failed to deserialize the JSON body into the target type: prompt: invalid type: sequence, '
    'expected a string at line 1 column 33"}'
)


@pytest.mark.parametrize(
    ("dialect", "status", "text", "then"),
    [
        (Dialect(), 422, IDS_422, Dialect(ids=False)),
        (Dialect(), 500, "Internal Server Error", Dialect(ids=False)),
        (
            Dialect(),
            400,
            "Unrecognized request argument supplied: continuous_usage_stats",
            Dialect(usage="last"),
        ),
        (Dialect(usage="last"), 400, "stream_options is not supported", Dialect(usage="none")),
        (CHAT, 400, "Unrecognized request argument supplied: ignore_eos", chat(ignore_eos=False)),
        (
            CHAT,
            400,
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            chat(limit="max_completion_tokens"),
        ),
        (CHAT, 400, "'temperature' does not support 0.0 with this model", chat(temperature=False)),
        (Dialect(), 404, "Not Found", CHAT),
        (Dialect(), 405, "", CHAT),
        (Dialect(ids=False), 400, "this is a chat model", CHAT),
        (CHAT, 404, "no such model", None),
        (CHAT, 400, "context length exceeded", None),
        (Dialect(), 401, "key", None),
        (Dialect(), 503, "queue full", None),
        (Dialect(), None, "refused", None),
    ],
)  # fmt: skip
def test_refusals(dialect: Dialect, status: int | None, text: str, then: Dialect | None) -> None:
    assert relaxed(dialect, status, text, may_chat=True) == then


def test_what_only_completes_is_not_asked_for_a_chat() -> None:
    assert relaxed(Dialect(), 404, "", may_chat=False) is None
    assert relaxed(Dialect(ids=False), 400, "", may_chat=False) is None


def test_every_server_is_given_up_after_few_questions() -> None:
    text = "stream_options ignore_eos temperature max_completion_tokens"
    dialect: Dialect | None = Dialect()
    asked = 0
    while dialect is not None:
        dialect = relaxed(dialect, 400, text, may_chat=True)
        asked += 1
        assert asked < 9
