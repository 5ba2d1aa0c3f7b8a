"""What the tenants of a run tell when they start: kept in the manifest, said where it matters."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.conductor import start
from cotenant.conductor.context import Run
from cotenant.conductor.preflight import Device
from cotenant.errors import CouldNotRun
from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Tenant
from cotenant.tenants import launch
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
