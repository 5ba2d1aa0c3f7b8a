"""One request to one service: the first of a run's warm-up, recorded in a folder that is thrown away."""

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
from cotenant.errors import UserError, hint_of
from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.desk import Desk
from cotenant.load.face_link import web_session
from cotenant.load.process import trust_of
from cotenant.load.settings import CompletionsLoad, FacesLoad, Load, Settings, read_settings
from cotenant.load.sockets import keep_stamps_on
from cotenant.load.stage import Stage
from cotenant.load.transport import Transport
from cotenant.load.warm import Warmth, warm_one
from cotenant.playback.arrivals import Int64Array
from cotenant.records import SCHEMA_VERSION, WARM_STAGE
from cotenant.report.doctor.facts import Failed, Tried
from cotenant.report.doctor.tried import face_numbers, failed, llm_numbers, voice_numbers
from cotenant.run_dir import manifest
from cotenant.run_dir.reader import read
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.parse import hide_query
from cotenant.scenario.schema import Scenario, Tenant

# Enough to see a rate; a long prompt is paid for, and whether it fits is told otherwise.
_PROMPT_TOKENS: Final = 128
_ANSWER_TOKENS: Final = 32
_NOWHERE: Final = "http://127.0.0.1:9"
_TABLES: Final = {"voices": "chunks", "faces": "frames", "completions": "tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came: as findings have it, the stream's row, its arrivals in their order, and how it went in the
    words of a warm-up."""

    tried: Tried
    row: Mapping[str, Any]
    arrivals: pa.Table
    warmth: Warmth

    def voice_ns(self) -> tuple[Int64Array, Int64Array]:
        """Of a voice: when each chunk came, and how long it lasts."""
        arrival, media = (self.arrivals[key].to_pylist() for key in ("arrival", "media"))
        return np.array(arrival, dtype=np.int64), np.array(media, dtype=np.int64)


def attached(scenario: Scenario, name: str) -> tuple[Tenant, Tried]:
    """A tenant with an address, and what is known of it before anything is sent."""
    tenant = scenario.tenants[name]
    assert tenant.url is not None
    return tenant, Tried(tenant=name, kind=tenant.kind, url=hide_query(tenant.url))


def failed_of(name: str, tenant: Tenant, kind: str | None, text: str | None) -> Failed:
    """With the hint for this tenant."""
    plain = failed(kind, text)
    return replace(plain, hint=hint_of(plain.kind, tenant=name, key_env=tenant.api_key_env, said=plain.text))


async def ask_once(base: Tried, scenario: Scenario, found: Mapping[str, Any], folder: Path) -> Asked:
    """Sends the tenant of `base` one request, and another only where an LLM refuses its form.

    `scenario` is resolved; `found` replaces settings of the tenant, as in `load_specs`. Raises UserError for
    a tenant that no stage uses, ValueError for a key that is none.
    """
    tenant = scenario.tenants[base.tenant]
    settings = _settings(scenario, base.tenant, found, folder)
    (load,) = settings.loads.values()
    row, arrivals, warmth = await _record(settings, load, folder)
    asked = Asked(tried=base, row=row, arrivals=arrivals, warmth=warmth)
    if warmth.failures:
        return replace(asked, tried=replace(base, failed=failed_of(base.tenant, tenant, *warmth.failures[0])))
    if isinstance(load, CompletionsLoad):
        times, tokens = (arrivals[key].to_pylist() for key in ("arrival", "tokens"))
        if not times:
            return replace(asked, tried=replace(base, failed=failed("empty", "an answer without any tokens")))
        measured = llm_numbers(row, times, tokens, load.output) | {"form": dict(warmth.request or {})}
    elif isinstance(load, FacesLoad):
        times, shown_at, sizes = (arrivals[key].to_pylist() for key in ("arrival", "media_time", "bytes"))
        measured = face_numbers(row, times, shown_at, sizes, load.fps)
    else:
        arrival_ns, media_ns = asked.voice_ns()
        if not media_ns.sum():
            return replace(
                asked, tried=replace(base, failed=failed("empty", "an answer without any samples"))
            )
        measured = voice_numbers(row, arrival_ns, media_ns, arrivals["bytes"].to_pylist())
    return replace(asked, tried=replace(base, measured=measured, settings=dict(found)))


def _settings(scenario: Scenario, name: str, found: Mapping[str, Any], folder: Path) -> Settings:
    """What a load process with the tenant's load would be told, of one stream alone."""
    urls = {each: [tenant.url or _NOWHERE] for each, tenant in scenario.tenants.items()}
    specs = load_specs(
        scenario, urls, run_dir=folder, run_id=f"doctor-{time.time_ns()}", long_texts=False,
        audio_limit_bytes=0, found={name: found},
    )  # fmt: skip
    spec = next((spec for spec in specs.values() if name in spec["tenants"]), None)
    if spec is None:
        raise UserError(f"no stage of {scenario.name} uses {name}: give it a load, and a stage that load")
    # Of the others nothing is asked, so that their keys are not looked at.
    settings = read_settings({**spec, "tenants": {name: spec["tenants"][name]}})
    load = _single([load for load in settings.loads.values() if load.tenant == name])
    return replace(settings, loads={load.name: load})


def _single(loads: list[Load]) -> Load:
    """One stream of the first load, of the shortest prompt where there are several."""
    first = loads[0]
    if not isinstance(first, CompletionsLoad):
        return replace(first, listeners=1)
    prompt = min(_PROMPT_TOKENS, *(load.prompt for load in loads if isinstance(load, CompletionsLoad)))
    return replace(first, streams=1, prompt=prompt, output=_ANSWER_TOKENS)


async def _record(settings: Settings, load: Load, folder: Path) -> tuple[Mapping[str, Any], pa.Table, Warmth]:
    """The request from its sending to its end, as it was recorded."""
    writer = RunWriter(folder, load.tenant, audio_limit_bytes=None)
    async with AsyncExitStack() as stack:
        stack.callback(writer.close)
        stack.enter_context(keep_stamps_on())
        web = await stack.enter_async_context(web_session())
        transport = Transport(ClockMap(read_pair()), trust=trust_of(settings))
        desk = Desk(settings=settings, writer=writer, transport=transport, web=web)
        stage = Stage(name=WARM_STAGE, round=0, start_ns=time.monotonic_ns())
        try:
            warmth = await warm_one(desk, stage, load.name, tokens=_ANSWER_TOKENS)
        finally:
            await stage.drain("aborted")
    manifest.write(folder, {"schema": SCHEMA_VERSION, "tool": manifest.TOOL})
    tables = read(folder).tables
    row = tables["streams"].to_pylist()[-1]
    table = tables[_TABLES[row["kind"]]]
    return row, table.filter(pc.equal(table["stream"], row["stream"])), warmth
