"""Which names, forms and values are secrets, and that the rest of a scenario stays as it was."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cotenant.errors import UserError
from cotenant.load.stored_text import storable
from cotenant.run_dir.hide_in_logs import hide_in_logs
from cotenant.scenario.hidden import Secrets, hide_options, hide_query, hide_secrets, values_in
from cotenant.scenario.parse import dump, parse, public_dump, secrets_of
from cotenant.secret_forms import HIDDEN, by_form, is_secret

KEY = "s3cr/t+0123456789"


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "X-API-Key", "key", "token", "access_token", "HF_TOKEN", "authToken",
     "Authorization", "password", "DB_PASS", "PGPASSWORD", "passphrase", "pwd", "client_secret",
     "credentials", "bearer",
     "Cookie", "X-Amz-Signature", "sig", "jwt", "psk", "private_key"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert hide_secrets({"deep": [{name: KEY}]}) == {"deep": [{name: HIDDEN}]}
    assert hide_query(f"http://h/p?a=1&{name}={KEY}&b=2") == f"http://h/p?a=1&{name}={HIDDEN}&b=2"
    assert values_in({"deep": [{name: [KEY]}]}) == [KEY]


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "tokens", "tokenizer", "skip_tokenizer_init", "TOKENIZERS_PARALLELISM", "pass_config",
     "passes", "voice", "seed", "model", "signal", "design", "temperature", "OMP_NUM_THREADS", "type"],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name)
    assert hide_secrets({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("with sk-proj-0123456789abcdef in it", f"with {HIDDEN} in it"),
        ("hf_0123456789abcdefXYZ", HIDDEN),
        ("ghp_0123456789abcdefABCDEF", HIDDEN),
        ("AKIA0123456789ABCDEF", HIDDEN),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-_9", HIDDEN),
        ("Authorization: Bearer abc.def/123==", f"Authorization: Bearer {HIDDEN}"),
        ("basic dXNlcjpwYXNzd29yZA==", f"basic {HIDDEN}"),
        ("see http://me:word@host/x and ws://tok@h", f"see http://{HIDDEN}@host/x and ws://{HIDDEN}@h"),
        ("at http://h/x?a=1&access_token=abc#t", f"at http://h/x?a=1&access_token={HIDDEN}"),
        ("at http://h/x?api%5Fkey=abc", f"at http://h/x?api%5Fkey={HIDDEN}"),
        ("login with password=hunter22 failed", f"login with password={HIDDEN} failed"),
        ("{'error': {'token': 'hunter22'}}", f"{{'error': {{'token': '{HIDDEN}'}}}}"),
        (
            '{"said": "{\\"client_secret\\": \\"hunter22\\"}"}',
            f'{{"said": "{{\\"client_secret\\": \\"{HIDDEN}\\"}}"}}',
        ),
        ("sent X-Api-Key: hunter22, Cookie: a=hunter22", f"sent X-Api-Key: {HIDDEN}, Cookie: {HIDDEN}"),
        (
            "302 to https://h/cb?token=abc&x=Bearer%20abc123456",
            f"302 to https://h/cb?token={HIDDEN}&x=Bearer%20{HIDDEN}",
        ),
        ("with sk-proj-01234\x1b[0m56789\0abcdef in it", f"with {HIDDEN} in it"),
        ("\u00fcber sk-proj-0123456789abcdef \u4e2d", f"\u00fcber {HIDDEN} \u4e2d"),
        (
            "eos_token_id=151645, token: expected, max_tokens=4096",
            "eos_token_id=151645, token: expected, max_tokens=4096",
        ),
        (
            "KeyError: 'prompt_embeds', keys=['abcd'], password=None",
            "KeyError: 'prompt_embeds', keys=['abcd'], password=None",
        ),
        ("sk-8 tasks at a time, mail me@host", "sk-8 tasks at a time, mail me@host"),
        ("a bearer of certificates, basic understanding", "a bearer of certificates, basic understanding"),
    ],
)
def test_forms_of_secrets(text: str, shown: str) -> None:
    assert by_form(text) == shown
    assert by_form(shown) == shown


def test_headers_show_only_what_is_no_secret() -> None:
    headers = {"X-Anything": KEY, "Accept": "audio/pcm", "content-type": "application/json"}
    shown = {**headers, "X-Anything": HIDDEN}
    assert hide_secrets({"extra_headers": headers}) == {"extra_headers": shown}
    assert hide_secrets({"headers": [f"X-Anything: {KEY}"]}) == {"headers": HIDDEN}
    assert hide_secrets({"wav_header": True, "header_bytes": 44}) == {"wav_header": True, "header_bytes": 44}
    assert values_in({"extra_headers": headers}) == [KEY]


URL_SAFE = "?>?>s3cr/t+0123456789"  # whose base64 has both of the characters that URLs cannot have
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: key,
    "in a URL": lambda key: quote(key, safe=""),
    "in a URL, lower": lambda key: re.sub("%..", lambda found: found[0].lower(), quote(key, safe="")),
    "in a URL, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "base64 without an end": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "a slash that is escaped": lambda key: key.replace("/", "\\/"),
    "a slash that is escaped twice": lambda key: json.dumps(key.replace("/", "\\/"))[1:-1],
    "JSON in numbers": lambda key: "".join(f"\\u{ord(c):04x}" if c in "/+?>" else c for c in key),
    "Python in numbers": lambda key: "".join(f"\\x{ord(c):02x}" if c in "/+?>" else c for c in key),
    "HTML": lambda key: key.replace("/", "&#x2F;").replace("+", "&#43;").replace(">", "&gt;"),
    "with a colour": lambda key: f"{key[:8]}\x1b[1;31m{key[8:]}",
    "with a NUL": lambda key: f"{key[:8]}\0{key[8:]}",
    "with a colour in JSON": lambda key: f"{key[:8]}\\u001b[0m{key[8:]}",
}


@pytest.mark.parametrize("key", [KEY, URL_SAFE, "p\u00e4ss/w\u00f6rd \u4e2d", 'quo"te\\back/slash'])
@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_hidden_in_all_its_writings(way: str, key: str) -> None:
    written, secrets = WAYS[way](key), Secrets.of([key])
    assert secrets.text(f"x{written}y \u00e9") == f"x{HIDDEN}y \u00e9"
    log = f"x{written}y \u00e9\n".encode().decode("latin-1")
    length = len(written.encode())
    assert secrets.mask(log).encode("latin-1").decode() == f"x{'*' * length}y \u00e9\n"
    # What a service says is stored without it too.
    assert storable(f"x{written}y", (key,)).rstrip("y") == "x***"


@pytest.mark.parametrize("user", ["", "u", "us", "use"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_is_hidden_in_the_base64_of_more(user: str, encode: Callable[[bytes], bytes]) -> None:
    written = encode(f"{user}:{URL_SAFE}@".encode()).decode()
    shown = Secrets.of([URL_SAFE]).text(f"Basic: {written}")
    assert HIDDEN in shown
    # At most the bits that it shares with its neighbours stay.
    assert all(written[i : i + 8] not in shown.partition(HIDDEN)[2] for i in range(len(written) - 7))
    assert len(shown) < len(f"Basic: {user}:") + len(HIDDEN) + 9


@pytest.mark.parametrize(
    "command",
    [
        ["--hf-token", "uniq-0123456789"], ["--hf-token=uniq-0123456789"],
        ["--password", "uniq horse battery"],
        ["--password=uniq horse battery"], ["--header=X-Foo: uniq-0123456789"],
        ["--header", "X-Foo: uniq-0123456789"], ["-kuniq-0123456789"],
        ["sh", "-c", "a --token uniq-0123456789"],
        ["--header", "Authorization: Bearer uniq-0123456789"], ["--url=http://me:uniq-0123456789@h"],
    ],
    ids=str,
)  # fmt: skip
def test_a_value_in_a_command_is_hidden_wherever_else_it_stands(command: list[str]) -> None:
    told = {
        **scenario(engine="launch", command=["serve", *command, "--max-model-len", "8091"]),
        "about": "of serve",
    }
    found = parse(told)
    public = public_dump(found, secrets := secrets_of(found, {}))
    assert "uniq" not in str(public)
    assert public["tenants"]["keynote"]["command"][-1] == "8091"
    assert secrets.text("--max-model-len") == "--max-model-len"
    assert public["about"] == "of serve"
    value = "uniq horse battery" if "horse" in str(command) else "uniq-0123456789"
    assert secrets.text(f"serve said {value}, at X-Foo --port 8091") == (
        f"serve said {HIDDEN}, at X-Foo --port 8091"
    )


def test_values_are_hidden_within_plain_data() -> None:
    secrets = Secrets.of([KEY])
    assert secrets.within({KEY: [1, KEY, None]}) == {KEY: [1, HIDDEN, None]}
    # The longer one first, or its rest would stay.
    assert Secrets.of(["01234567", "0123456789"]).text("0123456789") == HIDDEN


def test_a_value_that_is_short_is_hidden_by_its_name_alone() -> None:
    assert Secrets.of(["auto", "EMPTY", "", "       a"]).values == ()


def scenario(**tenant: Any) -> dict[str, Any]:
    return {
        "name": "x",
        "tenants": {"keynote": {"kind": "speech", "engine": "attach", "url": "http://127.0.0.1:1", **tenant}},
        "load": {"voices": {"tenant": "keynote", "kind": "voices", "listeners": 1, "every": "1s"}},
        "stages": [{"name": "alone", "load": ["voices"], "baseline": True}],
    }


def test_the_value_of_a_named_variable_is_hidden_wherever_it_stands() -> None:
    told = scenario(api_key_env="THE_KEY", voice=f"of {KEY}", extra={"note": KEY, "n": 3})
    told["about"] = f"with {KEY}"
    told["load"]["voices"]["text"] = [f"Say {KEY}.", "Say it."]
    found = parse(told)
    public = public_dump(found, secrets_of(found, {"THE_KEY": KEY, "OTHER": "Say it."}))
    assert KEY not in str(public)
    tenant = public["tenants"]["keynote"]
    assert (tenant["voice"], tenant["extra"]) == (f"of {HIDDEN}", {"note": HIDDEN, "n": 3})
    assert tenant["api_key_env"] == "THE_KEY"
    assert public["load"]["voices"]["text"] == [f"Say {HIDDEN}.", "Say it."]
    assert parse(public).tenants.keys() == {"keynote"}


def test_a_scenario_without_secrets_is_recorded_as_it_is() -> None:
    found = parse(scenario(extra={"max_tokens": 5, "voices": ["a", "b"]}, voice="tokyo", model="org/name"))
    secrets = secrets_of(found, {"HOME": "/root"})
    assert secrets.values == ()
    assert public_dump(found, secrets) == dump(found)


@pytest.mark.parametrize(
    "url",
    ["http://me:s3cr3t@127.0.0.1:1", "http://s3cr3t@127.0.0.1:1", "ftp://me:s3cr3t@127.0.0.1:1",
     "http://s3cr3t@h:99999999", "http://me:s3cr3t@h/ x", "http://me:s3cr3t@", "ftp://h/?api_key=s3cr3t"],
)  # fmt: skip
def test_an_address_with_a_user_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UserError, match="url") as refused:
        parse(scenario(url=url))
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "s3cr3t"}, {"api_key_env": "sk-s3cr3t"}, {"api_key_env": "hf_s3cr3t0123456789ABC"},
        {"api_key_env": "as3cr3t0123456789abcdef"}, {"headers": {"Authorization": "s3cr3t"}},
        {"extra": "token=s3cr3t"}, {"extra": ["s3cr3t"]}, {"env": ["TOKEN=s3cr3t"]},
        {"env": {"A-B": "s3cr3t"}},
        {"ready": {"path": "health?token=s3cr3t"}}, {"ready": {"token": "s3cr3t"}}, {"voice": ["s3cr3t"]},
        {"frames": {"token": "s3cr3t"}}, {"frames": {"start": "token s3cr3t"}}, {"url": "me:s3cr3t@host"},
        {"url": "http://h/?token=s3cr3t x"}, {"url": "127.0.0.1/?token=s3cr3t"},
        {"command": "serve --api-key s3cr3t"}, {"engine": "launch", "command": ["a", "--api-key=s3cr3t", 5]},
        {"kind": "completions", "vllm": {"extra_args": "--api-key s3cr3t"}},
        {"kind": "completions", "engine": "launch", "vllm": {"extra_args": ["--model", "--uds=s3cr3t"]}},
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_told_without_what_may_be_a_secret(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"tenants\.keynote") as told:
        parse(scenario(**wrong))
    assert "s3cr3t" not in str(told.value)


def test_logs_keep_their_length(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    text = f"start {KEY}\nüber {KEY}{KEY}\nno end: sk-0123456789abcdef Bearer 0123456789".encode()
    for path in (tmp_path / "a.log", tmp_path / "own" / "b.log", tmp_path / "c.txt"):
        path.write_bytes(text)
    (tmp_path / "d.log").write_bytes(b"\xff\0 nothing here\n")
    changed = hide_in_logs(tmp_path, Secrets.of([KEY]).mask)
    assert changed == [tmp_path / "a.log", tmp_path / "own" / "b.log"]
    stars = "*" * len(KEY)
    shown = f"start {stars}\nüber {stars}{stars}\nno end: {'*' * 19} Bearer {'*' * 10}".encode()
    assert (tmp_path / "a.log").read_bytes() == shown
    assert (tmp_path / "c.txt").read_bytes() == text
    assert hide_in_logs(tmp_path, Secrets.of([KEY]).mask) == []


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        # A folder may be called anything; the program's own name is needed to see what was started.
        (["/opt/tmp.bKEY/bin/python3", "-m", "serve"], ["/opt/tmp.bKEY/bin/python3", "-m", "serve"]),
        (["~/authors/tts", "./keys/run"], ["~/authors/tts", "./keys/run"]),
        # What a name announces is hidden, a path too, and what more than a path says.
        (["--api-key", "/a/path"], ["--api-key", HIDDEN]),
        (["/x/serve --api-key abcdefgh"], [HIDDEN]),
        (["/v1?key=abcdefgh"], [HIDDEN]),
        (["/sk-0123456789abcdef0123"], [HIDDEN]),
    ],
)
def test_a_path_is_no_name_of_a_secret(command: list[str], shown: list[str]) -> None:
    assert hide_options(command) == shown
