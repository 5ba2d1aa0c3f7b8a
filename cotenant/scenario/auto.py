"""What `auto` becomes on a device: one table, applied to the plain form of a scenario. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cotenant.scenario.builtin_checks import builtin_only
from cotenant.scenario.gpu_room import builtin_llm, neighbours_bytes
from cotenant.scenario.parse import dump, parse
from cotenant.scenario.schema import MOST_VOICES, PROTOCOLS, Scenario
from cotenant.scenario.values import AUTO
from cotenant.scenario.vllm import MODEL_SHAPES

DeviceKind = Literal["cpu", "gpu"]

# Every value as it would stand in a scenario.
TABLE: Final[Mapping[DeviceKind, Mapping[str, Any]]] = {
    "cpu": {
        "device": "cpu",
        "engine": "builtin",
        "vllm_memory": {"kv_cache_memory_bytes": 2**30},
        "mode": "eager",
        "shapes": {"speech": "tiny", "face": "tiny", "completions": "tiny"},
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
        "vllm_memory": {"gpu_memory_utilization": 0.6},
        "mode": "graphs",
        "shapes": {"speech": "qwen3-tts-0.6b", "face": "ditto", "completions": "llm-8b"},
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

# Two long prompts at once and eight short answers, as the table's loads for a GPU.
_KV_TOKENS: Final = 70_000
# What a CUDA context, graphs and activations take beside weights and cache; seen at 2 to 3 GiB.
_OVERHEAD_BYTES: Final = 3 * 2**30
_SMALLEST_SHAPE: Final = "tiny-qwen3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What `auto` asks about the machine: the path of a `vllm` command, a GPU's memory. None: not known."""

    vllm: str | None = None
    gpu_total_bytes: int | None = None
    gpu_free_bytes: int | None = None


def resolve(
    scenario: Scenario, device_kind: DeviceKind, *, quick: bool = False, machine: Machine | None = None
) -> Scenario:
    """The scenario with every `auto` that applies replaced. `quick` halves `measure` and decides by points.

    `engine: auto` of an LLM on a GPU is a vLLM with dummy weights where the machine has one and a shape fits,
    else what is built in: the largest that fits. Either leaves the built-in voices and heads their memory.

    Left alone is what means nothing there: the shape of a server not built in, the streams of `mode: rate`;
    and the protocol of a speech server that is not built in, which is asked once it is there.
    Raises UserError where the numbers that `auto` stood for do not fit the rest (more faces than voices).
    """
    table = TABLE[device_kind]
    data = dump(scenario)
    _fill(data, table, ("device", "decision"))
    _fill(data["timing"], table, ("measure", "solo", "extend"))
    for load in data["load"].values():
        _fill(load, table, ("listeners", "every"))
        if load.get("mode") == "alive":
            _fill(load, table, ("streams",))
    room_bytes = _room_bytes(data, machine or Machine())
    for name, tenant in data["tenants"].items():
        tenant.setdefault("device", data["device"])
        if tenant["kind"] == "completions":
            _choose_vllm(tenant, device_kind, machine or Machine(), room_bytes)
        _fill(tenant, table, ("device", "engine"))
        if tenant["kind"] != "speech" or tenant["engine"] == "builtin":
            _fill(tenant, {"protocol": PROTOCOLS[tenant["kind"]][0]}, ("protocol",))
        if tenant["engine"] == "builtin":
            _settle_builtin(data, name, device_kind, room_bytes)
        if tenant.get("model") == AUTO:
            del tenant["model"]
    for load in data["load"].values():
        _fill(load, table, ("prompt",))
    resolved = parse(data)
    return _quick(resolved) if quick else resolved


def _settle_builtin(data: dict[str, Any], name: str, device_kind: DeviceKind, room_bytes: int | None) -> None:
    """The shape of a built-in server and the options that say `auto` or nothing."""
    tenant = data["tenants"][name]
    own: DeviceKind = "cpu" if tenant["device"] == "cpu" else device_kind
    if tenant["shape"] == AUTO:
        tenant["shape"] = TABLE[own]["shapes"][tenant["kind"]]
        if tenant["kind"] == "completions" and own == "gpu":
            here_bytes = room_bytes if tenant["device"] == data["device"] else None
            tenant["shape"] = builtin_llm(here_bytes, servers=tenant["replicas"]) or tenant["shape"]
        for load in data["load"].values():
            if load["tenant"] == name and tenant["shape"] == "tiny":
                _fill(load, TABLE["cpu"], ("prompt",))  # what the small one holds
    tenant["mode"] = tenant.get("mode", AUTO)
    _fill(tenant, TABLE[own], ("mode",))
    if tenant.get("step_overhead") == AUTO:
        del tenant["step_overhead"]  # the server knows the one of its shape
    if tenant["kind"] == "speech" and tenant.get("voices", AUTO) == AUTO:
        tenant["voices"] = min(MOST_VOICES, max(1, -(-_listeners(data, name) // tenant["replicas"])))


def _room_bytes(data: Mapping[str, Any], machine: Machine) -> int | None:
    """What is free on the GPU beside the built-in voices and heads; None where that is not known."""
    if machine.gpu_free_bytes is None:
        return None
    return max(0, machine.gpu_free_bytes - neighbours_bytes(data["tenants"].values(), data["device"]))


def _listeners(data: Mapping[str, Any], tenant: str) -> int:
    """The most listeners that a stage puts on a speech tenant."""
    listeners = {
        name: int(load.get("listeners", 0)) for name, load in data["load"].items() if load["tenant"] == tenant
    }
    return max(sum(listeners.get(name, 0) for name in stage["load"]) for stage in data["stages"])


def _choose_vllm(
    tenant: dict[str, Any], device_kind: DeviceKind, machine: Machine, room_bytes: int | None
) -> None:
    """Settles whether `engine: auto` is a vLLM, and the model and memory of one that is started."""
    block = tenant.get("vllm", {})
    memory = {} if _memory_is_said(block) else _vllm_memory(device_kind, machine, room_bytes)
    utilization = {**block, **memory}.get("gpu_memory_utilization")
    largest = _largest_shape(machine, utilization, room_bytes) if device_kind == "gpu" else None
    if tenant["engine"] == AUTO and not block and builtin_only(tenant):
        return  # who asks for a thing that is built in alone gets what is built in
    if tenant["engine"] == AUTO:
        own = block.get("bin") or block.get("python")
        if device_kind == "cpu" or not (own or machine.vllm) or (_model_is_auto(block) and largest is None):
            tenant.pop("vllm", None)
            return
        block = {**({} if own else {"bin": machine.vllm}), **block}
        tenant["engine"] = "launch"
    if tenant["engine"] != "launch" or tenant.get("command") is not None:
        return
    if _model_is_auto(block):
        block = {**block, "model": largest or _SMALLEST_SHAPE}
    tenant["vllm"] = {**block, **memory}


def _vllm_memory(device_kind: DeviceKind, machine: Machine, room_bytes: int | None) -> dict[str, Any]:
    """The table's share of the GPU, or less where the built-in neighbours would not fit beside it."""
    memory: dict[str, Any] = dict(TABLE[device_kind]["vllm_memory"])
    share, total_bytes = memory.get("gpu_memory_utilization"), machine.gpu_total_bytes
    free_bytes = machine.gpu_free_bytes
    if share is None or total_bytes is None or free_bytes is None or room_bytes is None:
        return memory
    if room_bytes < share * total_bytes <= free_bytes:
        memory["gpu_memory_utilization"] = max(0.01, room_bytes * 100 // total_bytes / 100)
    return memory


def _model_is_auto(block: Mapping[str, Any]) -> bool:
    return bool(block.get("model", AUTO) == AUTO)


def _memory_is_said(block: Mapping[str, Any]) -> bool:
    return "gpu_memory_utilization" in block or "kv_cache_memory_bytes" in block


def _largest_shape(machine: Machine, utilization: float | None, room_bytes: float | None) -> str | None:
    """The largest shape that fits into vLLM's share of the GPU, or into what is left where the cache is
    fixed."""
    total_bytes, free_bytes = machine.gpu_total_bytes, machine.gpu_free_bytes
    if total_bytes is None or free_bytes is None or room_bytes is None:
        return None
    room_bytes = room_bytes if utilization is None else utilization * total_bytes
    if room_bytes > free_bytes:
        return None
    fitting = [
        (shape.weights_bytes, name)
        for name, shape in MODEL_SHAPES.items()
        if shape.weights_bytes + shape.kv_bytes_per_token * _KV_TOKENS + _OVERHEAD_BYTES <= room_bytes
    ]
    return max(fitting)[1] if fitting else None


def _fill(data: dict[str, Any], table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        if data.get(key) == AUTO:
            data[key] = table[key]


def _quick(scenario: Scenario) -> Scenario:
    measure_ns = scenario.timing.measure_ns
    assert isinstance(measure_ns, int)
    timing = scenario.timing.model_copy(update={"measure_ns": max(1, measure_ns // 2)})
    return scenario.model_copy(update={"timing": timing, "decision": "point"})
