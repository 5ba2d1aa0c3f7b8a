"""`doctor --tts URL --llm URL --face URL`: against the built-in servers, other heads, and what fails."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.cli import doctor as command
from cotenant.cli.app import make_app
from cotenant.conductor.doctor.try_services import Given, Outcome, try_services
from cotenant.errors import UserError
from cotenant.run_dir.reader import read
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.testing.other_heads import OtherHeads, other_heads
from cotenant.testing.truth_server import Script, Served, truth_server
from tests.conductor.harness import free_port
from tests.tenants.built_in import Running, running

KEY = "sk-s3cret-0123456789abcdef"
JSON = {"Content-Type": "application/json"}
PCM = {"Content-Type": "audio/pcm;rate=16000"}


def tried(*given: tuple[str, str], overrides: tuple[str, ...] = (), **more: Any) -> Outcome:
    services = [Given(kind=kind, url=url, **more) for kind, url in given]
    return try_services("all-together", services, ["device=cpu", *overrides], None)


def beside(server: Callable[..., Any], *arguments: Any, then: Callable[[str], Any]) -> Any:
    """Runs `then` in a thread with the address of a server that this one's loop runs."""

    async def main() -> Any:
        async with server(*arguments) as one:
            return await asyncio.to_thread(then, one.url)

    return asyncio.run(asyncio.wait_for(main(), 60))


def only(outcome: Outcome) -> Any:
    (one,) = outcome.tried
    return one


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """The three built-in servers, started at once."""
    kinds = {"tts": "speech", "face": "face", "llm": "completions"}
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        managers = {name: running(kind) for name, kind in kinds.items()}
        waiting = {name: pool.submit(one.__enter__) for name, one in managers.items()}
        for one in managers.values():
            stack.push(one.__exit__)
        found: dict[str, Running] = {name: future.result(60) for name, future in waiting.items()}
        yield {name: one.url for name, one in found.items()}


def options(servers: dict[str, str]) -> list[str]:
    return [part for name, url in servers.items() for part in (f"--{name}", url)]


def cotenant(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cotenant", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
def test_the_built_in_servers_become_a_scenario_that_runs(
    tmp_path: Path, servers: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my-services.yaml"
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", *options(servers), "--write", str(path), "--json"], prog_name="cotenant")
    out, err = capsys.readouterr()
    assert ended.value.code == 0, err
    told = {one["kind"]: one for one in json.loads(out)["services"]}

    speech = told["speech"]["measured"]
    assert (speech["rate_hz"], speech["sample_format"]) == (24_000, "s16")
    # Its packets are of 1 and then 4 frames of 80 ms.
    assert (speech["first_chunk_bytes"], speech["first_chunk_ms"]) == (3_840, 80.0)
    assert speech["chunk_bytes"]["most"] == 15_360
    assert speech["ttfa_ms"] > 0
    assert speech["rtf"] == pytest.approx(speech["took_s"] / speech["audio_s"])
    assert speech["chunks"] > 5
    face = told["face"]["measured"]
    assert face["frames"] > 25
    assert face["media_fps"] == pytest.approx(25)
    llm = told["completions"]
    assert (llm["measured"]["prompt_tokens"], llm["measured"]["output_tokens"]) == (128, 32)
    assert llm["measured"]["form"]["prompt"] == "ids"
    assert llm["context_tokens"] == 8_704

    scenario = load(str(path))
    assert {name: tenant.url for name, tenant in scenario.tenants.items()} == {
        "tts": servers["tts"], "head": servers["face"], "llm": servers["llm"]
    }  # fmt: skip
    assert {tenant.engine for tenant in scenario.tenants.values()} == {"attach"}
    assert scenario.tenants["tts"].rate == 24_000
    assert scenario.tenants["llm"].model == "tiny"
    assert resolve(scenario, "cpu").stages == resolve(load("all-together"), "cpu").stages

    once = ["stages=[{name: a, load: [voices, faces, decode]}]", "load.decode.streams=1",
            "load.voices.listeners=1", "timing.measure=1500ms", "timing.settle=200ms", "timing.solo=0s",
            "observe.gpu=false"]  # fmt: skip
    sets = [part for text in once for part in ("--set", text)]
    ran = cotenant(tmp_path, "run", path.name, *sets, "--json")
    assert ran.returncode in (0, 1, 3, 4), ran.stderr
    (run_dir,) = (tmp_path / "runs").iterdir()
    recording = read(run_dir)
    assert recording.manifest["status"] == "complete"
    assert recording.manifest["scenario"]["tenants"]["tts"]["url"] == servers["tts"]
    streams = recording.tables["streams"].to_pylist()
    assert {row["kind"] for row in streams if row["end"] == "eos"} == {"voices", "faces", "completions"}
    assert {row["end"] for row in streams} <= {"eos", "open"}


def test_an_answer_that_does_not_stream_and_is_slow_is_said() -> None:
    def answer(served: Served) -> Script:
        if "speech" not in served.path:
            return Script(status=404)
        return Script(pieces=[(60_000_000, bytes(3_200)), (400_000_000, bytes(3_200))], headers=PCM)

    one = only(beside(truth_server, answer, then=lambda url: tried(("speech", url))))
    assert one.failed is None
    assert one.settings == {"protocol": "openai", "rate": 16_000, "sample_format": "s16"}
    assert one.measured["chunks"] == 2
    assert one.measured["first_chunk_bytes"] == 3_200
    assert one.measured["ttfa_ms"] >= 59
    assert one.measured["rtf"] > 1.5
    # The second chunk comes 340 ms after the first, which lasts 100 ms.
    assert one.measured["required_lookahead_ms"] >= 200


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("/watch", {"protocol": "mjpeg", "frames": {"audio": {"send": "none"}}}),
        ("/render", {"protocol": "mjpeg"}),
    ],
)
def test_mjpeg_is_recognised(path: str, settings: dict[str, Any]) -> None:
    def look(url: str) -> Outcome:
        return tried(("face", url.replace("ws://", "http://").rstrip("/") + path))

    outcome = beside(other_heads, OtherHeads(), then=look)
    one = only(outcome)
    assert one.failed is None, one.failed
    assert one.settings == settings
    assert one.measured["frames"] > 5
    assert outcome.text is not None
    assert yaml.safe_load(outcome.text)["tenants"]["head"].items() >= settings.items()
    assert outcome.builtin == ("tts", "llm")


def sse(*events: Any) -> list[tuple[int, bytes]]:
    texts = [json.dumps(event) if not isinstance(event, str) else event for event in events]
    return [(number * 5_000_000, f"data: {text}\n\n".encode()) for number, text in enumerate(texts)]


def chat_server(served: Served) -> Script:
    """A vLLM, by its looks, that takes chats alone, with little context."""
    if served.path == "/v1/models":
        models = {"data": [{"id": "some/model", "max_model_len": 1_024}, {"id": "adapter"}]}
        return Script(pieces=[(0, json.dumps(models).encode())], headers=JSON)
    if served.path == "/metrics":
        text = b'vllm:cache_config_info{enable_prefix_caching="True",num_gpu_blocks="10"} 1.0\n'
        return Script(pieces=[(0, text)])
    if served.path != "/v1/chat/completions":
        return Script(status=404, pieces=[(0, b"{}")], headers=JSON)
    token = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 140, "completion_tokens": 3}}
    return Script(
        pieces=sse(token, token, token, last, usage, "[DONE]"), headers={"Content-Type": "text/event-stream"}
    )


def test_an_llm_with_a_chat_alone_and_little_context() -> None:
    outcome = beside(truth_server, chat_server, then=lambda url: tried(("completions", url)))
    one = only(outcome)
    assert one.failed is None
    assert one.settings == {"model": "some/model", "protocol": "chat"}
    assert one.measured["prefix_cache"] is True
    assert any("prefix cache on" in text for text in one.told)
    assert one.measured["prompt_tokens"] == 140
    assert outcome.text is not None
    written = yaml.safe_load(outcome.text)
    assert written["tenants"]["llm"]["protocol"] == "chat"
    assert written["load"]["prefill"]["prompt"] == 1_024 - 4 - 64
    assert "decode" not in written["load"]  # 128 and 400 fit


def failing(**script: Any) -> Callable[[Served], Script]:
    return lambda _served: Script(**script)


GARBAGE = b"\x00\xff<html>nothing that anybody asked for</html>\r\n\r\n" * 9


@pytest.mark.parametrize("kind", ["speech", "face", "completions"])
@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        ({"status": 401}, {"unauthorized", "protocol"}),
        ({"status": 404}, {"not_found", "protocol"}),
        ({"pieces": [(0, GARBAGE)], "raw": True, "ending": "close"}, {"protocol", "truncated", "empty"}),
        ({"pieces": [(0, b"<html>")], "headers": {"Content-Type": "text/html"}}, {"protocol"}),
    ],
)
def test_what_fails_has_a_kind_and_a_hint(kind: str, script: dict[str, Any], kinds: set[str]) -> None:
    outcome = beside(truth_server, failing(**script), then=lambda url: tried((kind, url)))
    one = only(outcome)
    assert one.failed is not None
    assert one.failed.kind in kinds, one.failed
    assert one.failed.hint
    assert outcome.text is None


@pytest.mark.parametrize(("kind", "name"), [("speech", "tts"), ("completions", "llm")])
@pytest.mark.parametrize("field", ["voice", "model"])
def test_a_field_that_a_server_requires_is_named(kind: str, name: str, field: str) -> None:
    said = f'{{"detail":[{{"type":"missing","loc":["body","{field}"],"msg":"Field required"}}]}}'.encode()
    server = failing(status=422, pieces=[(0, said)], headers=JSON)
    one = only(beside(truth_server, server, then=lambda url: tried((kind, url))))
    assert one.failed is not None
    assert one.failed.hint == f"it wants a {field}: --set tenants.{name}.{field}=NAME"


@pytest.mark.parametrize(
    ("kind", "path_of"), [("speech", "v1/audio/speech"), ("completions", "v1"), ("face", "v1/face")]
)
def test_a_key_is_sent_and_is_in_nothing_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    kind: str, path_of: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("TTS_TEST_KEY", KEY)
    keys: list[str | None] = []

    def answer(served: Served) -> Script:
        keys.append(next((v for k, v in served.headers.items() if k.lower() == "authorization"), None))
        others = "sk-uniq0123456789abcdef, Bearer uniq0123456789 nor password=uniq-0123456789"
        said = f'{{"error": "no such key: {KEY}, {others}"}}'.encode()
        return Script(status=401, pieces=[(0, said)], headers=JSON)

    path = tmp_path / "x.yaml"

    def look(url: str) -> Any:
        given = [Given(kind=kind, url=f"{url}/{path_of}?api_key={KEY}", key_env="TTS_TEST_KEY")]
        return command.try_them("all-together", given, ["device=cpu"], path, force=False, as_json=True)

    assert beside(truth_server, answer, then=look) == 5
    out, err = capsys.readouterr()
    assert set(keys) == {f"Bearer {KEY}"}
    assert "the key in TTS_TEST_KEY was refused" in err
    assert KEY not in out + err
    assert KEY[-8:] not in out + err
    assert "uniq" not in out + err
    assert "unauthorized" in err
    assert not path.exists()


def test_the_others_are_tried_though_one_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = f"http://127.0.0.1:{free_port()}"

    def look(url: str) -> Any:
        given = [Given(kind="speech", url=closed), Given(kind="completions", url=url)]
        return command.try_them("all-together", given, ["device=cpu"], None, force=False, as_json=False)

    assert beside(truth_server, chat_server, then=look) == 5
    err = capsys.readouterr().err
    assert "refused" in err
    assert "nothing listens there" in err
    assert "prefix cache on" in err


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    given = [Given(kind="speech", url="http://127.0.0.1:1")]
    with pytest.raises(UserError, match="it is there already; give another name, or --force"):
        command.try_them("all-together", given, [], path, force=False, as_json=False)
    assert path.read_text() == "mine"
    with pytest.raises(UserError, match=r"ends in \.yaml"):
        command.try_them("all-together", given, [], tmp_path / "x.txt", force=False, as_json=False)
    with pytest.raises(UserError, match="there is no folder"):
        command.try_them("all-together", given, [], tmp_path / "no" / "x.yaml", force=False, as_json=False)

    def look(url: str) -> Any:
        llm = [Given(kind="completions", url=url)]
        return command.try_them("llm-decode", llm, ["device=cpu"], path, force=True, as_json=False)

    assert beside(truth_server, chat_server, then=look) == 0
    scenario = load(str(path))
    assert scenario.name == "mine"
    assert scenario.tenants["llm"].engine == "attach"


@pytest.mark.parametrize(
    ("given", "overrides", "words"),
    [
        (Given(kind="speech", url="nowhere"), [], "^--tts: 'nowhere' is not a server's address"),
        (Given(kind="speech", url="127.0.0.1:8880"), [], "; write it as http://127.0.0.1:8880$"),
        (Given(kind="completions", url="h"), [], "^--llm: 'h' is not"),
        (Given(kind="face", url="h"), [], "^--face: 'h' is not"),
        (
            Given(kind="speech", url="http://h"),
            ["tenants.tts.rate=fast"],
            r"^what is given has one error:\n  tenants\.tts\.rate: 'fast' is not a whole number",
        ),
        (Given(kind="speech", url="http://u:p@h"), [], "a password in an address would be recorded"),
        (Given(kind="speech", url="http://h", key_env="NO_SUCH_VARIABLE"), [], "NO_SUCH_VARIABLE is not set"),
        (
            Given(kind="speech", url="http://h", key_env="sk-uniq0123456789abcdef"),
            [],
            "^--tts-key-env: [^q]*$",
        ),
        (Given(kind="face", url="http://h", key_env="uniq0123456789abcdef"), [], "^--face-key-env: [^q]*$"),
        (Given(kind="speech", url="http://h"), ["tenants.tts.protocol=carrier-pigeon"], "carrier-pigeon"),
        (Given(kind="speech", url="http://h"), ["nonsense"], "is not path=value"),
    ],
)
def test_mistakes_of_the_user(given: Given, overrides: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        try_services("all-together", [given], ["device=cpu", *overrides], None)


def test_a_scenario_without_that_kind_of_tenant() -> None:
    with pytest.raises(UserError, match="tts-alone has no tenant of kind completions"):
        try_services("tts-alone", [Given(kind="completions", url="http://127.0.0.1:1")], [], None)


@pytest.mark.parametrize("arguments", [["--write", "x.yaml"], ["--tts-key-env", "X"], ["--force"]])
def test_options_that_need_an_address(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", *arguments], prog_name="cotenant")
    assert ended.value.code == 2
    assert "add --tts, --llm or --face URL" in capsys.readouterr().err


def test_without_a_scenario_nothing_is_in_it_that_was_not_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"

    def look(url: str) -> int:
        llm = [Given(kind="completions", url=url)]
        return command.try_them(None, llm, ["device=cpu"], path, force=True, as_json=True)

    assert beside(truth_server, chat_server, then=look) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["base"], told["builtin"], told["started"]) == ("voice-and-llm", ["tts"], [])
    scenario = load(str(path))
    assert {name: tenant.engine for name, tenant in scenario.tenants.items()} == {
        "tts": "builtin", "llm": "attach"
    }  # fmt: skip
    assert "extends voice-and-llm: `cotenant doctor all-together ...` adds stand-ins" in err
    assert "built-in stand-ins, no address given: tts" in err
    assert "# Built-in stand-ins, no address given: tts.\n" in path.read_text()

    # With a scenario that is named, what it has besides is a stand-in, or taken out.
    for overrides, builtin in ([], "tts, head"), (["tenants.head=null"], "tts"):

        def named(url: str, overrides: list[str] = overrides) -> int:
            given = [Given(kind="completions", url=url)]
            return command.try_them("all-together", given, overrides, path, force=True, as_json=False)

        assert beside(truth_server, chat_server, then=named) == 0
        assert f"# Built-in stand-ins, no address given: {builtin}.\n" in path.read_text()
        assert list(load(str(path)).tenants) == [*builtin.split(", "), "llm"]
        assert "extends" not in capsys.readouterr().err


OWN = "extends: all-together\nname: mine\ndevice: cpu\n"


def told_by_doctor(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", *arguments], prog_name="cotenant")
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize("base", ["my-services.yaml", "two.yaml", "./below/three.yaml", "two"])
def test_a_file_of_ones_own_and_addresses(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("below").mkdir()
    Path("my-services.yaml").write_text(OWN)
    for name, extended in (
        ("two.yaml", "my-services.yaml"),
        ("below/three.yaml", "../two.yaml"),
        ("two", "two.yaml"),
    ):
        Path(name).write_text(f"extends: {extended}\nname: mine\n")
    code, told = told_by_doctor([base, "--tts", f"http://127.0.0.1:{free_port()}"], capsys)
    assert "nothing listens there" in told
    assert code == 5

    def look(url: str) -> int:
        llm = [Given(kind="completions", url=url)]
        return command.try_them(base, llm, [], Path("below/new.yaml"), force=False, as_json=False)

    assert beside(truth_server, chat_server, then=look) == 0
    assert load("below/new.yaml").tenants["llm"].engine == "attach"


@pytest.mark.parametrize("written", ["two.yaml", "my-services.yaml", "link.yaml"])
def test_a_file_is_not_written_over_what_it_would_extend(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my-services.yaml").write_text(OWN)
    Path("two.yaml").write_text("extends: my-services.yaml\nname: two\n")
    Path("link.yaml").symlink_to("two.yaml")
    before = Path(written).read_text()
    address = f"http://127.0.0.1:{free_port()}"
    code, told = told_by_doctor(["two.yaml", "--tts", address, "--write", written, "--force"], capsys)
    assert code == 2
    other = written.replace(".yaml", "-tried.yaml")
    assert f"--write {other}" in " ".join(told.split())
    assert Path(written).read_text() == before
