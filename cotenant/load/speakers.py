"""Voices that are numbers: the ones a server lists are asked for once, before its first utterance."""

import asyncio
import json
from typing import Any, Final

import aiohttp

from cotenant.errors import ServiceError
from cotenant.load.desk import Desk
from cotenant.load.settings import Tenant
from cotenant.units import NS_PER_S
from cotenant.wire.addresses import at_root
from cotenant.wire.http1 import status_kind
from cotenant.wire.speech_servers import SERVERS, SPEAKERS_PATH, speaker_fields

_LIMIT_BYTES: Final = 256 << 20


async def fields_of(desk: Desk, tenant: Tenant, limit_ns: int) -> dict[str, Any]:
    """What a request says of its voice beside its name; nothing for most servers. Raises ServiceError."""
    if not SERVERS[tenant.protocol].needs_speaker or "speaker_embedding" in tenant.extra:
        return {}
    if tenant.name not in desk.speakers:
        desk.speakers[tenant.name] = speaker_fields(await _listed(desk, tenant, limit_ns), tenant.voice)
    return desk.speakers[tenant.name]


async def _listed(desk: Desk, tenant: Tenant, limit_ns: int) -> Any:
    url = at_root(tenant.urls[0], SPEAKERS_PATH)
    try:
        async with asyncio.timeout(limit_ns / NS_PER_S):
            async with desk.web.get(
                url, headers=tenant.headers, ssl=desk.transport.trust.of(url) or True, allow_redirects=False
            ) as answer:
                kind = status_kind(answer.status)
                if kind is not None:
                    raise ServiceError(kind, f"{SPEAKERS_PATH}: HTTP {answer.status}", status=answer.status)
                data = b""
                while (piece := await answer.content.read(1 << 20)) and len(data) < _LIMIT_BYTES:
                    data += piece
                return json.loads(data)
    except TimeoutError:
        raise ServiceError("timeout", f"{SPEAKERS_PATH}: no answer in time") from None
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        raise ServiceError("protocol", f"{SPEAKERS_PATH}: {error}") from None
