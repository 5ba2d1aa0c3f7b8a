"""What a run says of built-in servers on a GPU whose speed is not that of the models they stand for. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.schema import Tenant
from cotenant.verdict.caveats_run import STAND_IN_SHARE

# What servers measure of themselves: `<work>_ms`, beside `published_<work>_ms`.
_WORKS: Final = ("frame", "clip")


def notes(tenants: Mapping[str, Tenant], facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each stand-in that bears more or less than its model, or cannot be compared with it.

    `facts`: what each tenant told when it was ready, as in the manifest's `tenants`.
    """
    for name, told in facts.items():
        tenant = tenants[name]
        if tenant.engine == "builtin" and told.get("device") == "gpu":
            note = _note(tenant, told)
            if note is not None:
                yield f"{name}: {note}"


def _note(tenant: Tenant, told: Mapping[str, Any]) -> str | None:
    if tenant.shape == "tiny":
        return "the tiny shape stands for no real model"
    work = next((work for work in _WORKS if told.get(f"{work}_ms") is not None), None)
    took_ms = told.get(f"{work}_ms")
    published_ms = told.get(f"published_{work}_ms")
    if took_ms is None or published_ms is None:
        mode = f" in mode {told['mode']}" if told.get("mode") else ""
        took = "" if took_ms is None else f": a {work} takes {_ms(took_ms)}"
        return f"no published time to compare {tenant.shape}{mode} with{took}"
    took = f"a {work} takes {_ms(took_ms)}, the published model {_ms(published_ms)}"
    if told.get("optimistic"):
        return f"optimistic stand-in: {took}"
    if took_ms > (1 + STAND_IN_SHARE) * published_ms:
        return f"pessimistic stand-in: {took}"
    return None


def _ms(value_ms: float) -> str:
    return f"{value_ms:.3g} ms"
