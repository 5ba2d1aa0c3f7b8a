"""Tenants are started and waited for; one that does not start becomes a sentence and its last log lines."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import CouldNotRun
from cotenant.scenario.schema import Tenant
from cotenant.tenants import launch, ready
from cotenant.tenants.builtin.server import parse_arguments
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S

SERVER = str(Path(__file__).with_name("fake_server.py"))


def tenant(**fields: Any) -> Tenant:
    return Tenant.model_validate({"kind": "speech", "engine": "builtin", "shape": "tiny", **fields})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_reaper(use: Callable[[Reaper], Awaitable[None]]) -> None:
    async def main() -> None:
        async with await Reaper.start() as reaper:
            await use(reaper)

    asyncio.run(main())


def start(log_dir: Path, spec: Tenant, name: str = "svc") -> list[str]:
    urls: list[str] = []

    async def use(reaper: Reaper) -> None:
        urls.extend(await launch.start(reaper, name, spec, device_kind="cpu", log_dir=log_dir, seed=1))

    with_reaper(use)
    return urls


def fake_builtin(monkeypatch: pytest.MonkeyPatch, *argv: str) -> None:
    monkeypatch.setattr(launch, "builtin_argv", lambda *_, **__: [sys.executable, *argv])


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_command_of_a_builtin_server() -> None:
    spec = tenant(packets={"first": 1, "steady": 3, "ramp": [2]}, threads=2)
    argv = launch.builtin_argv(spec, 1, "cpu", seed=7)
    assert argv[:4] == [sys.executable, "-m", "cotenant.tenants.builtin.server", "speech"]
    options = {"--shape": "tiny", "--host": "127.0.0.1", "--port": "0", "--device": "cpu", "--seed": "8"}
    assert {name: option(argv, name) for name in options} == options
    assert option(argv, "--threads") == "2"
    assert json.loads(option(argv, "--packets")) == {"first": 1, "steady": 3, "ramp": [2]}
    bare = launch.builtin_argv(tenant(kind="face"), 0, "gpu")
    assert not {"--packets", "--threads", "--mode", "--voices", "--step-overhead"} & set(bare)


def test_the_options_of_a_builtin_server() -> None:
    spec = tenant(mode="eager", voices=3, step_overhead="2ms", context_frames=0)
    argv = launch.builtin_argv(spec, 0, "gpu")
    options = {"--mode": "eager", "--voices": "3", "--step-overhead": "2000000", "--context-frames": "0"}
    assert {name: option(argv, name) for name in options} == options
    # As the server itself reads them.
    read = parse_arguments(argv[3:])
    assert (read.mode, read.voices, read.step_overhead, read.context_frames) == ("eager", 3, 2_000_000, 0)
    assert "--step-overhead" in launch.builtin_argv(tenant(step_overhead="0ms"), 0, "gpu")


@pytest.mark.parametrize(
    ("kind", "own", "device", "visible"),
    [
        ("cpu", None, "cpu", None),
        ("gpu", None, "cuda:0", None),
        ("gpu", "cpu", "cpu", None),
        ("gpu", "cuda:1", "cuda:1", None),
        ("gpu", "GPU-01234567-89ab-cdef-0123-456789abcdef", "cuda:0",
        "GPU-01234567-89ab-cdef-0123-456789abcdef"),
    ],
)  # fmt: skip
def test_a_tenant_may_have_a_device_of_its_own(
    kind: launch.DeviceKind, own: str | None, device: str, visible: str | None
) -> None:
    spec = tenant(device=own) if own else tenant()
    assert option(launch.builtin_argv(spec, 0, kind), "--device") == device
    assert launch.environment(spec, kind).get("CUDA_VISIBLE_DEVICES") == visible


def test_the_environment_of_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    path = f"/usr/bin{os.pathsep}{Path(sys.executable).parent}"
    mps = {"thread_percentage": 50, "priority": 1}
    spec = tenant(threads=3, mps=mps, env={"MKL_NUM_THREADS": "9", "A": "b"})
    assert launch.environment(spec, "gpu") == {
        "PYTHONUNBUFFERED": "1", "PATH": path, "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "9", "A": "b",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50", "CUDA_MPS_CLIENT_PRIORITY": "1",
    }  # fmt: skip
    assert "CUDA_MPS_CLIENT_PRIORITY" not in launch.environment(spec, "cpu")
    shared = {"CUDA_MPS_PIPE_DIRECTORY": "/run/x", "A": "shared"}
    assert launch.environment(spec, "gpu", shared).items() >= {
        ("CUDA_MPS_PIPE_DIRECTORY", "/run/x"),
        ("A", "b"),
    }
    assert launch.environment(spec, "cpu", shared).keys().isdisjoint({"CUDA_MPS_PIPE_DIRECTORY"})
    assert launch.environment(tenant(device="cpu"), "gpu", shared) == {"PYTHONUNBUFFERED": "1", "PATH": path}
    assert "OMP_NUM_THREADS" not in launch.environment(tenant(), "cpu")


def test_replicas_of_a_builtin_server_have_a_url_and_a_log_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_builtin(monkeypatch, SERVER, "0", "0")
    urls = start(tmp_path, tenant(replicas=2))
    assert len(set(urls)) == 2
    assert all(url.startswith("http://127.0.0.1:") for url in urls)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["svc@0.log", "svc@1.log"]
    # A log of an earlier start holds a ready line that must not be taken for this one's.
    assert start(tmp_path, tenant(replicas=2)) != urls


def test_a_server_that_ends_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = "import sys; print('\\x1b[31mno such\\x1b[0m \\x07shape\\u202e'); sys.exit(3)"
    fake_builtin(monkeypatch, "-X", "utf8", "-c", says)
    with pytest.raises(CouldNotRun) as error:
        start(tmp_path, tenant())
    assert str(error.value) == (
        f"svc ended (code 3) before it was ready\nsvc said last ({tmp_path / 'svc.log'}):\n  no such shape"
    )


def test_a_builtin_server_that_does_not_fit_into_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_builtin(monkeypatch, "-c", "import sys; sys.exit('CUDA out of memory. Tried to allocate 2.00 GiB.')")
    with pytest.raises(CouldNotRun) as error:
        start(tmp_path, tenant(shape="qwen3-tts-1.7b", replicas=9), name="tts")
    assert str(error.value).splitlines()[0] == (
        "tts@0 (qwen3-tts-1.7b) does not fit into the GPU's memory; use fewer replicas "
        "(tenants.tts.replicas), fewer voices (tenants.tts.voices), a smaller shape (tenants.tts.shape: "
        "tiny or qwen3-tts-0.6b), or a lower gpu_memory_utilization of a vLLM that is there already "
        "(nvidia-smi shows who holds what)"
    )


def test_facts_of_a_builtin_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(reaper: Reaper) -> None:
        fake_builtin(monkeypatch, SERVER, "0", "0")
        told = await launch.start_tenant(reaper, "svc", tenant(), device_kind="cpu", log_dir=tmp_path, seed=1)
        facts = dict(told.facts)
        assert facts.pop("start_s").keys() == {"first", "total"}
        assert facts == {"device": "cpu", "engine": "builtin", "replicas": 1}

    with_reaper(use)


def test_a_server_that_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = 'import time; print(\'{"ready": true, "url": "http\', end=\'\', flush=True); time.sleep(600)'
    fake_builtin(monkeypatch, "-c", half)
    with pytest.raises(CouldNotRun, match=r"svc was not ready within 300ms"):
        start(tmp_path, tenant(ready={"within": "300ms"}))


def test_idleness_is_asked_of_every_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(reaper: Reaper) -> None:
        urls = []
        for name, busy in (("quiet", "0"), ("busy", "3"), ("endless", "1000000")):
            fake_builtin(monkeypatch, SERVER, "0", busy)
            urls += await launch.start(reaper, name, tenant(), device_kind="cpu", log_dir=tmp_path, seed=1)
        assert await launch.wait_idle(urls[:2], limit_ns=30 * NS_PER_S)
        assert not await launch.wait_idle(urls, limit_ns=NS_PER_S // 10)
        assert await launch.wait_idle([f"http://127.0.0.1:{free_port()}"], limit_ns=0)
        assert await launch.wait_idle([], limit_ns=0)

    with_reaper(use)


def launched(port: int, *command: str, within: str = "20s") -> Tenant:
    return Tenant.model_validate(
        {"kind": "completions", "engine": "launch", "url": f"http://127.0.0.1:{port}/", "command":
        list(command),
         "ready": {"path": "/health", "within": within}, "env": {"A_SETTING": "x"}}
    )  # fmt: skip


def test_a_command_is_ready_when_its_health_says_200(tmp_path: Path) -> None:
    port = free_port()
    assert start(tmp_path, launched(port, sys.executable, SERVER, str(port), "2")) == [
        f"http://127.0.0.1:{port}/"
    ]
    assert (tmp_path / "svc.log").read_text().count('" 503 ') == 2


def test_a_command_that_fails_is_shown_with_its_last_lines(tmp_path: Path) -> None:
    fails = "for i in $(seq 40); do echo line $i; done; echo $A_SETTING; kill -SEGV $$"
    with pytest.raises(CouldNotRun) as error:
        start(tmp_path, launched(free_port(), "/bin/sh", "-c", fails))
    lines = str(error.value).splitlines()
    assert lines[0] == "svc ended (SIGSEGV) before it was ready"
    assert lines[2:] == [f"  line {n}" for n in range(30, 41)] + ["  x"]


def test_a_command_that_is_not_there_or_never_healthy(tmp_path: Path) -> None:
    with pytest.raises(CouldNotRun, match=r"svc cannot be started: .*vllm-not-here"):
        start(tmp_path, launched(free_port(), "vllm-not-here", "serve"))
    port = free_port()
    with pytest.raises(CouldNotRun, match=r"within 2s: http://127.0.0.1:\d+/health: it answers 503"):
        start(tmp_path, launched(port, sys.executable, SERVER, str(port), "100000", within="2s"))
    with pytest.raises(CouldNotRun, match=r"within 100ms: .*: Connection refused"):
        start(tmp_path, launched(free_port(), "/bin/sleep", "600", within="100ms"))


def told_of(tmp_path: Path, port: int, *argv: str, **more: Any) -> tuple[launch.Started, list[str]]:
    """A launched tenant below whose url nothing has been named, and what was said meanwhile."""
    told: list[str] = []
    started: list[launch.Started] = []
    spec = launched(port, sys.executable, *argv).model_dump(by_alias=True, exclude_none=True)
    spec |= {"url": f"http://127.0.0.1:{port}/api", "ready": {"within": "20s", **more}}

    async def use(reaper: Reaper) -> None:
        one = await launch.start_tenant(
            reaper, "svc", Tenant.model_validate(spec), device_kind="cpu", log_dir=tmp_path, seed=1,
            tell=told.append,
        )  # fmt: skip
        started.append(one)

    with_reaper(use)
    return started[0], told


NO_GET = "from http.server import *; HTTPServer(('127.0.0.1', {}), BaseHTTPRequestHandler).serve_forever()"


@pytest.mark.parametrize("status", [404, 501])
def test_a_server_without_a_health_path_is_started_once_it_says_so(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "_QUIET_S", 60.0)
    port = free_port()
    argv = ("-c", NO_GET.format(port)) if status == 501 else (SERVER, str(port), "0")
    started, told = told_of(tmp_path, port, *argv)
    assert started.facts == {"ready_status": status}
    (line,) = told
    assert line.startswith(f"svc: http://127.0.0.1:{port}/api/health: it answers {status}, so it counts as ")
    assert "tenants.svc.ready.path" in line


def test_a_path_that_was_named_must_answer_200(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with pytest.raises(CouldNotRun) as error:
        told_of(tmp_path, port, SERVER, str(port), "0", path="/ready", within="2s")
    assert str(error.value).splitlines()[0] == (
        f"svc was not ready within 2s: http://127.0.0.1:{port}/api/ready: it answers 404; "
        "tenants.svc.ready.path names a path that answers 200 once it is, and without one its first answer "
        "counts; tenants.svc.ready.within gives it longer"
    )
    # It is said what is waited for, and how long.
    monkeypatch.setattr(ready, "_QUIET_S", 0.0)
    _, told = told_of(tmp_path, port, SERVER, str(port), "2", path="/../health")
    assert told[0].startswith("svc: not ready after 0 s, waiting for http://127.0.0.1:")
    assert told[0].endswith("20s at most (tenants.svc.ready.within)")


def test_a_port_in_use_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CouldNotRun, match=rf"svc: port {port} of 127.0.0.1 is in use; .*tenants.svc.url"):
            start(tmp_path, launched(port, "/bin/sleep", "600"))
    assert not list(tmp_path.iterdir())


def attached(url: str) -> Tenant:
    return tenant(engine="attach", url=url)


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_attaching_takes_any_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async def use(reaper: Reaper) -> None:
        fake_builtin(monkeypatch, SERVER, "0", "0")
        (url,) = await launch.start(reaper, "own", tenant(), device_kind="cpu", log_dir=tmp_path, seed=1)
        url = url.replace("http", scheme) + "/below"  # answers 404
        assert [url] == await launch.start(
            reaper, "svc", attached(url), device_kind="cpu", log_dir=tmp_path, seed=1
        )

    with_reaper(use)


def test_attaching_to_nothing_says_what_to_do(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(CouldNotRun, match=r"nothing .*: Connection refused; start .*tenants.svc.url"):
        start(tmp_path, attached(url))
    with pytest.raises(CouldNotRun, match=r"nothing answers at http://name.invalid"):
        start(tmp_path, attached("http://name.invalid:80"))


def test_an_unresolved_engine_is_our_own_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not resolved"):
        start(tmp_path, tenant(engine="auto"))


def test_a_launched_command_finds_the_programs_of_our_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `/venv/bin/cotenant run`, the environment not activated; the user's own PATH comes first."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, names in ((ours, ("mine", "both")), (theirs, ("both",))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\necho {folder.name}\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{theirs}:/bin")
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    environment = launch.environment(tenant(), "cpu")
    said = [subprocess.run([name], env=environment, capture_output=True, text=True, check=True).stdout
            for name in ("mine", "both")]  # fmt: skip
    assert said == ["ours\n", "theirs\n"]
