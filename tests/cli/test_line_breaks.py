"""A line break in a name or a path begins no line of what is printed: it could pass for cotenant's own."""

from pathlib import Path

import pytest

from cotenant.cli.app import make_app
from cotenant.plain import one_line

BAD = "no\ncotenant: PASS"
KEYS = """
extends: tts-alone
name: mine
tenants: {"tts\\ncotenant: PASS": {kind: speech, "bogus\\ncotenant: PASS": 1}}
load: {"a\\ncotenant: PASS": {kind: voices, tenant: nobody}}
stages: [{name: x, load: [other]}]
"""


def test_one_line() -> None:
    assert one_line("a\nb\r\tc\x1b[1m\u202ed é") == "a\\nb\\r\\tc?[1m?d é"
    assert one_line(Path("runs/x y")) == "runs/x y"


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", f"{BAD}.yaml"],
        ["list", "keys.yaml"],
        ["list", "above.yaml"],
        ["run", "keys.yaml"],
        ["report", BAD],
        ["run", "tts-alone", "--quick", "--out", f"above.yaml/{BAD}"],
        ["gate", BAD],
        ["doctor", "--tts", "http://127.0.0.1:1", "--write", f"{BAD}/x.yaml"],
    ],
)
def test_a_break_begins_no_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys.yaml").write_text(KEYS)
    Path("above.yaml").write_text('extends: "no\\ncotenant: PASS.yaml"\n')
    with pytest.raises(SystemExit) as ended:
        make_app()(arguments, prog_name="cotenant")
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert "\\ncotenant: PASS" in err
    assert "\ncotenant: PASS" not in out + err
