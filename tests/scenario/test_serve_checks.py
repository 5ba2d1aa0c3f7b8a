"""A launched `cotenant serve`: its kind and port must be those of the tenant."""

from typing import Any

import pytest

from cotenant.errors import UserError
from cotenant.scenario.load import parse


def scenario(command: list[str], **changes: Any) -> dict[str, Any]:
    tenant = {
        "kind": "speech",
        "engine": "launch",
        "command": command,
        "url": "http://127.0.0.1:8091",
        **changes,
    }
    return {
        "name": "mine",
        "tenants": {"tts": tenant},
        "load": {"voices": {"tenant": "tts", "kind": "voices"}},
        "stages": [{"name": "alone", "load": ["voices"]}],
    }


@pytest.mark.parametrize(
    "command",
    [
        ["cotenant", "serve", "speech", "--from", "mine:say", "--port", "8091"],
        ["/venv/bin/cotenant", "serve", "speech", "--port=8091", "--from=mine:say"],
        ["/venv/bin/python", "-m", "cotenant.tenants.builtin.server", "speech", "--port", "8091"],
        ["/venv/bin/vllm", "serve", "face"],
    ],
)
def test_a_good_one_and_a_foreign_one_are_taken(command: list[str]) -> None:
    assert parse(scenario(command)).tenants["tts"].command == command


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (
            ["cotenant", "serve", "face", "--port", "8091"],
            "it serves face, and this tenant is of kind: speech",
        ),
        (["python", "-m", "cotenant", "serve", "speech"], 'add --port, "8091"'),
        (["cotenant", "serve", "speech", "--port", "0"], 'add --port, "8091"'),
        (["cotenant", "serve", "speech", "--port"], 'add --port, "8091"'),
        (["cotenant", "serve", "speech", "--port", "8092"], "on port 8092, and url says 8091"),
    ],
)
def test_a_contradiction_is_told_before_the_run(command: list[str], part: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(scenario(command))
    assert "tenants.tts.command" in str(raised.value)
    assert part in str(raised.value)


def test_a_generator_in_the_tenant_itself_is_told_where_it_goes() -> None:
    with pytest.raises(UserError) as raised:
        parse(scenario(["cotenant", "serve", "speech", "--port", "8091"], **{"from": "mine:say"}))
    assert 'command: [cotenant, serve, speech, --from, "MODULE:NAME", --port, "8091"]' in str(raised.value)


def test_a_wrong_url_is_told_once() -> None:
    with pytest.raises(UserError) as raised:
        parse(scenario(["cotenant", "serve", "speech"], url="http://127.0.0.1:x"))
    assert "tenants.tts.url" in str(raised.value)
    assert "tenants.tts.command" not in str(raised.value)
