"""One request to each service, by the load's own clients, into a run directory that is thrown away."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.conductor.load_spec import load_specs
from cotenant.errors import CouldNotRun, ServiceError, hint_of
from cotenant.load.asker import ask, prepare
from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.desk import Desk
from cotenant.load.face_link import web_session
from cotenant.load.process import trust_of
from cotenant.load.prompts import dialect_of, may_chat
from cotenant.load.settings import CompletionsLoad, FacesLoad, Settings, VoicesLoad, read_settings
from cotenant.load.sockets import keep_stamps_on
from cotenant.load.solo_face import one_clip, recordings
from cotenant.load.stage import Stage
from cotenant.load.transport import Transport
from cotenant.load.voice import Turn, speak
from cotenant.records import SCHEMA_VERSION, WARM_STAGE
from cotenant.report.doctor.tried import Failed, Tried, face_numbers, failed, llm_numbers, voice_numbers
from cotenant.run_dir import manifest
from cotenant.run_dir.reader import read
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.parse import hide_query
from cotenant.scenario.schema import Scenario, Tenant
from cotenant.scenario.values import AUTO
from cotenant.tenants import attach, service_facts, speech_probe
from cotenant.units import NS_PER_S
from cotenant.wire.dialect import relaxed

_NOWHERE: Final = "http://127.0.0.1:9"
_REQUEST_LIMIT_NS: Final = 120 * NS_PER_S
_CLIP_LIMIT_S: Final = 120.0
_PROMPT_TOKENS: Final = 128
_ANSWER_TOKENS: Final = 32
_TEXT: Final = "One sentence is enough to hear how this voice begins, goes on and ends."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """The last stream's row, its arrivals in their order."""

    row: Mapping[str, Any]
    arrivals: pa.Table


async def try_speech(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Asks the server what it is, then has one sentence spoken. `scenario` is resolved."""
    tenant, url = _attached(scenario, name)
    base = Tried(tenant=name, kind="speech", url=hide_query(url))
    settings: dict[str, Any] = {}
    told: list[str] = []
    unsure: Failed | None = None
    try:
        found = await speech_probe.find(name, url, tenant)
        settings = dict(found.protocol["settings"]) or {"protocol": found.protocol["name"]}
        told.append((found.note or f"{name}: protocol {tenant.protocol}").removeprefix(f"{name}: "))
        if found.protocol["experimental"]:
            told.append("this protocol is experimental here: it never met its real server")
    except CouldNotRun as error:
        # What kind of failure it is, the timed request says.
        unsure = failed("protocol", str(error).removeprefix(f"{name}: "))
        settings = {"protocol": "openai" if tenant.protocol == AUTO else tenant.protocol}
    if tenant.model is None:
        try:
            models = await service_facts.models(url, tenant)
        except ServiceError as error:
            return replace(base, failed=_failed(name, tenant, error.kind, str(error)))
        settings |= {"model": models[0].name} if len(models) == 1 else {}
    voices = next(load for load in _settings(scenario, name, {name: settings}, folder).loads.values()
                  if isinstance(load, VoicesLoad) and load.tenant == name)  # fmt: skip

    async def once(desk: Desk, stage: Stage) -> None:
        turn = Turn(listener=0, due_ns=time.monotonic_ns(), delayed_ns=0, line=lambda: (-1, _TEXT), tap=None)
        await speak(desk, stage, voices, turn)

    recorded = await _record(scenario, name, {name: settings}, folder, once)
    if (why := _why_failed(name, tenant, recorded.row)) is not None or unsure is not None:
        # A refusal of the plain request is the better reason; one that went through leaves the finder's.
        return replace(base, failed=why or unsure)
    chunks = recorded.arrivals
    arrival_ns, media_ns = (np.array(chunks[key].to_pylist(), dtype=np.int64) for key in ("arrival", "media"))
    if not media_ns.sum():
        return replace(base, failed=failed("empty", "an answer without any samples"))
    measured = voice_numbers(recorded.row, arrival_ns, media_ns, chunks["bytes"].to_pylist())
    return replace(base, told=tuple(told), measured=measured, settings=settings)


async def try_face(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Lets the head play a recording that ships with cotenant. `scenario` is resolved."""
    tenant, url = _attached(scenario, name)
    base = Tried(tenant=name, kind="face", url=hide_query(url))
    settings, why = {"protocol": tenant.protocol}, "as the scenario says"
    if tenant.protocol == AUTO:
        settings, why = await service_facts.face_settings(url, tenant)
    faces = next(load for load in _settings(scenario, name, {name: settings}, folder).loads.values()
                 if isinstance(load, FacesLoad) and load.tenant == name)  # fmt: skip

    async def once(desk: Desk, stage: Stage) -> None:
        path = min(recordings(None), key=lambda path: path.stat().st_size)
        async with asyncio.timeout(_CLIP_LIMIT_S):
            await one_clip(desk, stage, faces, 0, lambda: (-1, path), time.monotonic_ns())

    try:
        recorded = await _record(scenario, name, {name: settings}, folder, once)
    except TimeoutError:
        return replace(base, failed=failed("timeout", f"the clip did not end within {_CLIP_LIMIT_S:.0f} s"))
    if (failure := _why_failed(name, tenant, recorded.row)) is not None:
        if failure.kind in ("protocol", "not_found") and tenant.protocol == AUTO:
            hint = (
                f"if it speaks otherwise: --set tenants.{name}.protocol=websocket --set "
                f"tenants.{name}.frames.image=data.frame, or give the http address of an MJPEG stream"
            )
            failure = replace(failure, hint=hint)
        return replace(base, failed=failure)
    table = recorded.arrivals
    arrival_ns, media_ns, sizes = (table[key].to_pylist() for key in ("arrival", "media_time", "bytes"))
    measured = face_numbers(recorded.row, arrival_ns, media_ns, sizes, faces.fps)
    return replace(
        base, told=(f"protocol {settings['protocol']}: {why}",), measured=measured, settings=settings
    )


async def try_llm(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Has one prompt answered in whatever form the server takes. `scenario` is resolved."""
    tenant, url = _attached(scenario, name)
    base = Tried(tenant=name, kind="completions", url=hide_query(url))
    try:
        models = await service_facts.models(url, tenant)
    except ServiceError as error:
        return replace(base, failed=_failed(name, tenant, error.kind, str(error)))
    settings: dict[str, Any] = {"model": models[0].name} if models and tenant.model is None else {}
    settings["protocol"] = "openai" if tenant.protocol == AUTO else tenant.protocol
    load = CompletionsLoad(
        name="ask", tenant=name, mode="alive", streams=1, rate_per_s=None, prompt=_PROMPT_TOKENS,
        output=_ANSWER_TOKENS,
    )  # fmt: skip
    forms: list[Mapping[str, Any]] = []

    async def once(desk: Desk, stage: Stage) -> None:
        forms.extend(await _ask_in_some_form(desk, stage, load))

    recorded = await _record(scenario, name, {name: settings}, folder, once)
    if (failure := _why_failed(name, tenant, recorded.row)) is not None:
        return replace(base, failed=failure)
    table = recorded.arrivals
    if not table.num_rows:
        return replace(base, failed=failed("empty", "an answer without any tokens"))
    form = forms[-1]
    cache = await service_facts.prefix_cache(url, tenant)
    context = models[0].context_tokens if models else None
    told = [_form_text(form), *await _vllm_lines(url, tenant)]
    if cache is not None:
        told.append(f"prefix cache {'on: no two of the prompts here begin alike' if cache else 'off'}")
    if context is not None:
        told.append(f"{context} tokens of prompt and answer together")
    measured = llm_numbers(
        recorded.row, table["arrival"].to_pylist(), table["tokens"].to_pylist(), _ANSWER_TOKENS
    ) | {"prefix_cache": cache, "form": dict(form)}
    if tenant.protocol == AUTO:
        settings["protocol"] = form["protocol"]
    return replace(base, told=tuple(told), measured=measured, settings=settings, context_tokens=context)


async def _ask_in_some_form(desk: Desk, stage: Stage, load: CompletionsLoad) -> list[Mapping[str, Any]]:
    """Asks until the server takes the form of the request, or no other is left; the forms that were tried."""
    tenant = desk.settings.tenants[load.tenant]
    forms: list[Mapping[str, Any]] = []
    while True:
        dialect = dialect_of(desk, tenant)
        forms.append(dialect.fact())
        body = prepare(desk, load, load.output)
        outcome = (await ask(desk, stage, load, 0, time.monotonic_ns(), body)).outcome
        if outcome.end == "eos":
            return forms
        then = relaxed(dialect, outcome.status, outcome.error or "", may_chat=may_chat(tenant))
        if then is None:
            return forms
        desk.dialects[load.tenant] = then


async def _vllm_lines(url: str, tenant: Tenant) -> list[str]:
    told = await attach.facts(url, ca_file=tenant.ca_file, insecure=bool(tenant.insecure))
    return [f"vLLM {told['version']}, a KV cache of {told['kv_cache']['tokens']} tokens"] if told else []


def _form_text(form: Mapping[str, Any]) -> str:
    usage = {"running": "usage with each message", "last": "usage at the end", "none": "no usage"}
    without = f", without {', '.join(form['without'])}" if form["without"] else ""
    prompt = "token ids" if form["prompt"] == "ids" else "text"
    return f"{form['protocol']}, prompts as {prompt}, {usage[form['usage']]}{without}"


def _attached(scenario: Scenario, name: str) -> tuple[Tenant, str]:
    tenant = scenario.tenants[name]
    assert tenant.url is not None
    return tenant, tenant.url


def _settings(
    scenario: Scenario, name: str, found: Mapping[str, Mapping[str, Any]], folder: Path
) -> Settings:
    """What a load process with the tenant's loads would be told. Raises ValueError for a key that is none."""
    urls = {each: [tenant.url or _NOWHERE] for each, tenant in scenario.tenants.items()}
    specs = load_specs(
        scenario, urls, run_dir=folder, run_id=f"doctor-{time.time_ns()}", long_texts=False,
        audio_limit_bytes=0, found=found,
    )  # fmt: skip
    spec = next(spec for spec in specs.values() if name in spec["tenants"])
    # Of the others nothing is asked, so that their keys are not looked at.
    spec = {**spec, "tenants": {name: spec["tenants"][name]}}
    return replace(read_settings(spec), request_limit_ns=_REQUEST_LIMIT_NS)


async def _record(
    scenario: Scenario, name: str, found: Mapping[str, Mapping[str, Any]], folder: Path, once: Any
) -> _Recorded:
    """Runs `once(desk, stage)` to its end and reads what it wrote."""
    settings = _settings(scenario, name, found, folder)
    writer = RunWriter(folder, name, audio_limit_bytes=None)
    async with AsyncExitStack() as stack:
        stack.callback(writer.close)
        stack.enter_context(keep_stamps_on())
        web = await stack.enter_async_context(web_session())
        transport = Transport(ClockMap(read_pair()), trust=trust_of(settings))
        desk = Desk(settings=settings, writer=writer, transport=transport, web=web)
        stage = Stage(name=WARM_STAGE, round=0, start_ns=time.monotonic_ns())
        try:
            await once(desk, stage)
        finally:
            await stage.drain("aborted")
    manifest.write(folder, {"schema": SCHEMA_VERSION, "tool": manifest.TOOL})
    tables = read(folder).tables
    row = tables["streams"].to_pylist()[-1]
    table = {"voices": "chunks", "faces": "frames", "completions": "tokens"}[row["kind"]]
    return _Recorded(row=row, arrivals=tables[table].filter(pc.equal(tables[table]["stream"], row["stream"])))


def _why_failed(name: str, tenant: Tenant, row: Mapping[str, Any]) -> Failed | None:
    return None if row["end"] == "eos" else _failed(name, tenant, row["error_kind"], row["error"])


def _failed(name: str, tenant: Tenant, kind: str | None, text: str | None) -> Failed:
    """With the hint for this tenant."""
    plain = failed(kind, text)
    return replace(plain, hint=hint_of(plain.kind, tenant=name, key_env=tenant.api_key_env, said=plain.text))
