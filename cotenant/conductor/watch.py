"""What watches a run beside its load: the observers' commands, and what they told when they had started."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.conductor.context import OBSERVER, Run
from cotenant.observers import ready
from cotenant.scenario.schema import Scenario
from cotenant.tenants import launch
from cotenant.tenants.reaper_client import Reaper

GPU: Final = "gpu"
CANARY: Final = "gpu-canary"
HOST: Final = "host"
# Those that print a line once they are ready, or why they are not.
_TELL: Final = (GPU, CANARY)


async def start_observers(
    run: Run,
    reaper: Reaper,
    urls: Mapping[str, Sequence[str]],
    shared_env: Mapping[str, str] = launch.NO_ENV,
) -> None:
    """What is watched beside the load: the host, the engines' own metrics, the GPU.

    After the tenants, whose processes they watch; a load process reports its own CPU time. `shared_env` is
    for the one that works on the GPU itself, the canary.
    """
    chosen = commands(run.scenario, run.device.kind, urls, reaper.pids(), reaper.pid)
    for name, (module, *flags) in chosen.items():
        await reaper.spawn(
            OBSERVER + name,
            [sys.executable, "-m", module, "--run-dir", str(run.run_dir), *flags],
            env=shared_env if name == CANARY else {},
            log=run.own_logs() / f"observer-{name}.log",
            # The host's sleeper is to feel what the tenants do to their cores.
            cpus=run.manifest["cores"]["tenants" if name == HOST else "watch"],
        )


def commands(
    scenario: Scenario,
    device_kind: str,
    urls: Mapping[str, Sequence[str]],
    pids: Mapping[str, int],
    run_pid: int,
) -> dict[str, list[str]]:
    """Observer -> its module and flags, without those that the scenario switches off.

    `pids`: of all children by id, of which those without a colon are tenants; `run_pid`: what all descend
    from.
    """
    tenants = ",".join(f"{name}={pid}" for name, pid in sorted(pids.items()) if ":" not in name)
    observe = scenario.observe
    chosen = {}
    if observe.host:
        chosen[HOST] = ["cotenant.observers.host", "--pids", tenants, "--run-pid", str(run_pid)]
    for name in urls if observe.engine else ():
        tenant = scenario.tenants[name]
        if tenant.kind == "completions":
            key = ["--api-key-env", tenant.api_key_env] if tenant.api_key_env else []
            key += ["--ca-file", tenant.ca_file] if tenant.ca_file is not None else []
            key += ["--insecure"] if tenant.insecure else []
            module = "cotenant.observers.engine_metrics"
            chosen[f"engine-{name}"] = [module, "--tenant", name, "--url", urls[name][0], *key]
    if device_kind == "gpu":
        gpu = scenario.device if scenario.device not in ("auto", "gpu") else "cuda:0"
        run = ["--run-pid", str(run_pid)]
        if observe.gpu:
            chosen[GPU] = ["cotenant.observers.gpu", "--gpu", gpu, "--pids", tenants, *run]
        if observe.canary:
            chosen[CANARY] = ["cotenant.observers.gpu_canary", "--device", gpu]
    return chosen


def note_observers(run: Run, *, tell: bool) -> None:
    """Puts what the observers have told so far into the manifest, and shows it where `tell`."""
    told: dict[str, dict[str, Any]] = {}
    for name in _TELL:
        log = run.own_logs() / f"observer-{name}.log"
        if log.exists():
            told[name] = ready.report(log.read_text(encoding="utf-8", errors="replace"))
    if told and told != run.manifest.get("observers"):
        run.note("observers", told)
    for name in told if tell else ():
        for sentence in ready.sentences(f"observer {name}", told[name]):
            run.progress.line(sentence)
