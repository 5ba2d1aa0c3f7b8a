"""What the tenants of a run tell when they start: kept in the manifest, said where it matters."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.conductor import start
from cotenant.conductor.context import Run, State
from cotenant.conductor.preflight import Device
from cotenant.conductor.reporter import Reporter
from cotenant.errors import CouldNotRun
from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Tenant
from cotenant.tenants import launch, speech_probe
from cotenant.tenants.reaper_client import Reaper

FACTS: Mapping[str, Mapping[str, Any]] = {
    "tts": {"device": "gpu", "frame_ms": 8.7, "published_frame_ms": 15.0, "optimistic": True, "replicas": 2},
    "head": {"device": "cpu"},
    "llm": {},
}


@dataclass(slots=True)
class Lines:
    """Progress that keeps its lines."""

    lines: list[str] = field(default_factory=list)

    def show(self, state: object) -> None: ...

    def line(self, text: str) -> None:
        self.lines.append(text)

    def close(self) -> None: ...


def a_run(tmp_path: Path, *overrides: str) -> tuple[Run, Lines]:
    progress = Lines()
    run = Run(
        scenario=resolve(load("all-together", overrides), "gpu"),
        device=Device(kind="gpu", name="a GPU", cpu_count=4),
        run_dir=tmp_path,
        run_id="test",
        writer=RunWriter(tmp_path, "conductor", audio_limit_bytes=None),
        progress=progress,
        audio_limit_bytes=0,
        manifest={"schema": 1, "tool": manifest.TOOL},
    )
    return run, progress


def test_what_tenants_tell_is_kept_and_a_stand_in_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Mapping[str, str]] = {}

    async def start_tenant(
        reaper: Reaper, name: str, tenant: Tenant, *, shared_env: Mapping[str, str], **_: Any
    ) -> launch.Started:
        given[name] = shared_env
        return launch.Started(urls=[f"http://{name}:1"], facts=FACTS[name])

    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    run, progress = a_run(tmp_path)
    pipe = {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}
    urls = asyncio.run(start.start_tenants(run, cast("Reaper", None), pipe))
    run.writer.close()
    assert urls == {name: [f"http://{name}:1"] for name in FACTS}
    assert given == dict.fromkeys(FACTS, pipe)
    told = manifest.read(tmp_path)["tenants"]
    assert told == {"tts": dict(FACTS["tts"]), "head": {"device": "cpu"}}
    assert progress.lines == ["tts: optimistic stand-in: a frame takes 8.7 ms, the published model 15 ms"]


@pytest.mark.parametrize(
    ("frames", "tested"),
    [
        ("", "server of our tests"),
        (", frames: {audio: {send: binary}}", "server of our tests"),
        (", frames: {audio: {send: none}}", "real server"),
    ],
)
def test_how_a_heads_protocol_was_tried_is_kept_by_how_it_is_used(
    frames: str, tested: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_tenant(_: Reaper, name: str, __: Tenant, **___: Any) -> launch.Started:
        return launch.Started(urls=[f"http://{name}:1"], facts={})

    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    head = "kind: face, engine: attach, url: 'http://x:1', protocol: mjpeg" + frames
    run, _ = a_run(tmp_path, f"tenants.head={{{head}}}")
    asyncio.run(start.start_tenants(run, cast("Reaper", None)))
    run.writer.close()
    told = manifest.read(tmp_path)["tenants"]["head"]["protocol"]
    assert (told["name"], told["tested"]) == ("mjpeg", tested)
    assert told["experimental"] == (tested != "real server")


def test_a_service_on_another_machine_is_kept_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_tenant(_: Reaper, name: str, __: Tenant, **___: Any) -> launch.Started:
        return launch.Started(urls=[f"http://{name}:1"], facts={})

    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    there = "kind: face, engine: attach, url: 'http://198.51.100.7:1', protocol: cotenant"
    here = "kind: completions, engine: attach, url: 'http://127.0.0.1:1'"
    run, progress = a_run(tmp_path, f"tenants.head={{{there}}}", f"tenants.llm={{{here}}}")
    asyncio.run(start.start_tenants(run, cast("Reaper", None)))
    run.writer.close()
    told = manifest.read(tmp_path)["tenants"]
    assert {name: one.get("elsewhere") for name, one in told.items()} == {"head": True, "llm": None}
    assert progress.lines == [
        "head is on another machine, by the address: what is read of CPU and GPU is this one's"
    ]


VLLM = (
    "tenants.llm.engine=launch",
    "tenants.llm.vllm.python=python3",
    "tenants.llm.vllm.model=qwen3-8b-shaped",
)


def test_a_vllm_is_asked_for_its_options_while_its_neighbours_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    asked = asyncio.Event()

    async def look_ahead(tenants: Mapping[str, Tenant], **_: Any) -> None:
        happened.append("asked")
        asked.set()
        await asyncio.sleep(0)
        happened.append("known")

    async def start_tenant(reaper: Reaper, name: str, tenant: Tenant, **_: Any) -> launch.Started:
        await asked.wait()
        happened.append(name)
        return launch.Started(urls=[f"http://{name}:1"])

    monkeypatch.setattr(launch, "look_ahead", look_ahead)
    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    run, _ = a_run(tmp_path, *VLLM)
    asyncio.run(start.start_tenants(run, cast("Reaper", None)))
    run.writer.close()
    assert happened[0] == "asked"
    assert happened.index("known") < happened.index("llm")
    assert happened[-1] == "llm"


def test_a_vllm_that_is_not_there_ends_the_start_and_leaves_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_tenant(reaper: Reaper, name: str, tenant: Tenant, **_: Any) -> launch.Started:
        return launch.Started(urls=[f"http://{name}:1"])

    async def begin() -> int:
        with pytest.raises(CouldNotRun, match=r"tenants\.llm\.vllm\.python"):
            await start.start_tenants(run, cast("Reaper", None))
        return len(asyncio.all_tasks())

    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    run, _ = a_run(tmp_path, VLLM[0], "tenants.llm.vllm.python=/nowhere/python", VLLM[2])
    assert asyncio.run(begin()) == 1
    run.writer.close()


@pytest.mark.parametrize("status", [200, 404])
def test_a_first_answer_that_fails_shows_what_the_server_said_last(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_tenant(_: Reaper, name: str, __: Tenant, **___: Any) -> launch.Started:
        return launch.Started(urls=[f"http://{name}:1"], facts={"ready_status": status})

    async def find(name: str, url: str, tenant: Tenant) -> speech_probe.Found:
        raise CouldNotRun(f"{name}: it broke off")

    monkeypatch.setattr(launch, "start_tenant", start_tenant)
    monkeypatch.setattr(speech_probe, "find", find)
    own = "kind: speech, engine: launch, url: 'http://x:1', command: [my-server]"
    run, _ = a_run(tmp_path, f"tenants.tts={{{own}}}")
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "tts.log"
    log.write_text("started\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    with pytest.raises(CouldNotRun) as error:
        asyncio.run(start.start_tenants(run, cast("Reaper", None)))
    run.writer.close()
    first, why, said, *last = str(error.value).splitlines()
    early = "it has no /health (404), so its first answer counted as started; if it still loads, name a path "
    way_out = "that answers 200 only then in tenants.tts.ready.path"
    assert first == "tts: it broke off" + (f" ({early}{way_out})" if status == 404 else "")
    assert why.startswith("tts: the GPU's memory is full when it asked for 2.00 GiB more")
    assert said == f"tts said last ({log}):"
    assert last == ["  started", "  RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"]


class Failing:
    """A load process whose warm-ups fail so."""

    def __init__(self, kind: str, error: str) -> None:
        self.answer = {"ok": 0, "failed": 2, "error_kind": kind, "error": error}

    def forget(self) -> None: ...

    async def send(self, **_: Any) -> None: ...

    async def wait(self, event: str, **_: Any) -> Mapping[str, Any]:
        return self.answer


@pytest.mark.parametrize("load_name", ["voices", "faces", "decode"])
@pytest.mark.parametrize(
    ("kind", "said", "key", "hint"),
    [
        ("unauthorized", "HTTP 401: no", True, "the key in SOME_KEY was refused: export the right one"),
        ("unauthorized", "HTTP 401: no", False, "name its variable in tenants.{}.api_key_env)"),
        (
            "protocol",
            "HTTP 422: voice: field required",
            True,
            "it wants a voice: --set tenants.{}.voice=NAME",
        ),
    ],
)
def test_a_warm_up_that_fails_says_what_to_change(
    load_name: str, kind: str, said: str, key: bool, hint: str, tmp_path: Path
) -> None:
    keys = [f"tenants.{name}.api_key_env=SOME_KEY" for name in FACTS if key]
    run, _ = a_run(tmp_path, *keys)
    tenant = run.scenario.load[load_name].tenant
    process = cast("Any", dict.fromkeys(run.scenario.load, Failing(kind, said)))
    process |= {name: Warmed() for name in process if run.scenario.load[name].tenant != tenant}
    with pytest.raises(CouldNotRun, match=f"to the tenant {tenant!r} failed: {kind}: {said}") as error:
        asyncio.run(start.warm(run, State(), process, Reporter(run, State(), [])))
    run.writer.close()
    assert hint.format(tenant) in str(error.value)


class Warmed(Failing):
    """One whose warm-ups end well."""

    def __init__(self) -> None:
        self.answer = {"ok": 1, "failed": 0}
