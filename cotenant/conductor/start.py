"""Before the first stage: tenants, load processes and observers are started, services warmed."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.conductor import stand_ins
from cotenant.conductor.context import LOAD, Run, State
from cotenant.conductor.control import ControlServer, LoadProcess, LoadProcessLost
from cotenant.conductor.gone import ended_by
from cotenant.conductor.load_spec import group_loads, load_specs
from cotenant.conductor.plan import used_loads, used_tenants
from cotenant.conductor.reporter import Reporter
from cotenant.errors import CouldNotRun, hint_of
from cotenant.scenario.auto import LONG_TEXTS
from cotenant.scenario.schema import Tenant
from cotenant.tenants import launch, speech_probe
from cotenant.tenants.elsewhere import elsewhere
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S, duration_text
from cotenant.wire.protocols import protocol_fact

_HELLO_LIMIT_S: Final = 30.0
# By a field that a server refuses, what follows from that.
_WITHOUT: Final = {
    "ignore_eos": "its answers end where the model ends them, and may be shorter than `output`",
    "temperature": "its answers are sampled as it likes",
}


async def start_tenants(
    run: Run, reaper: Reaper, shared_env: Mapping[str, str] = launch.NO_ENV
) -> dict[str, list[str]]:
    """Tenant -> its URLs, started in turn; what they told goes into the manifest. Raises CouldNotRun.

    `shared_env` is what each that uses the GPU gets, as MPS's clients need.
    """
    used = {name: run.scenario.tenants[name] for name in used_tenants(run.scenario)}
    kind = run.device.kind
    looking = asyncio.create_task(launch.look_ahead(used, device_kind=kind, shared_env=shared_env))
    started = {}
    try:
        for name in launch.start_order(used):
            run.mark_now("tenant", name)
            if used[name].vllm is not None:
                await looking
            started[name] = await launch.start_tenant(
                reaper,
                name,
                used[name],
                device_kind=kind,
                log_dir=run.run_dir / "logs",
                seed=run.scenario.seed,
                shared_env=shared_env,
                tell=lambda text: run.progress.line(run.secrets.text(text)),
            )
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    facts = {name: dict(started[name].facts) for name in used if started[name].facts}
    for name, tenant in used.items():
        if tenant.kind == "speech" and tenant.engine != "builtin":
            protocol = await _speech_protocol(run, name, started[name].urls[0], facts.get(name, {}))
            facts[name] = {**facts.get(name, {}), "speech_protocol": protocol}
        elif tenant.kind != "speech" and tenant.engine != "builtin":
            audio_send = None if tenant.frames is None else tenant.frames.audio.send
            protocol = protocol_fact(tenant.kind, tenant.protocol, audio_send)
            facts[name] = {**facts.get(name, {}), "protocol": protocol}
    away = [name for name, one in used.items() if one.engine == "attach" and await elsewhere(one.url or "")]
    for name in away:
        facts[name] = {**facts.get(name, {}), "elsewhere": True}
    run.note("tenants", facts)
    for note in (*stand_ins.notes(used, facts), *_insecure(used), *_away(away)):
        run.progress.line(note)
    return {name: started[name].urls for name in used}


def _away(names: Sequence[str]) -> list[str]:
    where = "is on another machine" if len(names) == 1 else "are on other machines"
    text = f"{', '.join(names)} {where}, by the address: what is read of CPU and GPU is this one's"
    return [text] if names else []


def _insecure(used: Mapping[str, Tenant]) -> list[str]:
    names = ", ".join(name for name, tenant in used.items() if tenant.insecure)
    text = (
        "INSECURE: the certificate of {} is not checked; whoever is on the way reads keys, prompts and audio"
    )
    return [text.format(names)] if names else []


async def _speech_protocol(run: Run, name: str, url: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = await speech_probe.find(name, url, run.scenario.tenants[name])
    except CouldNotRun as error:
        # A server that was started here says in its log why.
        early = _early(name, facts)
        why = f"{error} ({early})" if early else error
        raise CouldNotRun(f"{why}{launch.log_tail(run.run_dir / 'logs', name)}") from None
    if found.note is not None:
        run.progress.line(run.secrets.text(found.note))
    return dict(found.protocol)


async def start_load(
    run: Run, control: ControlServer, reaper: Reaper, urls: Mapping[str, Sequence[str]]
) -> dict[str, LoadProcess]:
    """Load -> its process, connected and told what to do. Raises CouldNotRun."""
    specs = load_specs(
        run.scenario,
        urls,
        run_dir=run.run_dir,
        run_id=run.run_id,
        long_texts=LONG_TEXTS[run.device.kind],
        audio_limit_bytes=run.audio_limit_bytes // max(1, len(group_loads(run.scenario))),
        found={
            name: told["speech_protocol"]["settings"]
            for name, told in run.manifest.get("tenants", {}).items()
            if "speech_protocol" in told
        },
    )
    by_load: dict[str, LoadProcess] = {}
    for name, spec in specs.items():
        process = control.expect(name)
        await reaper.spawn(
            LOAD + name,
            [sys.executable, "-m", "cotenant.load.process"],
            env={"COTENANT_CONTROL": str(control.path), "COTENANT_NAME": name},
            log=run.own_logs() / f"load-{name}.log",
            cpus=run.manifest["cores"]["load"],
        )
        try:
            async with asyncio.timeout(_HELLO_LIMIT_S):
                await process.wait("connected")
                await process.send(**spec)
        except (TimeoutError, LoadProcessLost) as error:
            raise CouldNotRun(
                f"the load process {name!r} did not start ({error}); see {run.own_logs()}"
            ) from None
        by_load.update(dict.fromkeys(spec["loads"], process))
    return by_load


async def warm(run: Run, state: State, processes: Mapping[str, LoadProcess], report: Reporter) -> None:
    """One request per planned stream. Raises CouldNotRun for a service that answers none of them."""
    for load in used_loads(run.scenario):
        report.phase(f"warming {load}")
        process, tenant = processes[load], run.scenario.load[load].tenant
        # A service may load or compile what it needs at its first request.
        limit_ns = run.scenario.tenants[tenant].ready.within_ns
        process.forget()
        try:
            await process.send(do="warm", load=load)
            async with asyncio.timeout(limit_ns / NS_PER_S):
                warmed = await process.wait("warmed", load=load)
        except LoadProcessLost as lost:
            raise CouldNotRun(f"{lost}; its log is in {run.own_logs()}") from None
        except TimeoutError:
            raise CouldNotRun(
                f"warming the load {load!r} took longer than {duration_text(limit_ns)}; if {tenant!r} needs "
                f"more, set tenants.{tenant}.ready.within"
            ) from None
        if not warmed["ok"]:
            tail = launch.log_tail(run.run_dir / "logs", tenant)
            raise CouldNotRun(
                _why_over(state)
                or f"all {warmed['failed']} warm-up requests of {load!r} to the tenant {tenant!r} failed: "
                f"{warmed.get('error_kind')}: {warmed.get('error')}{_hint(run, tenant, warmed)}{tail}"
            )
        _note_request(run, tenant, warmed.get("request"))
        if (why := _why_over(state)) is not None:
            raise CouldNotRun(why)


def _why_over(state: State) -> str | None:
    """Why a run that has measured nothing yet need not begin."""
    return state.stopped or (ended_by(state.lost, ()) if state.lost else None)


def _hint(run: Run, tenant: str, warmed: Mapping[str, Any]) -> str:
    one = run.scenario.tenants[tenant]
    hint = hint_of(
        str(warmed.get("error_kind")),
        [tenant] if one.engine != "attach" else [],
        tenant=tenant,
        key_env=one.api_key_env,
        said=str(warmed.get("error")),
    )
    early = _early(tenant, run.manifest.get("tenants", {}).get(tenant, {}))
    hint = "; ".join(filter(None, (hint, early)))
    return f" ({hint})" if hint else ""


def _early(tenant: str, facts: Mapping[str, Any]) -> str | None:
    """What may be the matter with a server that has no health path."""
    status = facts.get("ready_status", 200)
    if 200 <= status < 300:
        return None
    return (
        f"it has no /health ({status}), so its first answer counted as started; if it still loads, name "
        f"a path that answers 200 only then in tenants.{tenant}.ready.path"
    )


def _note_request(run: Run, tenant: str, request: Mapping[str, Any] | None) -> None:
    """Records in which form an LLM takes its requests, and says so where it is not the usual one."""
    tenants = dict(run.manifest.get("tenants") or {})
    known = dict(tenants.get(tenant) or {})
    if request is None or known.get("request") == request:
        return
    tenants[tenant] = {**known, "request": dict(request)}
    run.note("tenants", tenants)
    if request["prompt"] == "text":
        run.progress.line(
            f"{tenant}: {request['protocol']} with prompts of words, whose length is what the server counts"
        )
    for name in request["without"]:
        run.progress.line(f"{tenant}: it refuses {name}, so {_WITHOUT[name]}")
