"""What `cotenant doctor` prints holds no key of an address or of a `--set`; what it writes does."""

import json
from pathlib import Path

import pytest

from cotenant.cli.app import make_app
from cotenant.scenario.load import load
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.conductor.attached import voice, write
from tests.conductor.test_try_services import beside

KEY = "n0body-knows/it-0123"  # of no known form


def doctor(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", *arguments], prog_name="cotenant")
    return int(ended.value.code or 0)


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("status", [200, 403])
def test_a_key_in_an_address_is_written_and_not_printed(
    status: int,
    as_json: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TTS_KEY", KEY)
    path = tmp_path / "mine.yaml"
    urls = []

    def answer(served: Served) -> Script:
        said = f"no {KEY} at {served.path}".encode()
        return voice()(served) if status == 200 else Script(status=status, pieces=[(0, said)])

    def ask(url: str) -> int:
        urls.append(f"{url}/speech/{KEY}")
        return doctor(["--tts", urls[0], "--tts-key-env", "TTS_KEY", "--write", str(path), *as_json])

    code = beside(truth_server, answer, then=ask)
    out, err = capsys.readouterr()
    assert KEY not in out + err
    assert code == (0 if status == 200 else 5)
    if as_json:
        (service,) = json.loads(out)["services"]
        assert service["url"] == urls[0].replace(KEY, "(hidden)")
    if status == 200:
        assert load(str(path)).tenants["tts"].url == urls[0]
    else:
        assert "***" in err
        assert not path.exists()


def test_the_command_that_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTS_KEY", KEY)
    values = {
        "url": f"/speech/{KEY}", "api_key_env": "TTS_KEY", "extra.api_key": "SECRETvalue123",
        "extra.more": '{"Authorization": "Bearer other1234"}', "voice": "sk-0123456789abcdefXYZ",
    }  # fmt: skip

    def ask(url: str) -> int:
        sets = [f"tenants.tts.{key}={url if key == 'url' else ''}{value}" for key, value in values.items()]
        path = write(tmp_path, tts={"url": url})
        return doctor([path, "--json", *(part for text in sets for part in ("--set", text))])

    assert beside(truth_server, voice(), then=ask) == 0
    out, err = capsys.readouterr()
    assert "--set tenants.tts.api_key_env=TTS_KEY" in err
    assert "/speech/***' --set" in err
    for key in ("extra.api_key", "extra.more", "voice"):
        assert f"--set 'tenants.tts.{key}=***'" in err
    for secret in (KEY, "SECRETvalue123", "other1234", "sk-0123"):
        assert secret not in out + err
