"""Which names, forms and values are secrets, and that the rest of a scenario stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import UserError
from cotenant.run_dir.hide_in_logs import hide_in_logs
from cotenant.scenario.hidden import HIDDEN, Secrets, by_form, hide_query, hide_secrets, is_secret, values_in
from cotenant.scenario.parse import dump, parse, public_dump, secrets_of

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
        ("at http://h/x?a=1&access_token=abc#t", f"at http://h/x?a=1&access_token={HIDDEN}#t"),
        ("at http://h/x?api%5Fkey=abc", f"at http://h/x?api%5Fkey={HIDDEN}"),
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


def test_a_value_is_hidden_in_all_its_writings() -> None:
    secrets = Secrets.of([KEY])
    for written in (KEY, "s3cr%2Ft%2B0123456789", "czNjci90KzAxMjM0NTY3ODk="):
        assert secrets.text(f"x{written}y") == f"x{HIDDEN}y"
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
        {"api_key": "s3cr3t"}, {"api_key_env": "sk-s3cr3t"}, {"headers": {"Authorization": "s3cr3t"}},
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
