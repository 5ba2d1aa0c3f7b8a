"""Asks a speech server what it is and sends it one short request, so that `protocol: auto` is an answer."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import aiohttp

from cotenant.errors import HINTS, CouldNotRun, ServiceError, hint_of
from cotenant.scenario.schema import Tenant
from cotenant.scenario.values import AUTO
from cotenant.secret_forms import HIDDEN, by_form, cut
from cotenant.tenants.http_probe import connector, get
from cotenant.units import NS_PER_S
from cotenant.wire.addresses import at_root, over_http, service_url
from cotenant.wire.http1 import Head, status_kind
from cotenant.wire.json_values import json_value
from cotenant.wire.speech_probe import (
    ASKED,
    PROBE_TEXT,
    Answered,
    Recognised,
    describe,
    read_answer,
    recognise,
)
from cotenant.wire.speech_servers import SERVERS, SpeechCall, SpeechServer, call

_ASK_LIMIT_S: Final = 5.0
_ANSWER_BYTES: Final = 8 << 20
_API_BYTES: Final = 4 << 20
# A key is found whole before the text is cut.
_REFUSAL_BYTES: Final = 1 << 16
_TOLD_CHARACTERS: Final = 300
_AS_WAV: Final = {"response_format": "wav"}
_BY_WAV: Final = "as its WAV header tells"
# What asking in another way could change.
_OF_THE_PROTOCOL: Final = ("protocol", "not_found", "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`protocol` is for the manifest: its `settings` replace the tenant's own. `note` is a sentence for
    people, where something was found out."""

    protocol: Mapping[str, Any]
    note: str | None = None


class NotAsAsked(CouldNotRun):
    """Its first answer is none: `kind` of `records.ERROR_KINDS`, what it `said`, and the `hint` for that."""

    def __init__(self, kind: str, said: str, hint: str) -> None:
        super().__init__(f"{said}; {hint}")
        self.kind, self.said, self.hint = kind, said, hint


async def find(name: str, url: str, tenant: Tenant) -> Found:
    """How this speech server is spoken to. With a protocol in the scenario nothing is asked but a rate that
    neither it nor the answers tell.

    Raises NotAsAsked where `auto` recognises nothing that answers, CouldNotRun where it finds no sample rate.
    """
    if tenant.protocol != AUTO:
        return await _as_named(name, url, tenant)
    return await _try(name, url, tenant, await recognised(url, tenant))


async def recognised(url: str, tenant: Tenant) -> Recognised:
    """What the server says that it is; nothing is spoken."""
    return recognise(await _said(url, tenant))


async def _as_named(name: str, url: str, tenant: Tenant) -> Found:
    told = describe(tenant.protocol)
    server = SERVERS[tenant.protocol]
    if server.rate_from is None or tenant.rate is not None:
        return Found(protocol=told)
    asked, at = SERVERS[server.rate_from], over_http(url)
    if server is not asked and at.endswith(server.path):
        at = at.removesuffix(server.path) + asked.path
    try:
        wav = await _ask(at, tenant, asked, _AS_WAV, tenant.ready.within_ns / NS_PER_S)
        if not wav.told_rate:
            raise ServiceError("protocol", f"the answer ({wav.content_type}) does not tell it")
    except ServiceError as error:
        # The run's own first answer says whether that is a fault.
        why = cut(_without_secrets(str(error), url, tenant), _TOLD_CHARACTERS)
        return Found(protocol=told, note=f"{name}: its sample rate was not found out: {why}")
    told |= {"settings": {"rate": wav.rate_hz}, "rate_told": _BY_WAV}
    return Found(protocol=told, note=f"{name}: {wav.rate_hz} Hz, {_BY_WAV}")


def _session(url: str, tenant: Tenant) -> aiohttp.ClientSession:
    """For one request: some servers hang up after each answer without saying so."""
    key = _key(tenant)
    headers = {"User-Agent": "cotenant", **({"Authorization": f"Bearer {key}"} if key else {})}
    own = connector(url, tenant.ca_file, insecure=bool(tenant.insecure))
    return aiohttp.ClientSession(headers=headers, connector=own)


def _key(tenant: Tenant) -> str:
    return os.environ.get(tenant.api_key_env, "").strip() if tenant.api_key_env else ""


def _without_secrets(text: str, url: str, tenant: Tenant) -> str:
    """Servers quote keys when they refuse them, and clients quote addresses."""
    parts = urlsplit(url)
    secrets = [_key(tenant), parts.password or "", *(value for _, value in parse_qsl(parts.query))]
    text = by_form(text)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


async def _said(url: str, tenant: Tenant) -> dict[str, Any]:
    said = {}
    for path in ASKED:
        async with _session(url, tenant) as session:
            answer = await get(session, over_http(at_root(url, path)), _ASK_LIMIT_S, body_bytes=_API_BYTES)
        if answer.status == 200:
            try:
                said[path] = json_value(answer.body)
            except ValueError:
                continue
    return said


async def _try(name: str, url: str, tenant: Tenant, recognised: Recognised) -> Found:
    protocol, why = recognised.protocol, recognised.why
    server = SERVERS[protocol]
    told: dict[str, Any] = {**describe(protocol), "why": why, "settings": {"protocol": protocol}}
    if server.body == "socket" or server.needs_speaker:
        return Found(protocol=told, note=f"{name}: protocol {protocol}: {why}")
    limit_s = tenant.ready.within_ns / NS_PER_S
    try:
        answered = await _ask(url, tenant, server, {}, limit_s)
    except ServiceError as error:
        told_error = cut(_without_secrets(str(error), url, tenant), _TOLD_CHARACTERS)
        raise _failed(name, tenant, recognised, error.kind, told_error) from None
    rate_hz, by = tenant.rate or answered.rate_hz, "as the scenario says" if tenant.rate else "as it tells"
    if not answered.told_rate and tenant.rate is None:
        rate_hz, by = await _rate_of_wav(url, tenant, server, limit_s)
    if rate_hz is None:
        raise CouldNotRun(
            f"{name}: the answer ({answered.content_type}) does not tell its sample rate; set "
            f"tenants.{name}.rate to that of the model, as 24000"
        )
    told["settings"] |= {"rate": rate_hz, "sample_format": answered.sample_format}
    told |= {"answers": answered.kind, "rate_told": by}
    note = (
        f"{name}: protocol {protocol}: {why}; it answers {answered.content_type} ({answered.kind}), "
        f"{rate_hz} Hz {answered.sample_format}, {by}"
    )
    return Found(protocol=told, note=note)


async def _rate_of_wav(
    url: str, tenant: Tenant, server: SpeechServer, limit_s: float
) -> tuple[int | None, str]:
    """Raw samples told none: a WAV header of the same server would; else what its protocol's papers say."""
    if "response_format" in server.fixed:
        try:
            wav = await _ask(url, tenant, server, _AS_WAV, limit_s)
        except ServiceError:
            pass
        else:
            if wav.told_rate:
                return wav.rate_hz, _BY_WAV
    return server.rate_hz, "as the protocol's documentation says"


async def _ask(
    url: str,
    tenant: Tenant,
    server: SpeechServer,
    fields: Mapping[str, Any],
    limit_s: float,
) -> Answered:
    """One short request. Raises ServiceError."""
    extra = {**tenant.extra, **fields}
    asked = call(server, PROBE_TEXT, model=tenant.model, voice=tenant.voice, extra=extra)
    try:
        async with asyncio.timeout(limit_s), _session(url, tenant) as session:
            head, body = await _post(session, service_url(url, server.path), asked)
    except TimeoutError:
        raise ServiceError("timeout", f"no answer within {limit_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ServiceError(_kind(error), f"{type(error).__name__}: {error}") from None
    if head.status != 200:
        said = " ".join(body[:_REFUSAL_BYTES].decode(errors="replace").split())
        kind = status_kind(head.status) or "protocol"
        raise ServiceError(kind, f"HTTP {head.status}: {said}", status=head.status)
    answered = read_answer(head, body, server)
    if not answered.samples:
        raise ServiceError("empty", "an answer without any samples")
    return answered


async def _post(session: aiohttp.ClientSession, url: str, asked: SpeechCall) -> tuple[Head, bytes]:
    headers = {"Content-Type": asked.content_type, "Accept-Encoding": "identity"}
    async with session.post(url, data=asked.body, headers=headers, allow_redirects=False) as response:
        body = b""
        try:
            while len(body) < _ANSWER_BYTES:
                piece = await response.content.read(_ANSWER_BYTES - len(body))
                if not piece:
                    break
                body += piece
        except (aiohttp.ClientError, OSError) as error:
            if response.status == 200:  # of a refusal, what came says more
                text = f"its answer (HTTP 200) broke off after {len(body)} bytes ({type(error).__name__})"
                raise ServiceError("truncated", text) from None
        told = {key.lower(): value for key, value in response.headers.items()}
        return Head(status=response.status, headers=told, chunked=False), body


def _kind(error: Exception) -> str:
    """Of `records.ERROR_KINDS`, for a request that got no answer at all."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return "refused" if isinstance(error.os_error, ConnectionRefusedError) else "protocol"
    return "truncated" if isinstance(error, aiohttp.ServerDisconnectedError | OSError) else "protocol"


def _failed(name: str, tenant: Tenant, recognised: Recognised, kind: str, error: str) -> NotAsAsked:
    started = [name] if tenant.engine != "attach" else []
    hint = hint_of(kind, started, tenant=name, key_env=tenant.api_key_env, said=error)
    if recognised.sure:
        who = f"{name}: protocol {recognised.protocol} ({recognised.why})"
        return NotAsAsked(kind, f"{who}, but its first answer: {error}", hint)
    if kind in _OF_THE_PROTOCOL and hint == HINTS[kind]:
        known = ", ".join(SERVERS)
        hint = f"set tenants.{name}.protocol to one of {known}, or correct tenants.{name}.url"
    return NotAsAsked(kind, f"{name}: {recognised.why}: {error}", hint)
