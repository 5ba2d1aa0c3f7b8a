"""The command line of a vLLM, built from a scenario's `vllm` block. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from cotenant.errors import CouldNotRun
from cotenant.scenario.vllm import FLAGS, Vllm, option_names

_METRICS_FLAG: Final = "--enable-per-request-metrics"
# With a fixed KV cache the utilization is only a check of free memory at the start; low, so that it does not
# refuse to start beside services that hold memory.
_CHECKED_UTILIZATION: Final = "0.05"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What a model is: `reference` for vLLM (a folder or a name), and what its folder holds.

    None where there is no folder to look into: the name is for vLLM to find.
    """

    reference: str
    has_weights: bool | None = None
    has_tokenizer: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run, whether the weights are dummies, and what was left out or added."""

    argv: Sequence[str]
    dummy: bool
    notes: Sequence[str]


def server_prefix(block: Vllm) -> list[str]:
    """The command up to the first option. Raises ValueError where neither bin nor python is known."""
    if block.python is not None:
        return [block.python, "-m", "vllm.entrypoints.openai.api_server"]
    if block.bin is None:
        raise ValueError("no vLLM to start; the scenario is not resolved")
    return [block.bin, "serve"]


def build(
    name: str,
    block: Vllm,
    model: ModelFiles,
    *,
    known: Collection[str],
    served_name: str | None,
    host: str,
    port: int,
) -> Command:
    """The command that serves `model` at host:port. `known`: the options that this vLLM lists.

    Raises CouldNotRun for an option that the user asked for and this vLLM does not know.
    """
    dummy = block.load_format == "dummy" or (block.load_format is None and model.has_weights is False)
    skip = block.skip_tokenizer_init
    if skip is None:
        skip = model.has_tokenizer is False
    values: dict[str, list[str]] = {}
    if dummy or block.load_format is not None:
        values["load_format"] = ["dummy" if dummy else str(block.load_format)]
    if skip:
        values["skip_tokenizer_init"] = []
    for field in FLAGS:
        value = getattr(block, field)
        if field not in ("load_format", "skip_tokenizer_init") and value is not None:
            values[field] = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if block.kv_cache_memory_bytes is not None:
        values["gpu_memory_utilization"] = [_CHECKED_UTILIZATION]
    _refuse_unknown(name, values, block.extra_args, known)
    options = [part for field, texts in values.items() for part in (FLAGS[field], *texts)]
    notes = []
    if _METRICS_FLAG in known and not {_METRICS_FLAG, "--no-enable-per-request-metrics"} & set(
        option_names(block.extra_args)
    ):
        options.append(_METRICS_FLAG)
    elif _METRICS_FLAG not in known:
        notes.append(f"this vLLM has no {_METRICS_FLAG}: its own times of each request are not recorded")
    prefix = server_prefix(block)
    argv = [
        *prefix,
        *([model.reference] if prefix[-1] == "serve" else ["--model", model.reference]),
        *("--host", host, "--port", str(port)),
        *(["--served-model-name", served_name] if served_name else []),
        *options,
        *block.extra_args,
    ]
    return Command(argv=argv, dummy=dummy, notes=notes)


def _refuse_unknown(
    name: str, values: Mapping[str, Sequence[str]], extra: Sequence[str], known: Collection[str]
) -> None:
    wrong = [(f"tenants.{name}.vllm.{field}", FLAGS[field]) for field in values if FLAGS[field] not in known]
    wrong += [
        (f"tenants.{name}.vllm.extra_args", option)
        for option in option_names(extra)
        if option not in known and option.partition(".")[0] not in known
    ]
    if not wrong:
        return
    sentences = []
    for path, option in wrong:
        near = get_close_matches(option, known, n=1, cutoff=0.75)
        hint = f", or did you mean {near[0]}?" if near else ""
        sentences.append(f"this vLLM does not know {option} ({path}); remove it{hint}")
    raise CouldNotRun(f"{name}: " + "\n  ".join(sentences))
