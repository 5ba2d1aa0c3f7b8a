"""How a `--set path=value` is quoted: the path whole, secrets as stars."""

import pytest

from cotenant.cli.app import make_app
from cotenant.scenario.hidden import Secrets
from cotenant.scenario.set_text import parse_path, shown

VALUE = "SECRETvalue123"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"tenants.tts.extra.api_key={VALUE}", "tenants.tts.extra.api_key=***"),
        ("tenants.tts.extra.api_key=12345", "tenants.tts.extra.api_key=***"),
        (f'tenants.tts.extra={{"Authorization":"Bearer {VALUE}"}}', "tenants.tts.extra=***"),
        (f'tenants.tts.extra={{"Authorization":"Bearer {VALUE}', "tenants.tts.extra=***"),
        (f"tenants.tts.extra.headers.X-Mine={VALUE}", "tenants.tts.extra.headers.X-Mine=***"),
        (f"tenants={{tts: {{extra: {{token: {VALUE}}}}}}}", "tenants=***"),
        ("tenants.tts.voice=sk-abcdefghijklmnop123", "tenants.tts.voice=***"),
        (f"tenants.tts.url=http://me:{VALUE}@h:1", "tenants.tts.url=http://***@h:1"),
        (f"tenants.tts.url=http://h/?api_key={VALUE}&x=1", "tenants.tts.url=http://h/?api_key=***&x=1"),
        (f"tenants.tts.command=[serve, --api-key, {VALUE}]", "tenants.tts.command=***"),
        (f"tenants.llm.vllm.extra_args[0]=--api-key={VALUE}", "tenants.llm.vllm.extra_args[0]=***"),
        (f"tenants.tts.api_key_env={VALUE}!", "tenants.tts.api_key_env=***"),
        (f'tenants.tts.extra["api_key"]={VALUE}', 'tenants.tts.extra["api_key"]=***'),
        (f"tenants.tts.extra.api_key: {VALUE}", "tenants.tts.extra.api_key: ***"),
        (f"tenants.tts.extra.api_key {VALUE}", "tenants.tts.extra.api_key ***"),
    ],
)
def test_a_secret_is_not_quoted(text: str, told: str) -> None:
    assert shown(text) == told


@pytest.mark.parametrize(
    "text",
    ["sharing=mps", "tenants.tts.api_key_env=TTS_KEY", "tenants.keynote.url=http://h:1", "device",
     "load.keynote.listeners=4", "tenants.tts.extra.api_key=null", "load.chat.prompt=512",
     'tenants.tts.command=[vllm, serve, --max-tokens, "3"]', "stages[0].name=alone",
     "tenants.tts={api_key_env: TTS_KEY, url: 'http://h:1'}"],
)  # fmt: skip
def test_all_else_is_quoted_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_a_value_that_is_known_to_be_a_secret() -> None:
    text = f"tenants.tts.url=http://h/p/{VALUE}"
    assert shown(text, Secrets.of([VALUE])) == "tenants.tts.url=http://h/p/***"


def test_a_path() -> None:
    assert parse_path("stages[0].load") == ("stages", 0, "load")
    assert parse_path(".x") is parse_path("a b") is parse_path("") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"tenants.tts.url=http://me:{VALUE}@h:1", "--set tenants.tts.url=http://***@h:1): a password"),
        (f"tenants.tts.api_key={VALUE}", "tenants.tts.api_key (--set tenants.tts.api_key=***): unknown key"),
        (f"tenants.tts.extra.api_key=*{VALUE}", "(--set tenants.tts.extra.api_key=***): the value cannot be"),
        (f"tenants.tts.extra.api_key={{{VALUE}: 1, {VALUE}: 2}}", "api_key=***): the value cannot be read"),
        ("tenants.tts.rate=sk-SECRETvalue123-456789", "(--set tenants.tts.rate=***): '(hidden)' is not"),
        (f'tenants.tts.extra["api_key"]={VALUE}', "***' is not path=value"),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["doctor"], ["run", "--quick"]])
def test_errors_do_not_repeat_it(
    command: list[str], text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()([*command, "tts-alone", "--set", text], prog_name="cotenant")
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert told in err
    assert VALUE not in out + err
