"""The `vllm` block of a tenant: how a vLLM is started; its models without weights; what contradicts. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StrictBool, StrictStr

from cotenant.scenario.model import Model
from cotenant.scenario.values import AUTO, ByteSize, Count, Share, Tokens
from cotenant.scenario.yaml_text import Path
from cotenant.units import parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Sizes of a model in bfloat16: what its weights take, and each token of its KV cache."""

    weights_bytes: int
    kv_bytes_per_token: int
    max_tokens: int


# The folders of fixtures/models, each with a config.json alone. A test computes these sizes from them.
MODEL_SHAPES: Final[Mapping[str, ModelShape]] = {
    "tiny-qwen3": ModelShape(weights_bytes=6_821_376, kv_bytes_per_token=2_048, max_tokens=16_384),
    "qwen3-0.6b-shaped": ModelShape(
        weights_bytes=1_192_099_840, kv_bytes_per_token=114_688, max_tokens=40_960
    ),
    "qwen3-8b-shaped": ModelShape(
        weights_bytes=16_381_470_720, kv_bytes_per_token=147_456, max_tokens=40_960
    ),
    "qwen3-30b-a3b-shaped": ModelShape(
        weights_bytes=61_064_245_248, kv_bytes_per_token=98_304, max_tokens=40_960
    ),
}

# The flag of every field that is one; the values are written as they stand.
FLAGS: Final[Mapping[str, str]] = {
    "load_format": "--load-format",
    "skip_tokenizer_init": "--skip-tokenizer-init",
    "dtype": "--dtype",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "kv_cache_memory_bytes": "--kv-cache-memory-bytes",
    "max_model_len": "--max-model-len",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_num_seqs": "--max-num-seqs",
    "scheduling_policy": "--scheduling-policy",
    "cudagraph_capture_sizes": "--cudagraph-capture-sizes",
}
_FIELD_OF_FLAG: Final = {flag: f"vllm.{field}" for field, flag in FLAGS.items()} | {
    "--model": "vllm.model",
    "--host": "url of the tenant",
    "--port": "url of the tenant",
    "--served-model-name": "model of the tenant",
}
_REFUSED_ARGUMENTS: Final = {
    "--disable-log-stats": "it would take away the server's own counts, which a run records; remove it",
    "--headless": "it starts no server to talk to; remove it",
    "--uds": "the load speaks to a port; remove it",
}


_Words = Annotated[StrictStr, Field(min_length=1)]


class Vllm(Model):
    """A vLLM of any virtual environment, started for the run. Fields are named as vLLM's flags are."""

    bin: _Words | None = Field(None, description="Its `vllm` command; without python too the one on PATH.")
    python: _Words | None = Field(None, description="The interpreter of its environment, in place of bin.")
    model: _Words = Field(
        AUTO,
        description="A name that `cotenant list` has (random weights), a folder (/, ./, ../ or ~), or "
        "ORGANISATION/NAME; auto: the largest of those names that fits.",
    )
    load_format: _Words | None = Field(
        None, description="--load-format; without it what follows from the model's files."
    )
    skip_tokenizer_init: StrictBool | None = Field(
        None, description="--skip-tokenizer-init; without it what follows from the model's files."
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(None, description="--dtype.")
    gpu_memory_utilization: Share | None = Field(
        None, description="Its share of the device's whole memory, weights included."
    )
    kv_cache_memory_bytes: ByteSize | None = Field(
        None, description="The KV cache alone, in place of gpu_memory_utilization."
    )
    max_model_len: Tokens | None = Field(None, description="Prompt and answer of one request together.")
    max_num_batched_tokens: Tokens | None = Field(
        None, description="The most that one step works on, prefill included."
    )
    max_num_seqs: Count | None = Field(None, description="The most requests that run at once.")
    scheduling_policy: Literal["fcfs", "priority"] | None = Field(None, description="--scheduling-policy.")
    cudagraph_capture_sizes: list[Count] | None = Field(
        None, description="The batch sizes that CUDA graphs are captured for."
    )
    extra_args: list[StrictStr] = Field(default_factory=list, description="Other arguments of vLLM.")


Found = tuple[Path, str]


def is_path(model: str) -> bool:
    """Whether a model is a folder: what begins with neither / nor . nor ~ is a name."""
    return model.startswith(("/", "./", "../", "~"))


def option_names(arguments: Sequence[str]) -> list[str]:
    """The long options among arguments, spelled as vLLM lists them: `--max_num_seqs=4` -> --max-num-seqs."""
    names = (argument.partition("=")[0] for argument in arguments if argument.startswith("--"))
    return [name.replace("_", "-") for name in names]


def vllm_checks(tenant: Mapping[str, Any]) -> Iterator[Found]:
    """What contradicts in a tenant's `vllm` block, as (path in the tenant, message)."""
    block = tenant.get("vllm")
    if not isinstance(block, Mapping):
        return
    if tenant.get("command"):
        yield ("command",), "vllm builds the command; remove command, or write it whole and remove vllm"
    if tenant.get("kind") in ("speech", "face"):
        yield ("vllm",), f"vllm is for kind: completions, and this is {tenant.get('kind')}; remove it"
    for path, message in (*_choices(block), *_sizes(block), *_arguments(block)):
        yield ("vllm", *path), message


def prompt_checks(tenant: Mapping[str, Any], load: Mapping[str, Any]) -> Iterator[str]:
    """Why a load's requests are longer than what the vLLM takes."""
    block = tenant.get("vllm")
    prompt, output = tokens(load.get("prompt")), tokens(load.get("output", 400))
    if not isinstance(block, Mapping) or prompt is None or output is None:
        return
    limit = tokens(block.get("max_model_len"))
    shape = MODEL_SHAPES.get(str(block.get("model")))
    if limit is None and shape is not None:
        limit = shape.max_tokens
    if limit is not None and prompt + output > limit:
        yield (
            f"a prompt of {prompt} tokens and an output of {output} are longer than the {limit} that this "
            "vLLM takes; shorten them, or raise vllm.max_model_len or take a larger model"
        )


def _choices(block: Mapping[str, Any]) -> Iterator[Found]:
    if block.get("bin") is not None and block.get("python") is not None:
        yield ("python",), "bin says already which vLLM is started; keep one of bin and python"
    utilization, cache = block.get("gpu_memory_utilization"), block.get("kv_cache_memory_bytes")
    if utilization is not None and cache is not None:
        message = (
            "kv_cache_memory_bytes fixes the cache, and vLLM then ignores the utilization; keep one of them"
        )
        yield ("gpu_memory_utilization",), message
    model = block.get("model", AUTO)
    if not isinstance(model, str) or not model or model == AUTO:
        return
    if "/" not in model and model != "~" and model not in MODEL_SHAPES:
        close = get_close_matches(model, MODEL_SHAPES, n=1)
        known = f"did you mean {close[0]!r}? " if close else ""
        yield (
            ("model",),
            f"there is no model {model!r}; {known}write one of {', '.join(MODEL_SHAPES)}, a folder as "
            "./NAME, or ORGANISATION/NAME",
        )
    elif model in MODEL_SHAPES and block.get("load_format") not in (None, "dummy"):
        yield ("load_format",), f"{model} has no weights to load; remove load_format, or write dummy"
    length = tokens(block.get("max_model_len"))
    if model in MODEL_SHAPES and length is not None and length > MODEL_SHAPES[model].max_tokens:
        yield (
            ("max_model_len",),
            f"{model} takes {MODEL_SHAPES[model].max_tokens} tokens at most; write no more",
        )
    if model in MODEL_SHAPES and block.get("skip_tokenizer_init") is False:
        yield ("skip_tokenizer_init",), f"{model} has no tokenizer; remove this, or write true"


def _sizes(block: Mapping[str, Any]) -> Iterator[Found]:
    batched, seqs = tokens(block.get("max_num_batched_tokens")), tokens(block.get("max_num_seqs"))
    if batched is not None and seqs is not None and batched < seqs:
        yield (
            ("max_num_seqs",),
            f"{seqs} sequences do not fit into {batched} batched tokens; write at most {batched}",
        )
    graphs = block.get("cudagraph_capture_sizes")
    if graphs is None:
        return
    extra = block.get("extra_args")
    if isinstance(extra, list) and "--enforce-eager" in option_names(
        [a for a in extra if isinstance(a, str)]
    ):
        yield ("cudagraph_capture_sizes",), "--enforce-eager captures no graphs; keep one of them"
    if isinstance(graphs, list) and (not graphs or len(set(map(str, graphs))) < len(graphs)):
        yield ("cudagraph_capture_sizes",), "it is empty or says a size twice; list each size once"


def _arguments(block: Mapping[str, Any]) -> Iterator[Found]:
    extra = block.get("extra_args")
    for index, argument in enumerate(extra if isinstance(extra, list) else []):
        if not isinstance(argument, str):
            continue
        for name in option_names([argument]):
            if name in _REFUSED_ARGUMENTS:
                yield ("extra_args", index), f"{name}: {_REFUSED_ARGUMENTS[name]}"
            elif name in _FIELD_OF_FLAG:
                yield ("extra_args", index), f"{name} is written in the {_FIELD_OF_FLAG[name]}; move it there"


def tokens(value: object) -> int | None:
    """The number of a size that may still be text; None where it is none (told elsewhere) or is not given."""
    if isinstance(value, str):
        try:
            return parse_size(value)
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
