"""What `auto` becomes on a device: one table, applied to the plain form of a scenario. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from cotenant.scenario.parse import dump, parse
from cotenant.scenario.schema import PROTOCOLS, Scenario
from cotenant.scenario.values import AUTO

DeviceKind = Literal["cpu", "gpu"]

# Every value as it would stand in a scenario. No shapes of a GPU's size are built in yet: it runs tiny ones.
TABLE: Final[Mapping[DeviceKind, Mapping[str, Any]]] = {
    "cpu": {
        "device": "cpu",
        "engine": "builtin",
        "shape": "tiny",
        "listeners": 2,
        "every": "4s",
        "streams": 4,
        "prompt": "4k",
        "measure": "15s",
        "solo": "5s",
        "extend": "0s",
        "decision": "point",
    },
    "gpu": {
        "device": "cuda:0",
        "engine": "builtin",
        "shape": "tiny",
        "listeners": 8,
        "every": "6s",
        "streams": 8,
        "prompt": "32k",
        "measure": "60s",
        "solo": "10s",
        "extend": "3m",
        "decision": "interval",
    },
}

# The lengths of `text: builtin`: 2 to 3 s of speech, or about 5 s.
LONG_TEXTS: Final[Mapping[DeviceKind, bool]] = {"cpu": False, "gpu": True}


def resolve(scenario: Scenario, device_kind: DeviceKind, *, quick: bool = False) -> Scenario:
    """The scenario with every `auto` that applies replaced. `quick` halves `measure` and decides by points.

    Left alone is what means nothing there: the shape of a server not built in, the streams of `mode: rate`.
    Raises UserError where the numbers that `auto` stood for do not fit the rest (more faces than voices).
    """
    table = TABLE[device_kind]
    data = dump(scenario)
    _fill(data, table, ("device", "decision"))
    _fill(data["timing"], table, ("measure", "solo", "extend"))
    for tenant in data["tenants"].values():
        tenant.setdefault("device", data["device"])
        _fill(tenant, {**table, "protocol": PROTOCOLS[tenant["kind"]][0]}, ("device", "engine", "protocol"))
        if tenant["engine"] == "builtin":
            _fill(tenant, table, ("shape",))
        if tenant.get("model") == AUTO:
            del tenant["model"]
    for load in data["load"].values():
        _fill(load, table, ("listeners", "every", "prompt"))
        if load.get("mode") == "alive":
            _fill(load, table, ("streams",))
    resolved = parse(data)
    return _quick(resolved) if quick else resolved


def _fill(data: dict[str, Any], table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        if data.get(key) == AUTO:
            data[key] = table[key]


def _quick(scenario: Scenario) -> Scenario:
    measure_ns = scenario.timing.measure_ns
    assert isinstance(measure_ns, int)
    timing = scenario.timing.model_copy(update={"measure_ns": max(1, measure_ns // 2)})
    return scenario.model_copy(update={"timing": timing, "decision": "point"})
