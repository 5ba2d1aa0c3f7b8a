"""What each server of a scenario takes of a GPU's memory, and whether all of it fits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.scenario.gpu_room import LLM_BYTES, neighbours_bytes
from cotenant.scenario.parse import dump
from cotenant.scenario.schema import Completions, Scenario, Tenant
from cotenant.scenario.vllm import MODEL_SHAPES, Vllm

# Beside a vLLM's weights and cache: its CUDA graphs, workspace and CUDA context; seen at 2 to 3 GiB.
GRAPHS_AND_CONTEXT_BYTES: Final = 3 * 2**30
# The canary's CUDA context, and a rest that no process may take.
SPARE_BYTES: Final = 2**30
_VALUE_BYTES: Final[Mapping[str, int]] = {"float32": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1}
_DEFAULT_VALUE_BYTES: Final = 2
# What vLLM takes of the GPU where nobody says.
_VLLM_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Of an LLM: its weights, and a token of its KV cache. None: not known."""

    weights_bytes: int | None
    kv_bytes_per_token: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the servers of one tenant take. `need_bytes` None: not known, for the reason in `text`.

    `claim_share`: the share of the whole GPU that a vLLM takes whatever it needs; `least_share` the least
    with which weights, cache and the rest would do, `largest_share` the most that fits beside the others.
    """

    tenant: str
    need_bytes: int | None
    text: str
    claim_share: float | None = None
    least_share: float | None = None
    largest_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """All needs beside what the GPU has. `fits` None: not known."""

    total_bytes: int | None
    free_bytes: int | None
    needs: tuple[Need, ...]

    @property
    def need_bytes(self) -> int | None:
        """The sum, None where one of them is not known."""
        known = [need.need_bytes for need in self.needs if need.need_bytes is not None]
        return sum(known) if len(known) == len(self.needs) else None

    @property
    def fits(self) -> bool | None:
        """Whether all of it fits into what is free now."""
        if any(need.largest_share is not None and not _share_fits(need) for need in self.needs):
            return False
        if self.free_bytes is None:
            return None
        if sum(need.need_bytes or 0 for need in self.needs) > self.free_bytes:
            return False
        return None if self.need_bytes is None else True


def kv_bytes(*, layers: int, kv_heads: int, head_size: int, value_bytes: int, tokens: int) -> int:
    """A KV cache: 2 (a key and a value) x layers x KV heads x head size x bytes of a value x tokens."""
    return 2 * layers * kv_heads * head_size * value_bytes * tokens


def kv_bytes_per_token(config: Mapping[str, Any], value_bytes: int = _DEFAULT_VALUE_BYTES) -> int | None:
    """By the fields of a model's config.json; None where they are not those of plain attention."""
    config = config.get("text_config", config)
    if not isinstance(config, Mapping) or "kv_lora_rank" in config or "layer_types" in config:
        return None
    heads, layers = config.get("num_attention_heads"), config.get("num_hidden_layers")
    kv_heads, size = config.get("num_key_value_heads", heads), config.get("head_dim")
    if size is None and isinstance(config.get("hidden_size"), int) and isinstance(heads, int) and heads:
        size = config["hidden_size"] // heads
    if not (isinstance(layers, int) and isinstance(kv_heads, int) and isinstance(size, int)):
        return None
    return kv_bytes(layers=layers, kv_heads=kv_heads, head_size=size, value_bytes=value_bytes, tokens=1)


def tokens_at_once(scenario: Scenario, tenant: str) -> int:
    """The most tokens of prompts and answers that a stage keeps in the tenant's cache. Of a resolved one.

    A load at a rate counts one request a second's worth of its rate, at least one.
    """
    held = {
        name: _streams(load) * (_number(load.prompt) + load.output)
        for name, load in scenario.load.items()
        if isinstance(load, Completions) and load.tenant == tenant
    }
    return max((sum(held.get(name, 0) for name in stage.load) for stage in scenario.stages), default=0)


def fit(
    scenario: Scenario,
    used: Mapping[str, Tenant],
    models: Mapping[str, ModelSizes],
    *,
    total_bytes: int | None,
    free_bytes: int | None,
) -> Fit:
    """The tenants `used` of a scenario resolved for a GPU; `models`: sizes of what each vLLM loads.

    Only what is started for the run is counted: an attached service holds its memory already, or none here.
    """
    plain = dump(scenario)["tenants"]
    here = {name: one for name, one in used.items() if _is_here(scenario, one)}
    builtin = {
        name: _builtin(name, one, neighbours_bytes([plain[name]], one.device or scenario.device))
        for name, one in here.items()
        if one.engine == "builtin"
    }
    beside = sum(need.need_bytes or 0 for need in builtin.values()) + SPARE_BYTES
    vllms = [name for name, one in here.items() if one.vllm is not None]
    needs = dict(builtin)
    for name, tenant in here.items():
        if tenant.vllm is None and tenant.engine == "launch":
            text = "started by a command of its own: what it takes is not known"
            needs[name] = Need(tenant=name, need_bytes=None, text=text)
        elif tenant.vllm is not None:
            sizes = models.get(name) or _known_sizes(tenant.vllm)
            tokens = tokens_at_once(scenario, name)
            room = None if free_bytes is None or len(vllms) > 1 else max(0, free_bytes - beside)
            needs[name] = _vllm(name, tenant.vllm, sizes, tokens, total_bytes, room)
    ordered = tuple(needs[name] for name in here if name in needs)
    return Fit(total_bytes=total_bytes, free_bytes=free_bytes, needs=ordered)


def _is_here(scenario: Scenario, tenant: Tenant) -> bool:
    if tenant.engine == "attach" or tenant.device == "cpu":
        return False
    return tenant.device is None or tenant.device == scenario.device or scenario.device == "auto"


def _builtin(name: str, tenant: Tenant, neighbour_bytes: int) -> Need:
    if tenant.kind == "completions":
        each = LLM_BYTES.get(tenant.shape, LLM_BYTES["tiny"])
        text = "weights, the whole KV cache, workspace and CUDA context, as seen on an H200"
        return Need(tenant=name, need_bytes=each * tenant.replicas, text=f"{tenant.shape}: {text}")
    text = "weights, caches, CUDA graphs and CUDA context, as seen on an H200"
    return Need(tenant=name, need_bytes=neighbour_bytes, text=f"{tenant.shape} x {tenant.replicas}: {text}")


def _vllm(
    name: str, block: Vllm, sizes: ModelSizes, tokens: int, total_bytes: int | None, room_bytes: int | None
) -> Need:
    per_token, weights = sizes.kv_bytes_per_token, sizes.weights_bytes
    fixed = block.kv_cache_memory_bytes
    cache = fixed if fixed is not None else None if per_token is None else per_token * tokens
    least = None if weights is None or cache is None else weights + cache + GRAPHS_AND_CONTEXT_BYTES
    claim = None if fixed is not None else block.gpu_memory_utilization or _VLLM_SHARE
    claimed = None if claim is None or total_bytes is None else round(claim * total_bytes)
    parts = [
        f"weights {gib_text(weights)}",
        f"KV cache {gib_text(cache)}" + (f" for {tokens} tokens" if fixed is None else ""),
        f"graphs and context {gib_text(GRAPHS_AND_CONTEXT_BYTES)}",
    ]
    share = total_bytes is not None and claim is not None
    return Need(
        tenant=name,
        need_bytes=least if claim is None else claimed,
        text=f"{block.model}: " + ", ".join(parts),
        claim_share=claim,
        least_share=_up(least, total_bytes) if share else None,
        largest_share=_down(room_bytes, total_bytes) if share else None,
    )


def _known_sizes(block: Vllm) -> ModelSizes:
    shape = MODEL_SHAPES.get(block.model)
    if shape is None:
        return ModelSizes(weights_bytes=None, kv_bytes_per_token=None)
    per_token = shape.kv_bytes_per_token * value_bytes(block) // _DEFAULT_VALUE_BYTES
    return ModelSizes(weights_bytes=shape.weights_bytes, kv_bytes_per_token=per_token)


def value_bytes(block: Vllm) -> int:
    """Bytes of one value in the KV cache, by the options given."""
    arguments = block.extra_args
    for index, argument in enumerate(arguments):
        option, sign, value = argument.partition("=")
        if option.replace("_", "-") == "--kv-cache-dtype":
            value = value if sign else arguments[index + 1] if index + 1 < len(arguments) else ""
            return _VALUE_BYTES.get(value, _DEFAULT_VALUE_BYTES)
    return _VALUE_BYTES.get(block.dtype or "", _DEFAULT_VALUE_BYTES)


def gib_text(size_bytes: int | None) -> str:
    """Bytes for people."""
    return "not known" if size_bytes is None else f"{size_bytes / 2**30:.1f} GiB"


def _share_fits(need: Need) -> bool:
    claim, least, largest = need.claim_share, need.least_share, need.largest_share
    assert claim is not None
    assert largest is not None
    return claim <= largest and (least is None or least <= claim)


def _streams(load: Completions) -> int:
    if load.mode == "rate":
        return max(1, round(load.rate_per_s or 0.0))
    return _number(load.streams)


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else 0


def _up(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else -(-part * 100 // whole) / 100


def _down(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part * 100 // whole / 100
