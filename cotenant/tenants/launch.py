"""Starts a tenant, whatever its engine, and waits until it can serve."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from cotenant.scenario.schema import SHAPES, Mps, Tenant
from cotenant.scenario.values import AUTO
from cotenant.tenants import attach, replicas, vllm
from cotenant.tenants.http_probe import connector
from cotenant.tenants.log_tail import log_tail
from cotenant.tenants.ready import Tell, check_port_free, silent, wait_healthy, wait_idle
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S

__all__ = [
    "Started", "builtin_argv", "environment", "log_tail", "look_ahead", "start", "start_order",
    "start_tenant", "wait_idle",
]  # fmt: skip

DeviceKind = Literal["cpu", "gpu"]

BUILTIN_CPU_NICE: Final = 10
NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A tenant that serves: the url of each replica, and facts for the manifest (plain JSON, no secrets)."""

    urls: list[str]
    facts: Mapping[str, Any] = field(default_factory=dict)


def start_order(tenants: Mapping[str, Tenant]) -> tuple[str, ...]:
    """The names in the order in which to start them: as given, but every vLLM last.

    A vLLM measures what memory is free and refuses to start when some is given back meanwhile, so its
    neighbours hold theirs before.
    """
    return tuple(sorted(tenants, key=lambda name: _is_vllm(tenants[name])))


async def look_ahead(
    tenants: Mapping[str, Tenant], *, device_kind: DeviceKind, shared_env: Mapping[str, str] = NO_ENV
) -> None:
    """Ask every vLLM that will be started for its options. Raises CouldNotRun.

    It takes half a minute of imports (27 s on a machine with 16 cores), which can pass while its neighbours
    start.
    """
    for name, tenant in tenants.items():
        if tenant.engine == "launch" and tenant.vllm is not None:
            await vllm.learn(name, tenant, env=environment(tenant, device_kind, shared_env))


async def start(
    reaper: Reaper, name: str, tenant: Tenant, *, device_kind: DeviceKind, log_dir: Path, seed: int
) -> list[str]:
    """`start_tenant` without the facts."""
    started = await start_tenant(reaper, name, tenant, device_kind=device_kind, log_dir=log_dir, seed=seed)
    return started.urls


async def start_tenant(
    reaper: Reaper,
    name: str,
    tenant: Tenant,
    *,
    device_kind: DeviceKind,
    log_dir: Path,
    seed: int,
    shared_env: Mapping[str, str] = NO_ENV,
    tell: Tell = silent,
) -> Started:
    """Start a resolved tenant and wait until it is ready.

    The children's ids in the reaper, and the names of their logs, are `name`, or `name@0`, `name@1` ... where
    there are replicas. `shared_env` is for all that use the GPU: each that is started here and not on the
    CPU. Raises CouldNotRun with what the tenant said last.
    """
    if tenant.engine == "attach":
        ca_file, insecure = tenant.ca_file, bool(tenant.insecure)
        url = await attach.check(
            name, _url(name, tenant), tenant.ready.path, ca_file=ca_file, insecure=insecure
        )
        if tenant.kind != "completions":
            return Started(urls=[url])
        return Started(urls=[url], facts=await attach.facts(url, ca_file=ca_file, insecure=insecure))
    env = environment(tenant, device_kind, shared_env)
    if tenant.engine == "launch" and tenant.vllm is not None:
        nice = BUILTIN_CPU_NICE if _on_cpu(tenant, device_kind) else 0
        started = await vllm.start(reaper, name, tenant, env=env, log_dir=log_dir, nice=nice, tell=tell)
        return Started(urls=[started.url], facts=started.facts)
    if tenant.engine == "launch":
        return await _start_command(reaper, name, tenant, env=env, log_dir=log_dir, tell=tell)
    if tenant.engine != "builtin":
        raise ValueError(f"{name}: the engine {tenant.engine} is not resolved")
    return await _start_builtin(
        reaper, name, tenant, device_kind, env=env, log_dir=log_dir, seed=seed, tell=tell
    )


async def _start_builtin(
    reaper: Reaper,
    name: str,
    tenant: Tenant,
    device_kind: DeviceKind,
    *,
    env: Mapping[str, str],
    log_dir: Path,
    seed: int,
    tell: Tell,
) -> Started:
    argvs = [builtin_argv(tenant, replica, device_kind, seed=seed) for replica in range(tenant.replicas)]
    on_cpu = _on_cpu(tenant, device_kind)
    plan = replicas.Plan(
        name=name,
        argvs=argvs,
        env=env,
        nice=BUILTIN_CPU_NICE if on_cpu else 0,
        log_dir=log_dir,
        limit_ns=tenant.ready.within_ns,
        shape=tenant.shape,
        knobs=_memory_knobs(name, tenant),
        tell=tell,
    )
    urls, facts = await replicas.start(reaper, plan)
    return Started(urls=urls, facts={"device": "cpu" if on_cpu else "gpu", **facts})


def _memory_knobs(name: str, tenant: Tenant) -> list[str]:
    """What to lower where a built-in server does not fit into the GPU."""
    smaller = SHAPES[tenant.kind][: SHAPES[tenant.kind].index(tenant.shape)]
    knobs = [f"fewer replicas (tenants.{name}.replicas)"] if tenant.replicas > 1 else []
    knobs += (
        [f"fewer voices (tenants.{name}.voices)"] if tenant.kind == "speech" and tenant.voices != 1 else []
    )
    return knobs + ([f"a smaller shape (tenants.{name}.shape: {' or '.join(smaller)})"] if smaller else [])


def builtin_argv(tenant: Tenant, replica: int, device_kind: DeviceKind, *, seed: int = 0) -> list[str]:
    """The command of a built-in server; each replica has a seed of its own."""
    device = "cpu" if _on_cpu(tenant, device_kind) else "cuda:0"
    if device != "cpu" and tenant.device is not None and tenant.device.startswith("cuda"):
        device = tenant.device
    argv = [
        sys.executable, "-m", "cotenant.tenants.builtin.server", tenant.kind, "--shape", tenant.shape,
        "--host", "127.0.0.1", "--port", "0", "--device", device, "--seed", str(seed + replica),
    ]  # fmt: skip
    if tenant.threads is not None:
        argv += ["--threads", str(tenant.threads)]
    if tenant.packets is not None and tenant.kind == "speech":
        argv += ["--packets", tenant.packets.model_dump_json()]
    if tenant.mode is not None and tenant.mode != AUTO:
        argv += ["--mode", tenant.mode]
    options = {"--voices": tenant.voices, "--step-overhead": tenant.step_overhead_ns,
               "--context-frames": tenant.context_frames}  # fmt: skip
    for option, value in options.items():
        if value is not None and value != AUTO:
            argv += [option, str(value)]
    return argv


def environment(
    tenant: Tenant, device_kind: DeviceKind, shared_env: Mapping[str, str] = NO_ENV
) -> dict[str, str]:
    """What a tenant's environment has beyond ours: `shared_env` not on the CPU; the user's `env` wins."""
    variables = {"PYTHONUNBUFFERED": "1", "PATH": path_with_ours(os.environ)}
    if tenant.engine == "builtin" and tenant.threads is not None:
        # Pools that are sized when a library is loaded, before the server can set torch's own.
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(tenant.threads))
    if tenant.device is not None and tenant.device.startswith("GPU-"):
        variables["CUDA_VISIBLE_DEVICES"] = tenant.device
    elif tenant.vllm is not None and tenant.device is not None and tenant.device.startswith("cuda:"):
        variables["CUDA_VISIBLE_DEVICES"] = _visible(int(tenant.device.removeprefix("cuda:")))
    if not _on_cpu(tenant, device_kind):
        variables |= shared_env
        variables |= _mps_environment(tenant.mps) if tenant.mps is not None else {}
    return variables | tenant.env


def path_with_ours(environ: Mapping[str, str]) -> str:
    """PATH with our own environment's programs behind the user's: a scenario may launch `cotenant serve`."""
    return os.pathsep.join([environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


async def _start_command(
    reaper: Reaper, name: str, tenant: Tenant, *, env: Mapping[str, str], log_dir: Path, tell: Tell
) -> Started:
    url = _url(name, tenant)
    await check_port_free(name, url)
    log = log_dir / f"{name}.log"
    offset_bytes = log.stat().st_size if log.exists() else 0
    begun_ns = time.monotonic_ns()
    # Its own niceness and threads: it is the user's command.
    await reaper.spawn(name, tenant.command or [], log=log, env=env, nice=0)
    trusted = connector(url, tenant.ca_file, insecure=bool(tenant.insecure))
    status = await wait_healthy(
        reaper,
        name,
        url,
        tenant.ready.path,
        limit_ns=tenant.ready.within_ns,
        log_dir=log_dir,
        trusted=trusted,
        tell=tell,
    )
    if not vllm.is_vllm(tenant.command):
        return Started(urls=[url], facts={"ready_status": status})
    total_s = (time.monotonic_ns() - begun_ns) / NS_PER_S
    return Started(
        urls=[url], facts=await vllm.describe(url, log, offset_bytes=offset_bytes, total_s=total_s)
    )


def _is_vllm(tenant: Tenant) -> bool:
    return tenant.vllm is not None or vllm.is_vllm(tenant.command)


def _visible(index: int) -> str:
    """The GPU that CUDA calls number `index` here: an entry of CUDA_VISIBLE_DEVICES where that is set."""
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return visible[index] if index < len(visible) else str(index)


def _url(name: str, tenant: Tenant) -> str:
    if tenant.url is None:
        raise ValueError(f"{name} has no url")  # the scenario's checks see to it
    return tenant.url


def _on_cpu(tenant: Tenant, device_kind: DeviceKind) -> bool:
    return tenant.device == "cpu" or (tenant.device in (None, "auto") and device_kind == "cpu")


def _mps_environment(mps: Mps) -> dict[str, str]:
    """https://docs.nvidia.com/deploy/mps/: limits that a client takes from its environment."""
    variables = {}
    if mps.thread_percentage is not None:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(mps.thread_percentage)
    if mps.priority is not None:
        variables["CUDA_MPS_CLIENT_PRIORITY"] = str(mps.priority)
    return variables
