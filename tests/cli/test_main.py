"""The command line as a process: exit codes, streams, colour, and what it imports before it must."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cotenant import __version__
from cotenant.cli.guard import guard
from cotenant.errors import CouldNotRun, ExitCode, UserError

ROOT = Path(__file__).resolve().parent.parent.parent
HEAVY = ("aiohttp", "numpy", "pandas", "pyarrow", "pydantic", "plotly", "soundfile", "torch", "yaml")


def cotenant(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cotenant.cli.main", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_version_is_on_stdout() -> None:
    ended = cotenant("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"cotenant {__version__}\n", "")


def test_the_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom cotenant.cli.app import make_app\n"
        "try:\n    make_app()(['--help'], prog_name='cotenant')\nexcept SystemExit as ended:\n"
        f"    print(ended.code, [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    "env", [{"GITHUB_ACTIONS": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"PY_COLORS": "1"}]
)
def test_no_colour_where_nobody_sees_it(env: dict[str, str]) -> None:
    helped, mistaken = cotenant("run", "--help", env=env), cotenant("run", env=env)
    assert (helped.returncode, mistaken.returncode) == (0, 2)
    assert "\x1b" not in helped.stdout + helped.stderr + mistaken.stdout + mistaken.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["gate"],
        ["run", "x", "--start", "late"],
        ["serve", "video"],
        ["list", "more"],
        ["run", "x", "--mqtt", "u"],
    ],
)
def test_a_mistake_in_the_command_is_2(arguments: list[str]) -> None:
    ended = cotenant(*arguments)
    assert ended.returncode == ExitCode.USAGE
    assert ended.stdout == ""
    assert ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "all-togther"], "did you mean 'all-together'?"),
        (["run", "gone.yaml"], "gone.yaml is not there"),
        (
            ["run", "tts-alone", "--lookahead", "400"],
            "--lookahead: '400' is not a duration; write a number and a unit",
        ),
        (
            ["run", "tts-alone", "--gate", "voise"],
            "gate[0] (--set gate=[\"voise\"]): there is no gate profile 'voise'",
        ),
        (["run", "tts-alone", "--set", "stages[0].load[0]=x"], "there is no load 'x'"),
        (["gate", "nowhere"], "nowhere"),
        (["gate", "nowhere", "--quantum", "x"], "--quantum: 'x' is not a duration"),
    ],
)
def test_a_wrong_scenario_or_run_is_2_and_says_why(arguments: list[str], told: str, tmp_path: Path) -> None:
    ended = cotenant(*arguments, cwd=tmp_path)
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    assert told in ended.stderr
    assert ended.stderr.startswith("cotenant: ")
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_list_names_what_there_is_from_any_folder(tmp_path: Path) -> None:
    ended = cotenant("list", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for word in ("all-together", "The ladder of five stages", "tiny", "openai", "voice", "face"):
        assert word in ended.stdout


def raises(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (UserError("write it so"), 2, "cotenant: write it so\n"),
        (CouldNotRun("the port is taken"), 5, "cotenant: the port is taken\n"),
        (KeyboardInterrupt(), 130, "cotenant: interrupted\n"),
        (
            RuntimeError("oops"),
            70,
            "cotenant: a fault of cotenant's own, RuntimeError: oops (COTENANT_DEBUG=1 shows where)\n",
        ),
    ],
)
def test_every_error_has_its_code_and_one_sentence(
    error: BaseException,
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COTENANT_DEBUG", raising=False)
    assert guard(raises(error)) == code
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", told)


def test_debug_shows_where_a_fault_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTENANT_DEBUG", "1")
    assert guard(raises(RuntimeError("oops"))) == ExitCode.OUR_FAULT
    assert "Traceback" in capsys.readouterr().err


def test_what_an_action_returns_is_the_code() -> None:
    assert guard(lambda: 3) == 3


def in_shell(line: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`cotenant` stands for the command; the code is that of the first command of a pipe."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = f'cotenant() {{ {sys.executable} -m cotenant.cli.main "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", words], env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_an_error_that_cannot_be_told_keeps_its_code(where: str) -> None:
    ended = in_shell(f"cotenant gate nowhere {where}")
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cotenant list >/dev/full", 5),
        ("cotenant list >&-", 5),
        ("cotenant --help >/dev/full", 5),
        ("cotenant --version >&-", 5),
        ("cotenant list >/dev/full 2>&1", 5),
        ("cotenant list | true", 141),
        ("cotenant --help | true", 141),
    ],
)
def test_what_was_asked_for_and_not_written_is_no_success(line: str, code: int) -> None:
    ended = in_shell(line)
    assert ended.returncode == code
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert ("cannot write to the standard output" in ended.stderr) == (code == 5 and "2>" not in line)


def test_a_closed_standard_input_is_2() -> None:
    ended = in_shell("cotenant simulate - <&-")
    assert ended.returncode == ExitCode.USAGE
    assert "the standard input" in ended.stderr


def test_control_characters_of_the_users_text_do_not_reach_the_terminal() -> None:
    ended = in_shell("cotenant gate $'a\\e]0;x\\a\\u202eb'")
    assert ended.returncode == ExitCode.USAGE
    assert "cotenant: a?]0;x??b: no such folder" in ended.stderr


def test_an_interrupted_import_is_130() -> None:
    code = (
        "import os, signal, sys, time\nfrom cotenant.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupter:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT); time.sleep(30)\n"
        "sys.meta_path.insert(0, Interrupter())\nmain.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.splitlines()[-1] == "cotenant: interrupted"
    assert "Traceback" not in ended.stderr
