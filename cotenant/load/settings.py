"""What a load process is told: the spec line of the control socket, read once, durations in nanoseconds."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cotenant.playback.options import PlayerOptions
from cotenant.scenario.hidden import SHORTEST, Secrets, values_in
from cotenant.secret_forms import is_secret
from cotenant.units import parse_duration_ns, parse_rate_per_s, parse_size
from cotenant.wire.addresses import service_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One service under test, as its clients see it. `headers` hold the key, if there is one.

    `frames` says where a head of another protocol has its frames, as the scenario has it. `ca_file`: whose
    certificates to trust besides; `insecure`: any. `secrets`: the key, what else of the addresses is nobody's
    business, what is secret in what is sent, and `others`: those of the whole scenario, which a service that
    was started with them may tell.
    """

    name: str
    urls: Sequence[str]
    model: str | None
    voice: str | None
    extra: Mapping[str, Any]
    rate_hz: int | None
    sample_format: str | None
    headers: Mapping[str, str]
    protocol: str = "openai"
    frames: Mapping[str, Any] = field(default_factory=dict)
    ca_file: str | None = None
    insecure: bool = False
    others: Sequence[str] = ()
    secrets: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        # Once, not for every request: a voice's sample may stand in `extra`.
        object.__setattr__(self, "secrets", self._found_secrets())

    def _found_secrets(self) -> tuple[str, ...]:
        parts = [urlsplit(url) for url in self.urls]
        found = [self.headers.get("Authorization", "").removeprefix("Bearer ")]
        found += [part.password or "" for part in parts]
        queries = [pair for part in parts for pair in parse_qsl(part.query)]
        # A version or a flag is too short to be told from any other text.
        found += [value for name, value in queries if len(value) >= SHORTEST or is_secret(name)]
        found += Secrets.of(values_in([*self.urls, dict(self.extra), dict(self.frames)])).values
        return tuple(secret for secret in dict.fromkeys([*found, *self.others]) if secret)

    def url(self, number: int, path: str) -> str:
        """The address for client `number`: replicas take turns; `service_url` has the rest."""
        return service_url(self.urls[number % len(self.urls)], path)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoicesLoad:
    name: str
    tenant: str
    mode: str
    listeners: int
    every_ns: int
    pause_ns: int
    measured: Sequence[str]
    settling: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacesLoad:
    name: str
    tenant: str
    follows: str
    listeners: int
    fps: int
    realtime: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsLoad:
    name: str
    tenant: str
    mode: str
    streams: int
    rate_per_s: float | None
    prompt: int
    output: int


Load = VoicesLoad | FacesLoad | CompletionsLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole spec."""

    name: str
    index: int
    run_dir: Path
    run_id: str
    seed: int
    audio_limit_bytes: int | None
    player: PlayerOptions
    stall_limit_ns: int
    request_limit_ns: int
    tenants: Mapping[str, Tenant]
    loads: Mapping[str, Load]


def read_settings(spec: Mapping[str, Any]) -> Settings:
    """Spec line -> Settings. Raises KeyError, TypeError or ValueError for one that is none."""
    texts, secrets = spec.get("texts", {}), spec.get("secrets", ())
    return Settings(
        name=spec["name"],
        index=spec["index"],
        run_dir=Path(spec["run_dir"]),
        run_id=spec["run_id"],
        seed=spec["seed"],
        audio_limit_bytes=spec["audio_limit_bytes"],
        player=PlayerOptions(**spec["player"]),
        stall_limit_ns=spec["stall_limit_ns"],
        request_limit_ns=spec["request_limit_ns"],
        tenants={name: _tenant(name, tenant, secrets) for name, tenant in spec["tenants"].items()},
        loads={name: _load(name, load, texts.get(name, {})) for name, load in spec["loads"].items()},
    )


def _tenant(name: str, tenant: Mapping[str, Any], secrets: Sequence[str]) -> Tenant:
    key_env = tenant.get("api_key_env")
    key = os.environ.get(key_env, "").strip() if key_env else ""
    if not (key.isascii() and key.isprintable()):
        # Its value must not be told.
        raise ValueError(f"the API key in {key_env} has characters that cannot stand in a header")
    return Tenant(
        name=name,
        urls=tenant["urls"],
        model=tenant.get("model"),
        voice=tenant.get("voice"),
        extra=tenant.get("extra") or {},
        rate_hz=tenant.get("rate"),
        sample_format=tenant.get("sample_format"),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        protocol=tenant.get("protocol") or "openai",
        frames=tenant.get("frames") or {},
        ca_file=tenant.get("ca_file"),
        insecure=bool(tenant.get("insecure")),
        others=secrets,
    )


def _load(name: str, load: Mapping[str, Any], texts: Mapping[str, Sequence[str]]) -> Load:
    if load["kind"] == "voices":
        return VoicesLoad(
            name=name,
            tenant=load["tenant"],
            mode=load["mode"],
            listeners=load["listeners"],
            every_ns=_duration_ns(load["every"]),
            pause_ns=_duration_ns(load["pause"]),
            measured=texts["measured"],
            settling=texts["settling"],
        )
    if load["kind"] == "faces":
        return FacesLoad(
            name=name,
            tenant=load["tenant"],
            follows=load["follows"],
            listeners=load["listeners"],
            fps=load["fps"],
            realtime=load["pace"] == "realtime",
        )
    if load["kind"] != "completions":
        raise ValueError(f"no load is of kind {load['kind']!r}")
    rate = load.get("rate")
    return CompletionsLoad(
        name=name,
        tenant=load["tenant"],
        mode=load["mode"],
        streams=load["streams"] if load["mode"] == "alive" else 1,
        rate_per_s=parse_rate_per_s(rate) if isinstance(rate, str) else rate,
        prompt=_size(load["prompt"]),
        output=_size(load["output"]),
    )


def _duration_ns(value: int | str) -> int:
    return parse_duration_ns(value) if isinstance(value, str) else value


def _size(value: int | str) -> int:
    return parse_size(value) if isinstance(value, str) else value
