"""A real vLLM on a CPU: started, asked, loaded, killed. Needs one; `.ci/run` says how it gets there.

COTENANT_TEST_VLLM names the interpreter of its virtual environment; without it the one that runs the tests is
taken if it has vLLM.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from cotenant.errors import CouldNotRun
from cotenant.load.warm import Warmth, warm
from cotenant.records import WARM_STAGE
from cotenant.run_dir.reader import read
from cotenant.scenario.schema import Tenant
from cotenant.tenants import launch
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S
from cotenant.wire.completions import CompletionDecoder, Tokens, Usage
from cotenant.wire.dialect import Dialect, completion_request
from cotenant.wire.http1 import Body, Head
from tests.conductor import ffmpeg_head, harness, hibari_voice
from tests.load import rig

PYTHON = os.environ.get("COTENANT_TEST_VLLM") or (sys.executable if importlib.util.find_spec("vllm") else "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON, reason="no vLLM here: COTENANT_TEST_VLLM is not set to a Python that has one"
    ),
]

# Imports alone take a minute on two busy cores, and two of them start at once.
DEADLINE_S = 800.0
BLOCK: dict[str, Any] = {
    "python": PYTHON,
    "model": "tiny-qwen3",
    "dtype": "bfloat16",
    "max_model_len": 8192,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": "512Mi",
    "extra_args": ["--enforce-eager"],
}
TENANT: dict[str, Any] = {
    "kind": "completions",
    "engine": "launch",
    "device": "cpu",
    "vllm": BLOCK,
    "ready": {"within": f"{DEADLINE_S:.0f}s"},
}
DECODE = {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": 32, "output": 40}
PREFILL = {"tenant": "llm", "kind": "completions", "streams": 1, "prompt": "4k", "output": 4}
TIMING = {"settle": "500ms", "settle_limit": "60s", "measure": "8s", "solo": "0s", "stall_limit": "60s"}


class Server:
    """A vLLM that was started as a tenant, and the loop that keeps its reaper."""

    def __init__(self, log_dir: Path) -> None:
        self._runner = asyncio.Runner()
        self._reaper = self._runner.run(Reaper.start())
        self.log = log_dir / "llm.log"
        tenant = Tenant.model_validate(TENANT)
        try:
            started = self._runner.run(
                launch.start_tenant(self._reaper, "llm", tenant, device_kind="cpu", log_dir=log_dir, seed=1)
            )
        except BaseException:
            self.close()
            raise
        self.url, self.facts = started.urls[0], started.facts

    def close(self) -> None:
        self._runner.run(self._reaper.close())
        self._runner.close()

    def family(self) -> list[psutil.Process]:
        """The reaper, and all that runs below it."""
        reaper = psutil.Process(self._reaper.pid)
        return [reaper, *reaper.children(recursive=True)]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Future[harness.Ended] | None]:
    """The run whose engine is killed: its vLLM starts while that of `server` does, each on a core, and not
    after it. None where its test was not asked for."""
    if not any(item.path == request.path and "killed" in item.name for item in request.session.items):
        yield None
        return
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(asyncio.run, kill_the_engine(tmp_path_factory.mktemp("killed")))


@pytest.fixture(scope="module")
def server(
    killed: Future[harness.Ended] | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("vllm"))
    family = found.family()
    yield found
    engines = [process for process in family if "EngineCore" in process.name() or "VLLM" in process.name()]
    assert engines, "the engine is a process of its own"
    found.close()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


def test_its_start_is_told(server: Server) -> None:
    facts = server.facts
    assert facts["engine"] == "vllm"
    assert facts["weights"] == "dummy"
    assert facts["version"] == json.loads(server.get("/version"))["version"]
    assert "--skip-tokenizer-init" in facts["argv"]
    assert facts["arguments"]["kv_cache_memory_bytes"] == 512 * 2**20
    assert facts["kv_cache"]["bytes"] == 512 * 2**20
    assert facts["kv_cache"]["tokens"] == 512 * 2**20 // 2048
    assert facts["kv_cache"]["blocks"] * int(facts["config"]["block_size"]) == facts["kv_cache"]["tokens"]
    assert facts["config"]["max_seq_len"] == "8192"
    assert 0 < facts["start_s"]["load"] < facts["start_s"]["total"]
    assert facts["start_s"]["engine"] is not None
    json.dumps(facts)


async def warmed(server: Server, protocol: str) -> Warmth:
    load = rig.completions(prompt=40)
    told = rig.settings([rig.tenant(server.url, "llm", protocol=protocol)], [load])
    async with rig.desk_for(told) as (desk, _):
        return await warm(desk, rig.new_stage(WARM_STAGE), "decode")


def test_it_takes_ids_and_says_little_of_a_chat_without_a_tokenizer(server: Server) -> None:
    ids = asyncio.run(warmed(server, "openai"))
    assert (ids.ok, ids.request) == (1, Dialect().fact())
    chat = asyncio.run(warmed(server, "chat"))
    assert chat.ok == 0
    ((kind, text),) = chat.failures
    assert kind == "server_error"
    assert "a chat needs a tokenizer" in (text or "")
    assert "protocol: completions" in (text or "")


def test_empty_texts_are_tokens_and_the_last_usage_has_its_own_times(server: Server) -> None:
    body = completion_request(model=None, prompt=range(100, 140), max_tokens=12, extra={})
    request = urllib.request.Request(
        server.url + "/v1/completions", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        head = Head(
            status=answer.status, headers={"content-type": answer.headers["Content-Type"]}, chunked=True
        )
        data = answer.read()
    assert data.count(b'"text":""') == 12
    events = CompletionDecoder(head).feed(Body(data=data, closes=True, after_bytes=0))
    assert [event.tokens for event in events if isinstance(event, Tokens)] == [1] * 12
    last = [event for event in events if isinstance(event, Usage)][-1]
    assert (last.prompt_tokens, last.output_tokens) == (40, 12)
    assert last.queue_ns is not None
    assert last.first_token_ns is not None
    assert 0 < last.first_token_ns < 60 * NS_PER_S


def test_it_is_idle_once_its_clients_have_left(server: Server) -> None:
    body = completion_request(model=None, prompt=range(100, 140), max_tokens=4000, extra={})
    request = urllib.request.Request(
        server.url + "/v1/completions", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.read(100)
        assert not asyncio.run(launch.wait_idle([server.url], limit_ns=0))
    assert asyncio.run(launch.wait_idle([server.url], limit_ns=60 * NS_PER_S))


def test_both_loads_against_a_running_server(server: Server, tmp_path: Path) -> None:
    before = server.get("/metrics")
    scenario = {
        "name": "attached",
        "device": "cpu",
        "tenants": {"llm": {"kind": "completions", "engine": "attach", "url": server.url}},
        "load": {"decode": DECODE, "prefill": PREFILL},
        "stages": [
            {"name": "decode", "load": ["decode"]},
            {"name": "both", "load": ["decode", "prefill"]},
        ],
        "timing": TIMING,
        "gate": ["llm.decode.tokens_per_s >= 1/s"],
    }
    ended = asyncio.run(harness.ran(tmp_path, scenario))
    assert ended.run_dir is not None, ended.err
    assert ended.manifest["status"] == "complete", ended.err
    stages = {stage["name"]: stage["llm"] for stage in ended.summary["stages"]}
    assert stages["decode"]["decode"]["tokens_per_s"] > 1
    assert stages["both"]["prefill"]["prompt_tokens_per_s"] > 1
    assert stages["both"]["decode"]["delivered"]
    assert stages["both"]["prefill"]["delivered"]
    assert ended.code == 0, ended.err
    _every_token_was_seen(ended)
    for name in ("prompt_tokens_total", "generation_tokens_total"):
        assert _counter(server.get("/metrics"), name) > _counter(before, name)


def _every_token_was_seen(ended: harness.Ended) -> None:
    """Each whole stream has as many token rows as the server says, and as many as were asked for."""
    assert ended.run_dir is not None
    seen: dict[int, int] = {}
    for row in read(ended.run_dir).tables["tokens"].to_pylist():
        seen[row["stream"]] = seen.get(row["stream"], 0) + row["tokens"]
    whole = [row for row in ended.streams() if row["end"] == "eos" and row["stage"] != "warm"]
    assert {row["load"] for row in whole} == {"decode", "prefill"}
    assert {row["error_kind"] for row in ended.streams()} == {None}
    for row in whole:
        prompt, output = (32, 40) if row["load"] == "decode" else (4000, 4)
        assert (row["prompt_tokens"], row["output_tokens"], seen[row["stream"]]) == (prompt, output, output)


def _counter(page: str, name: str) -> float:
    lines = [line for line in page.splitlines() if line.startswith(f"vllm:{name}{{")]
    assert lines, f"no {name}"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.mark.skipif(ffmpeg_head.FFMPEG is None, reason=ffmpeg_head.MISSING)
@pytest.mark.skipif(hibari_voice.MISSING is not None, reason=str(hibari_voice.MISSING))
def test_beside_a_neural_voice_and_a_stream_of_pictures_all_attached(server: Server, tmp_path: Path) -> None:
    async def main() -> harness.Ended:
        async with ffmpeg_head.ffmpeg_head() as head:
            with hibari_voice.hibari_server(tmp_path) as voice:
                return await harness.ran(tmp_path, together(server.url, voice, head))

    ended = asyncio.run(main())
    assert ended.run_dir is not None, ended.err
    assert ended.manifest["status"] == "complete", ended.err
    assert [stage["name"] for stage in ended.summary["stages"]] == ["tts-alone", "all-together"]
    measured = ended.measured("all-together")
    followed = [row for row in measured if row["kind"] != "completions"]
    assert {row["kind"] for row in followed} == {"voices", "faces"}
    assert {(row["end"], row["error"]) for row in followed} == {("eos", None)}
    assert {row["error"] for row in measured} == {None}
    llm = ended.summary["stages"][1]["llm"]
    assert llm["decode"]["tokens_per_s"] > 0
    assert llm["prefill"]["prompt_tokens_per_s"] > 0
    assert ended.summary["stages"][1]["face"]["harmonic_fps"] > 0.5 * ffmpeg_head.FPS
    _as_many_pictures_as_sound(ended, followed)
    voices = [row for row in (*ended.measured("tts-alone"), *measured) if row["kind"] == "voices"]
    hibari_voice.check_samples(ended, voices, tmp_path)
    told = ended.manifest["tenants"]
    assert (told["llm"]["engine"], told["llm"]["request"]["prompt"]) == ("vllm", "ids")
    assert "experimental-protocol" not in {caveat["kind"] for caveat in ended.summary["caveats"]}


def together(llm: str, voice: str, head: ffmpeg_head.FfmpegHead) -> dict[str, Any]:
    """One voice with a face, then all loads at once."""
    return {
        "name": "all-attached",
        "device": "cpu",
        "tenants": {
            "tts": hibari_voice.tenant(voice),
            "head": head.tenant(),
            "llm": {"kind": "completions", "engine": "attach", "url": llm},
        },
        "load": {
            "voices": {"tenant": "tts", "kind": "voices", "mode": "open", "listeners": 1, "every": "3s"},
            "faces": {"tenant": "head", "kind": "faces", "follows": "voices"},
            "decode": DECODE,
            "prefill": PREFILL,
        },
        "stages": [
            {"name": "tts-alone", "load": ["voices"]},
            {"name": "all-together", "load": ["voices", "faces", "decode", "prefill"]},
        ],
        "timing": {**TIMING, "measure": "6s"},
        "gate": ["voice", "face"],
    }


def _as_many_pictures_as_sound(ended: harness.Ended, rows: list[dict[str, Any]]) -> None:
    """Each clip has a picture for every period of the voice that it followed, none left out."""
    assert ended.run_dir is not None
    tables = read(ended.run_dir).tables
    spoken, shown = (
        {row["stream"]: 0 for row in rows if row["kind"] == kind} for kind in ("voices", "faces")
    )
    for row in tables["chunks"].to_pylist():
        if row["stream"] in spoken:
            spoken[row["stream"]] += row["media"]
    for row in tables["frames"].to_pylist():
        if row["stream"] in shown:
            assert row["media_time"] == shown[row["stream"]] * NS_PER_S // ffmpeg_head.FPS
            shown[row["stream"]] += 1
    counts = [-(-media_ns * ffmpeg_head.FPS // NS_PER_S) for media_ns in spoken.values()]
    assert sorted(shown.values()) == sorted(counts)


def test_a_port_in_use_is_told_before_it_is_started(server: Server, tmp_path: Path) -> None:
    tenant = Tenant.model_validate({**TENANT, "url": server.url})

    async def main() -> None:
        async with await Reaper.start() as reaper:
            await launch.start_tenant(reaper, "own", tenant, device_kind="cpu", log_dir=tmp_path, seed=1)

    with pytest.raises(CouldNotRun, match="in use"):
        asyncio.run(main())
    assert not list(tmp_path.iterdir())


def test_an_option_that_this_version_has_no_more_is_refused(server: Server, tmp_path: Path) -> None:
    block = {**BLOCK, "extra_args": ["--max-num-partial-prefill", "2"]}
    tenant = Tenant.model_validate({**TENANT, "vllm": block})

    async def main() -> None:
        async with await Reaper.start() as reaper:
            await launch.start_tenant(reaper, "own", tenant, device_kind="cpu", log_dir=tmp_path, seed=1)

    with pytest.raises(
        CouldNotRun, match=r"own: this vLLM does not know --max-num-partial-prefill .*; remove it"
    ):
        asyncio.run(main())


def test_an_attached_one_tells_of_itself(server: Server, tmp_path: Path) -> None:
    tenant = Tenant.model_validate({"kind": "completions", "engine": "attach", "url": server.url})

    async def main() -> launch.Started:
        async with await Reaper.start() as reaper:
            return await launch.start_tenant(reaper, "x", tenant, device_kind="cpu", log_dir=tmp_path, seed=1)

    facts = asyncio.run(main()).facts
    assert (facts["version"], facts["kv_cache"]) == (server.facts["version"], server.facts["kv_cache"])
    assert facts["start_s"]["total"] is None


async def kill_the_engine(folder: Path) -> harness.Ended:
    scenario = {
        "name": "launched",
        "device": "cpu",
        "tenants": {"llm": TENANT},
        "load": {"decode": DECODE},
        "stages": [{"name": "decode", "load": ["decode"]}],
        "timing": {**TIMING, "measure": "20s"},
        "gate": ["llm.decode.tokens_per_s >= 1/s"],
    }
    async with harness.started(folder, scenario) as command:
        await command.until_marked("measure", "decode", deadline_s=DEADLINE_S)
        _engine(command).send_signal(signal.SIGKILL)
        return await command.end()  # fails where a descendant is left


def test_an_engine_that_is_killed_in_a_stage(killed: Future[harness.Ended]) -> None:
    ended = killed.result(DEADLINE_S)
    assert ended.manifest["status"] == "failed"
    assert "the tenant 'llm' ended" in ended.manifest["error"]
    assert "its engine process has died while it served" in ended.err
    assert ended.code != 0
    assert ended.run_dir is not None
    faults = [
        row["name"] for row in read(ended.run_dir).tables["marks"].to_pylist() if row["what"] == "fault"
    ]
    assert "tenant:llm" in faults
    assert any(row["error_kind"] == "in_stream" for row in ended.streams())


def _engine(command: harness.Command) -> psutil.Process:
    command.look()
    for process in command.family.values():
        with contextlib.suppress(psutil.Error):
            if process.name().startswith("VLLM::EngineCor"):  # the kernel keeps 15 characters
                return process
    raise AssertionError([process.name() for process in command.family.values()])
