"""A vLLM as a tenant: started from the scenario's `vllm` block, and what its start told."""

import asyncio
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from cotenant.errors import CouldNotRun, ServiceError
from cotenant.resources import data_dir
from cotenant.scenario.parse import hide_options
from cotenant.scenario.plain import encodable
from cotenant.scenario.schema import Tenant
from cotenant.scenario.vllm import MODEL_SHAPES, Vllm, is_path
from cotenant.tenants import vllm_command, vllm_flags
from cotenant.tenants.http_probe import HEALTH, get, http_url
from cotenant.tenants.ready import Tell, check_port_free, silent, wait_healthy
from cotenant.tenants.reaper_client import Reaper
from cotenant.tenants.vllm_log import read_cache_info, read_log
from cotenant.units import NS_PER_S
from cotenant.wire.json_values import json_object

_HOST: Final = "127.0.0.1"
_PROBE_LIMIT_S: Final = 5.0
_LOG_BYTES: Final = 4 << 20
_VERSION_LETTERS: Final = 80
_COUNT_RE: Final = re.compile(r"[0-9]{1,18}")
_METRICS_BYTES: Final = 4 << 20
_WEIGHTS: Final = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
_TOKENIZERS: Final = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "tekken.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A vLLM that answers: its address, and facts for the manifest (plain JSON, no secrets)."""

    url: str
    facts: Mapping[str, Any]


async def learn(name: str, tenant: Tenant, *, env: Mapping[str, str]) -> None:
    """Ask the vLLM of a resolved tenant for its options, so that `start` has them at once. Raises
    CouldNotRun."""
    block = tenant.vllm
    assert block is not None
    env = {**own_environment(model_files(name, block.model)), **env}
    await vllm_flags.known_options(name, vllm_command.server_prefix(block), env)


async def start(
    reaper: Reaper,
    name: str,
    tenant: Tenant,
    *,
    env: Mapping[str, str],
    log_dir: Path,
    nice: int,
    tell: Tell = silent,
) -> Started:
    """Start the vLLM of a resolved tenant and wait until it is healthy. Raises CouldNotRun."""
    block = tenant.vllm
    assert block is not None
    model = model_files(name, block.model)
    env = {**own_environment(model), **env}
    host, port = _address(tenant)
    url = tenant.url or f"http://{_host_in_url(host)}:{port}"
    await check_port_free(name, url)
    prefix = vllm_command.server_prefix(block)
    known = await vllm_flags.known_options(name, prefix, env)
    try:
        command = vllm_command.build(
            name, block, model, known=known, served_name=served_name(tenant, block), host=host, port=port
        )
    except CouldNotRun as error:
        version = await vllm_flags.installed_version(prefix, env)
        raise CouldNotRun(f"{error}\n  ({prefix[0]} has vLLM {version or 'of an unknown version'})") from None
    log = log_dir / f"{name}.log"
    offset_bytes = log.stat().st_size if log.exists() else 0
    begun_ns = time.monotonic_ns()
    await reaper.spawn(name, command.argv, log=log, env=env, nice=nice)
    path = tenant.ready.path or HEALTH  # which every vLLM has
    limit_ns = tenant.ready.within_ns
    await wait_healthy(reaper, name, url, path, limit_ns=limit_ns, log_dir=log_dir, tell=tell)
    total_s = (time.monotonic_ns() - begun_ns) / NS_PER_S
    facts = {
        "argv": hide_options(command.argv),
        "weights": "dummy" if command.dummy else "real",
        "notes": list(command.notes),
        **await describe(url, log, offset_bytes=offset_bytes, total_s=total_s),
    }
    return Started(url=url, facts=facts)


async def describe(
    url: str,
    log: Path | None,
    *,
    offset_bytes: int = 0,
    total_s: float | None,
    trusted: aiohttp.TCPConnector | None = None,
) -> dict[str, Any]:
    """What a running vLLM tells of itself: by its log (behind `offset_bytes`), `/version` and `/metrics`."""
    told = read_log("" if log is None else _read_log(log, offset_bytes))
    async with aiohttp.ClientSession(connector=trusted) as session:
        version, metrics = await asyncio.gather(
            get(session, http_url(url, "/version"), _PROBE_LIMIT_S),
            get(session, http_url(url, "/metrics"), _PROBE_LIMIT_S, body_bytes=_METRICS_BYTES),
        )
    cache = read_cache_info(metrics.body.decode(errors="replace"))
    fields = asdict(told)
    start_s = {key.removesuffix("_s"): fields[key] for key in ("load_s", "engine_s", "compile_s", "graphs_s")}
    return {
        "engine": "vllm",
        "version": _version_of(version.body) or told.version,
        "arguments": told.arguments,
        "config": {
            **told.config,
            **{key: cache[key] for key in ("block_size", "cache_dtype") if key in cache},
        },
        "weights_bytes": told.weights_bytes,
        "start_s": {"total": None if total_s is None else round(total_s, 2), **start_s, "warm": told.warm},
        "kv_cache": {
            "tokens": told.kv_tokens or _count(cache.get("kv_cache_size_tokens")),
            "blocks": _count(cache.get("num_gpu_blocks")),
            "bytes": told.kv_bytes or _count(cache.get("kv_cache_memory_bytes")),
        },
    }


def model_files(name: str, model: str) -> vllm_command.ModelFiles:
    """Where a model is and what its folder holds. Raises CouldNotRun for a folder that is no model."""
    if model in MODEL_SHAPES:
        folder = data_dir("fixtures") / "models" / model
    elif is_path(model):
        folder = Path(model).expanduser().absolute()
    else:
        return vllm_command.ModelFiles(reference=model)
    where = f"{name}: the model {folder} (tenants.{name}.vllm.model)"
    if not folder.is_dir():
        raise CouldNotRun(f"{where} is no folder; give one, or a name: {', '.join(MODEL_SHAPES)}")
    if not (folder / "config.json").is_file():
        raise CouldNotRun(
            f"{where} has no config.json, which says what the model is; give a folder that has one"
        )
    return vllm_command.ModelFiles(
        reference=str(folder),
        has_weights=any(next(folder.glob(pattern), None) for pattern in _WEIGHTS),
        has_tokenizer=any((folder / file).is_file() for file in _TOKENIZERS),
    )


def own_environment(model: vllm_command.ModelFiles) -> dict[str, str]:
    """No reports to anybody, no colours in the log; no downloads for a model that is a folder."""
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
    return env | ({"HF_HUB_OFFLINE": "1"} if model.has_weights is not None else {})


def served_name(tenant: Tenant, block: Vllm) -> str | None:
    """The name that requests may use: the tenant's `model`, else that of a shape without weights."""
    return tenant.model or (block.model if block.model in MODEL_SHAPES else None)


def is_vllm(command: list[str] | None) -> bool:
    """Whether a user's own command starts a vLLM."""
    return any(Path(part).name == "vllm" or part.startswith("vllm.entrypoints.") for part in command or [])


def _address(tenant: Tenant) -> tuple[str, int]:
    """Host and port of the scenario, else a port that is free now."""
    if tenant.url is not None:
        parts = urlsplit(tenant.url)
        return parts.hostname or _HOST, parts.port or 80
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return _HOST, int(probe.getsockname()[1])


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _read_log(log: Path, offset_bytes: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(offset_bytes, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _version_of(body: bytes) -> str | None:
    try:
        version = json_object(body, "version").get("version")
    except ServiceError:
        return None
    return version[:_VERSION_LETTERS] if isinstance(version, str) and encodable(version) else None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and _COUNT_RE.fullmatch(text) else None
