"""A service at an address: what it is and how it is spoken to is found out, then one request is sent."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant.conductor.doctor.one_request import ask_once, attached, failed_of
from cotenant.errors import CouldNotRun, ServiceError
from cotenant.report.doctor.facts import Failed, Tried, Trouble
from cotenant.report.doctor.tried import failed
from cotenant.scenario.schema import Scenario, Tenant
from cotenant.scenario.values import AUTO
from cotenant.tenants import attach, service_facts, speech_probe

EXPERIMENTAL = "this protocol is experimental here: it never met its real server"


async def try_speech(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Asks the server what it is, then has one sentence spoken. `scenario` is resolved."""
    tenant, base = attached(scenario, name)
    url = tenant.url or ""
    settings: dict[str, Any] = {}
    unsure: Failed | None = None
    try:
        found = await speech_probe.find(name, url, tenant)
        settings = dict(found.protocol["settings"]) or {"protocol": found.protocol["name"]}
        told = (found.note or f"{name}: protocol {tenant.protocol}").removeprefix(f"{name}: ")
        notes = (Trouble(text=EXPERIMENTAL),) if found.protocol["experimental"] else ()
        base = replace(base, told=(told,), notes=notes)
    except CouldNotRun as error:
        # What kind of failure it is, the timed request says.
        unsure = failed("protocol", str(error).removeprefix(f"{name}: "))
        settings = {"protocol": "openai" if tenant.protocol == AUTO else tenant.protocol}
    if tenant.model is None:
        try:
            models = await service_facts.models(url, tenant)
        except ServiceError as error:
            return replace(base, failed=failed_of(name, tenant, error.kind, str(error)))
        settings |= {"model": models[0].name} if len(models) == 1 else {}
    tried = (await ask_once(base, scenario, settings, folder)).tried
    # A refusal of the plain request is the better reason; one that went through leaves the finder's.
    return tried if tried.failed is not None or unsure is None else replace(base, failed=unsure)


async def try_face(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Lets the head play a recording that ships with cotenant. `scenario` is resolved."""
    tenant, base = attached(scenario, name)
    settings, why = {"protocol": tenant.protocol}, "as the scenario says"
    if tenant.protocol == AUTO:
        settings, why = await service_facts.face_settings(tenant.url or "", tenant)
    base = replace(base, told=(f"protocol {settings['protocol']}: {why}",))
    tried = (await ask_once(base, scenario, settings, folder)).tried
    if (
        tried.failed is not None
        and tried.failed.kind in ("protocol", "not_found")
        and tenant.protocol == AUTO
    ):
        hint = (
            f"if it speaks otherwise: --set tenants.{name}.protocol=websocket --set "
            f"tenants.{name}.frames.image=data.frame, or give the http address of an MJPEG stream"
        )
        return replace(tried, failed=replace(tried.failed, hint=hint))
    return tried


async def try_llm(scenario: Scenario, name: str, folder: Path) -> Tried:
    """Has one prompt answered in whatever form the server takes. `scenario` is resolved."""
    tenant, base = attached(scenario, name)
    try:
        models = await service_facts.models(tenant.url or "", tenant)
    except ServiceError as error:
        return replace(base, failed=failed_of(name, tenant, error.kind, str(error)))
    settings: dict[str, Any] = {"model": models[0].name} if models and tenant.model is None else {}
    settings["protocol"] = "openai" if tenant.protocol == AUTO else tenant.protocol
    tried = (await ask_once(base, scenario, settings, folder)).tried
    if tried.failed is not None:
        return tried
    context = models[0].context_tokens if models else None
    tried = await with_facts_of_llm(tried, tenant, context)
    form = tried.measured["form"]
    told = (form_text(form), *tried.told)
    if tenant.protocol == AUTO:
        settings["protocol"] = form["protocol"]
    return replace(tried, told=told, settings=settings)


async def with_facts_of_llm(tried: Tried, tenant: Tenant, context_tokens: int | None) -> Tried:
    """With what the server tells of itself: a vLLM's cache, whether it keeps prefixes, its context."""
    url = tenant.url or ""
    cache = await service_facts.prefix_cache(url, tenant)
    told = await _vllm_lines(url, tenant)
    if cache is not None:
        told.append(f"prefix cache {'on: no two of the prompts here begin alike' if cache else 'off'}")
    if context_tokens is not None:
        told.append(f"{context_tokens} tokens of prompt and answer together")
    measured = {**tried.measured, "prefix_cache": cache}
    return replace(tried, told=(*tried.told, *told), measured=measured, context_tokens=context_tokens)


async def _vllm_lines(url: str, tenant: Tenant) -> list[str]:
    told = await attach.facts(url, ca_file=tenant.ca_file, insecure=bool(tenant.insecure))
    return [f"vLLM {told['version']}, a KV cache of {told['kv_cache']['tokens']} tokens"] if told else []


def form_text(form: Mapping[str, Any]) -> str:
    """The form of an LLM's requests, in words."""
    usage = {"running": "usage with each message", "last": "usage at the end", "none": "no usage"}
    without = f", without {', '.join(form['without'])}" if form["without"] else ""
    prompt = "token ids" if form["prompt"] == "ids" else "text"
    return f"{form['protocol']}, prompts as {prompt}, {usage[form['usage']]}{without}"
