"""What a tenant said last is printed without anything that could act on a terminal."""

from pathlib import Path

import pytest

from cotenant.scenario.hidden import Secrets
from cotenant.tenants.log_tail import clean_line, last_lines, log_tail, shortened


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("plain \u00e9\u4e2d", "plain \u00e9\u4e2d"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset \x1b7saved", "charset saved"),
        ("10%\r50%\r100%\r", "100%"),
        ("tab\there", "tab here"),
        ("bell\x07 null\x00 c1\x9b2J hidden\u202e\u200b", "bell null c12J hidden"),
        ("x" * 1000, "x" * 1000),
        ("cut off \x1b[", "cut off"),
    ],
)
def test_a_line_is_cleaned(line: str, cleaned: str) -> None:
    assert clean_line(line) == cleaned


def test_the_last_lines_of_a_long_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"\xff\xfe\n" + b"line\n\n" * 50_000 + b"last, not ended \xff")
    assert last_lines(log, 3) == ["line", "line", "last, not ended \ufffd"]
    assert last_lines(tmp_path / "none.log") == []


@pytest.mark.parametrize("before", range(260, 304, 3))
def test_a_line_is_cut_when_its_secrets_are_hidden(tmp_path: Path, before: int) -> None:
    secrets = ("Uniq/t+0123456789", "sk-uniq0123456789abcdef")
    for secret in secrets:
        (tmp_path / "tts.log").write_text(f"{'x ' * (before // 2)}{secret[:9]}\x1b[0m{secret[9:]} and more\n")
        told = shortened(Secrets.of(secrets[:1]).text("why" * 200 + log_tail(tmp_path, "tts")))
        assert "niq" not in told
        assert told.startswith("why" * 200)
        assert len(told.splitlines()[-1]) <= 302


@pytest.mark.parametrize("end", ["", "\n", "\nbye\n"])
def test_of_a_line_that_began_before_the_tail_no_half_is_told(tmp_path: Path, end: str) -> None:
    secret = "Uniq/t+0123456789"
    log = tmp_path / "tts.log"
    for length in (1 << 16, 1 << 20):
        log.write_text("A" * 1000 + secret + "B" * (length - len(secret) + 4 - len(end)) + end)
        told = Secrets.of([secret]).text(log_tail(tmp_path, "tts"))
        assert "0123456789" not in told
        assert ("bye" in told) == ("bye" in end)


def test_the_logs_of_all_replicas(tmp_path: Path) -> None:
    assert log_tail(tmp_path, "tts") == ""
    (tmp_path / "tts.log").touch()
    (tmp_path / "tts-other.log").write_text("no\n")
    for n in (0, 1):
        (tmp_path / f"tts@{n}.log").write_text(f"a\nb{n}\n")
    assert log_tail(tmp_path, "tts", 1).splitlines() == [
        "",
        f"tts@0 said last ({tmp_path}/tts@0.log):",
        "  b0",
        f"tts@1 said last ({tmp_path}/tts@1.log):",
        "  b1",
    ]
