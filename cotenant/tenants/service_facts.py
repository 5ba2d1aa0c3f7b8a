"""What services tell of themselves beside the requests under test: models, prefix cache, kind of head."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.scenario.plain import encodable
from cotenant.scenario.schema import Tenant
from cotenant.tenants.http_probe import Answer, connector, get
from cotenant.tenants.vllm_log import read_cache_info
from cotenant.wire.addresses import at_root, over_http, service_url
from cotenant.wire.json_values import COUNT_LIMIT, json_value

_LIMIT_S: Final = 5.0
_BODY_BYTES: Final = 4 << 20
_MODELS: Final = "/v1/models"
_MJPEG: Final = "multipart/x-mixed-replace"
_NO_GET: Final = 405
_YES_AND_NO: Final = {"True": True, "true": True, "False": False, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A name that requests may use; `context_tokens` of prompt and answer, None where that is not told."""

    name: str
    context_tokens: int | None


async def models(url: str, tenant: Tenant) -> list[Model]:
    """Of `/v1/models`, in its order; empty where there is no such list.

    Raises ServiceError for a name that no request can bear, where the tenant's own is not told.
    """
    base = over_http(url)
    for place in dict.fromkeys((service_url(base, _MODELS), at_root(base, _MODELS))):
        answer = await _get(place, tenant)
        if answer.status == 200 and (found := _models_of(answer.body)):
            bad = next((model.name for model in found if not encodable(model.name)), None)
            if bad is not None and tenant.model is None:
                text = f"its {_MODELS} has a name with half of a surrogate pair, {bad[:40]!a}"
                raise ServiceError("protocol", text)
            return found
    return []


async def prefix_cache(url: str, tenant: Tenant) -> bool | None:
    """Whether a vLLM keeps what prompts have in common; None where /metrics does not say."""
    answer = await _get(at_root(over_http(url), "/metrics"), tenant)
    said = read_cache_info(answer.body.decode(errors="replace")).get("enable_prefix_caching")
    return _YES_AND_NO.get(said or "")


async def face_settings(url: str, tenant: Tenant) -> tuple[dict[str, Any], str]:
    """A tenant's settings for this head, and why: MJPEG that is watched, MJPEG that is asked for with the
    audio, else cotenant's own WebSocket."""
    own = {"protocol": "cotenant"}, "its address is asked for cotenant's own WebSocket"
    if not url.startswith(("http://", "https://")):
        return own
    trusted = connector(url, tenant.ca_file, insecure=bool(tenant.insecure))
    # Headers alone: such a stream has no end.
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, ValueError):
        async with (
            asyncio.timeout(_LIMIT_S),
            aiohttp.ClientSession(headers=_headers(tenant), connector=trusted) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            if response.content_type == _MJPEG:
                watched = {"protocol": "mjpeg", "frames": {"audio": {"send": "none"}}}
                return watched, f"a GET is answered with {_MJPEG}, whatever is said; no audio is sent"
            if response.status == _NO_GET:
                return {"protocol": "mjpeg"}, "it takes no GET, so audio is sent by POST"
    return own


def _models_of(body: bytes) -> list[Model]:
    try:
        listed = json_value(body)["data"]
        entries = [entry for entry in listed if isinstance(entry["id"], str) and entry["id"]]
    except (ValueError, LookupError, TypeError):
        return []
    return [Model(name=entry["id"], context_tokens=_count(entry.get("max_model_len"))) for entry in entries]


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value <= COUNT_LIMIT else None


async def _get(url: str, tenant: Tenant) -> Answer:
    trusted = connector(url, tenant.ca_file, insecure=bool(tenant.insecure))
    async with aiohttp.ClientSession(headers=_headers(tenant), connector=trusted) as session:
        return await get(session, url, _LIMIT_S, body_bytes=_BODY_BYTES)


def _headers(tenant: Tenant) -> dict[str, str]:
    key = os.environ.get(tenant.api_key_env, "").strip() if tenant.api_key_env else ""
    return {"User-Agent": "cotenant", **({"Authorization": f"Bearer {key}"} if key else {})}
