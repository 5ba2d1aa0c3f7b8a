"""What contradicts in the options of a built-in server; which options only a built-in server has. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.values import AUTO
from cotenant.scenario.yaml_text import Path
from cotenant.units import NS_PER_S, parse_duration_ns

Found = tuple[Path, str]

# By key, the kinds of server that take it.
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": ("speech", "face", "completions"),
    "step_overhead": ("speech", "face", "completions"),
    "voices": ("speech",),
    "context_frames": ("speech",),
}
# A frame of a voice is 80 ms: what spends a second of the host on each is a typing error.
_MOST_OVERHEAD_NS: Final = NS_PER_S


def builtin_only(tenant: Mapping[str, Any]) -> list[str]:
    """The options given that a built-in server alone takes; one that says `auto` asks for nothing."""
    keys = ("shape", "threads", "packets", *_OPTIONS)
    return [key for key in keys if tenant.get(key) not in (None, AUTO)]


def builtin_checks(tenant: Mapping[str, Any]) -> Iterator[Found]:
    """Every option that does not go with the tenant's engine or kind, as (path in the tenant, message)."""
    engine, kind = tenant.get("engine", AUTO), tenant.get("kind")
    for key, kinds in _OPTIONS.items():
        given = tenant.get(key)
        if given is None:
            continue
        if engine in ("launch", "attach") and given != AUTO:
            yield (key,), f"the engine {engine} takes no {key}; remove it, or use engine: builtin"
        elif kind in ("speech", "face", "completions") and kind not in kinds:
            yield (key,), f"{key} is for kind: {' or '.join(kinds)}, and this is {kind}; remove it"
    overhead_ns = _duration_ns(tenant.get("step_overhead"))
    if overhead_ns is not None and overhead_ns > _MOST_OVERHEAD_NS:
        yield (
            ("step_overhead",),
            "this is host time that every single step spends besides its own; write at most 1s, as in 6ms, "
            "or auto for what is fitted to the shape",
        )


def _duration_ns(value: object) -> int | None:
    """A duration that may still be text; None where it is none (told elsewhere), `auto`, or not given."""
    if not isinstance(value, str):
        return None
    try:
        return parse_duration_ns(value)
    except ValueError:
        return None
