"""The attached services of a scenario, tried as a run would use them: all at once, one request each."""

import asyncio
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from cotenant.conductor.doctor.one_request import Asked, ask_once, attached, failed_of
from cotenant.conductor.doctor.trial import Tell, run_until_signal, within_limit, without
from cotenant.conductor.doctor.try_service import EXPERIMENTAL, form_text, with_facts_of_llm
from cotenant.conductor.plan import used_loads
from cotenant.errors import CotenantError, ServiceError
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import play
from cotenant.report.doctor.facts import Tried, Trouble
from cotenant.report.doctor.tried import failed
from cotenant.scenario.parse import secrets_of
from cotenant.scenario.schema import Completions, Scenario, Tenant
from cotenant.scenario.services import shortened_prompts
from cotenant.scenario.values import AUTO
from cotenant.tenants import service_facts, speech_probe
from cotenant.tenants.service_facts import Model
from cotenant.units import NS_PER_S, duration_text
from cotenant.wire.protocols import protocol_fact

# What another model, or the right one, could mend.
_OF_THE_MODEL: Final = ("not_found", "protocol")
# What another protocol could.
_OF_THE_PROTOCOL: Final = ("not_found", "protocol", "empty")
_NAMES: Final = 5


def try_attached(
    scenario: Scenario, said: Scenario, names: Sequence[str], *, limit_ns: int, tell: Tell
) -> tuple[Tried, ...]:
    """Tries the tenants called `names` at the same time, each for `limit_ns` at most.

    `scenario` is resolved, `said` is what it was before: there a protocol may be `auto`. `tell`: who is told
    what is waited for. Raises Stopped by a signal.
    """
    return run_until_signal(_try_all(scenario, said, names, limit_ns, tell))


async def _try_all(
    scenario: Scenario, said: Scenario, names: Sequence[str], limit_ns: int, tell: Tell
) -> tuple[Tried, ...]:
    attempt = partial(_try_one, said)
    secrets = secrets_of(scenario, os.environ)

    def tell_plain(text: str) -> None:
        tell(secrets.text(text))

    tried = await asyncio.gather(
        *(within_limit(attempt, scenario, name, limit_ns, tell_plain) for name in names)
    )
    return tuple(
        without(secrets, replace(one, beside=tuple(name for name in names if name != one.tenant)))
        for one in tried
    )


async def _try_one(said: Scenario, scenario: Scenario, name: str, folder: Path) -> Tried:
    tenant, base = attached(scenario, name)
    asked_for = _asked_for(said.tenants[name])
    try:
        tries = {"speech": _try_speech, "face": _try_face, "completions": _try_llm}
        tried = await tries[tenant.kind](scenario, said.tenants[name].protocol, base, folder)
    except speech_probe.NotAsAsked as error:
        text = error.said.removeprefix(f"{name}: ")
        return replace(base, failed=replace(failed(error.kind, text), hint=error.hint))
    except ServiceError as error:
        return replace(base, failed=failed_of(name, tenant, error.kind, str(error)))
    except (CotenantError, ValueError) as error:
        return replace(
            base, failed=replace(failed("protocol", str(error).removeprefix(f"{name}: ")), hint="")
        )
    return replace(tried, told=(asked_for, *tried.told))


async def _try_speech(scenario: Scenario, protocol: str, base: Tried, folder: Path) -> Tried:
    tenant = scenario.tenants[base.tenant]
    found = await speech_probe.find(base.tenant, tenant.url or "", tenant)
    if found.note is not None:
        base = replace(base, told=(_of_auto(found.note.removeprefix(f"{base.tenant}: protocol ")),))
    if found.protocol["experimental"]:
        base = replace(base, notes=(Trouble(text=EXPERIMENTAL),))
    asked = await ask_once(base, scenario, found.protocol["settings"], folder)
    if asked.tried.failed is not None:
        return asked.tried if protocol == AUTO else await _with_protocol(asked.tried, tenant)
    notes = (*asked.tried.notes, *_other_samples(tenant, asked.row), *_would_stall(scenario, asked))
    return replace(asked.tried, notes=notes)


async def _with_protocol(tried: Tried, tenant: Tenant) -> Tried:
    """With the protocol that the server seems to speak, where it was asked in another one."""
    if tried.failed is None or tried.failed.kind not in _OF_THE_PROTOCOL:
        return tried
    seems = await speech_probe.recognised(tenant.url or "", tenant)
    if not seems.sure or seems.protocol == tenant.protocol:
        return tried
    hint = f"{seems.why}: --set tenants.{tried.tenant}.protocol={seems.protocol}"
    return replace(tried, failed=replace(tried.failed, hint=hint))


def _other_samples(tenant: Tenant, row: Any) -> list[Trouble]:
    """What the file says of the samples, and the answer says otherwise."""
    pairs = (
        ("rate", tenant.rate, row["rate_hz"]),
        ("sample_format", tenant.sample_format, row["sample_format"]),
    )
    return [
        Trouble(text=f"the file says {key} {wanted}, and its answers tell {came}: what they tell is taken")
        for key, wanted, came in pairs
        if wanted is not None and wanted != came
    ]


def _would_stall(scenario: Scenario, asked: Asked) -> list[Trouble]:
    """What the scenario's player makes of this one utterance."""
    options = PlayerOptions(
        lookahead_ns=scenario.lookahead_ns, start=scenario.player.start,
        after_underrun=scenario.player.after_underrun, quantum_ns=scenario.player.quantum_ns,
    )  # fmt: skip
    heard = play(*asked.voice_ns(), options, done_ns=asked.row["done"])
    if not heard.underruns or heard.stall_total_ns is None:
        return []
    return [
        Trouble(
            text=f"played with the file's lookahead, {duration_text(scenario.lookahead_ns)}, it stalls for "
            f"{heard.stall_total_ns / NS_PER_S:.2f} s in all"
        )
    ]


async def _try_face(scenario: Scenario, protocol: str, base: Tried, folder: Path) -> Tried:
    tenant = scenario.tenants[base.tenant]
    if protocol == AUTO:
        base = replace(base, told=(_of_auto(f"{tenant.protocol}: that of the built-in head"),))
    audio_send = None if tenant.frames is None else tenant.frames.audio.send
    if protocol_fact("face", tenant.protocol, audio_send)["experimental"]:
        base = replace(base, notes=(Trouble(text=EXPERIMENTAL),))
    tried = (await ask_once(base, scenario, {}, folder)).tried
    if tried.failed is None or protocol != AUTO or tried.failed.kind not in _OF_THE_PROTOCOL:
        return tried
    settings, why = await service_facts.face_settings(tenant.url or "", tenant)
    where = f"tenants.{base.tenant}"
    hint = (
        f"look at its url's path; a run asks for cotenant's own WebSocket there, and another head is told by "
        f"{where}.protocol=websocket and {where}.frames"
    )
    if settings["protocol"] == "mjpeg":
        watch = f" --set {where}.frames.audio.send=none" if "frames" in settings else ""
        hint = f"{why}: --set {where}.protocol=mjpeg{watch}"
    return replace(tried, failed=replace(tried.failed, hint=hint))


async def _try_llm(scenario: Scenario, protocol: str, base: Tried, folder: Path) -> Tried:
    tenant = scenario.tenants[base.tenant]
    models = await service_facts.models(tenant.url or "", tenant)
    tried = (await ask_once(base, scenario, {}, folder)).tried
    if tried.failed is not None:
        return _with_models(tried, tenant, models)
    model = next((one for one in models if tenant.model in (None, one.name)), None)
    tried = await with_facts_of_llm(tried, tenant, model.context_tokens if model is not None else None)
    form = form_text(tried.measured["form"])
    told = _of_auto(form) if protocol == AUTO else f"protocol {tenant.protocol}: {form}"
    if models and model is None:
        text = f"it does not list {tenant.model}, but {_some(models)}; it took the request all the same"
        tried = replace(tried, notes=(Trouble(text=text),))
    return _with_context(scenario, replace(tried, told=(told, *tried.told)))


def _some(models: Sequence[Model]) -> str:
    more = f" and {len(models) - _NAMES} more" if len(models) > _NAMES else ""
    return ", ".join(model.name for model in models[:_NAMES]) + more


def _with_models(tried: Tried, tenant: Tenant, models: Sequence[Model]) -> Tried:
    """With the names that it would take, where it is asked for another one."""
    names = [model.name for model in models]
    assert tried.failed is not None
    if not names or tenant.model in names or tried.failed.kind not in _OF_THE_MODEL:
        return tried
    if tenant.model is None and tried.failed.kind == "not_found":
        return tried  # it was not asked for any, so the path is not there
    setting = shlex.quote(f"tenants.{tried.tenant}.model={names[0]}")
    hint = f"it serves {_some(models)}: --set {setting}"
    return replace(tried, failed=replace(tried.failed, hint=hint))


def _with_context(scenario: Scenario, tried: Tried) -> Tried:
    """With the loads whose requests are longer than what the server holds, or of which that is not known."""
    loads = {
        name: load
        for name in used_loads(scenario)
        if isinstance(load := scenario.load[name], Completions) and load.tenant == tried.tenant
    }
    limit = tried.context_tokens
    if limit is None:
        name, longest = max(loads.items(), key=lambda pair: int(pair[1].prompt) + pair[1].output)
        text = (
            f"how many tokens it holds is not told: whether load.{name} fits, which asks with "
            f"{longest.prompt} for {longest.output}, a run shows"
        )
        return replace(tried, notes=(*tried.notes, Trouble(text=text)))
    shorter = shortened_prompts(scenario, {tried.tenant: limit})
    missing = tuple(
        Trouble(
            text=f"load.{name} asks with {load.prompt} tokens for {load.output}, and it holds {limit} "
            "of both together: it will refuse them all",
            advice=f"--set load.{name}.prompt={shorter[name]}",
        )
        for name, load in loads.items()
        if name in shorter
    )
    return replace(tried, missing=(*tried.missing, *missing))


def _of_auto(found: str) -> str:
    return f"protocol auto is {found}"


def _asked_for(tenant: Tenant) -> str:
    """What of a scenario was in the request; keys and the values of `extra` are nobody's business."""
    said = [f"protocol {tenant.protocol}"] if tenant.protocol != AUTO else []
    keys = ("model", "voice", "rate", "sample_format")
    said += [f"{key} {value}" for key in keys if (value := getattr(tenant, key)) not in (None, AUTO)]
    said += [f"the key in {tenant.api_key_env}"] if tenant.api_key_env else []
    said += [f"extra ({', '.join(tenant.extra)})"] if tenant.extra else []
    said += ["frames"] if tenant.frames is not None else []
    return f"asked with what the file says: {', '.join(said) or 'nothing but its address'}"
