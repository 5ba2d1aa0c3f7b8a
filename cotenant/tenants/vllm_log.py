"""What a vLLM tells of its start, read from its log and its metrics page. Pure."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.scenario.parse import hide_secrets

_GIB: Final = 2**30
_PREFIX_RE: Final = re.compile(
    r"^(?:\([^)]*\) )?(?:INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) \[[^]]*\] ?(.*)"
)
_VERSION_RE: Final = re.compile(
    r"(?:Initializing a V1 LLM engine \(v|vLLM (?:API )?server version |\bversion {1,2})([0-9][^\s,)]*)"
)
_ARGUMENTS_RE: Final = re.compile(r"non-default args: (\{.*\})")
_ENGINE_RE: Final = re.compile(r"Initializing a V1 LLM engine \(v[^)]*\) with config: (.*)")
_SETTING_RE: Final = re.compile(r"(?:^|, )([a-z_]+)=([^,()\[\]{}]+)(?=,|$)")
_BATCHED_RE: Final = re.compile(r"max_num_batched_tokens=(\d{1,12})")
# A number that is one: a log can hold anything.
_N: Final = r"\d{1,9}(?:\.\d{1,9})?"
_LOADED_RE: Final = re.compile(rf"Model loading took ({_N}) GiB(?: memory)? and ({_N}) seconds")
_INITIALIZED_RE: Final = re.compile(rf"Initializing model took ({_N}) seconds")
_ENGINE_TOOK_RE: Final = re.compile(
    rf"init engine \([^)]*\) took ({_N}) s(?:econds)?(?: \(compilation: ({_N}) s)?"
)
_COMPILE_RE: Final = re.compile(rf"torch\.compile took ({_N}) s in total")
_GRAPHS_RE: Final = re.compile(rf"Graph capturing finished in ({_N}) secs, took (-?{_N}) GiB")
_TOKENS_RE: Final = re.compile(r"KV cache size: (\d[\d,]{0,19}) tokens")
_CACHE_GIB_RE: Final = re.compile(
    rf"(?:Available KV cache memory: |Explicitly set \(|Auto set \(|reserved )({_N})(?:/{_N}\))? GiB"
)
_COLD_RE: Final = re.compile(r"Compiling a graph for compile range|saved AOT compiled function")
_WARM_RE: Final = re.compile(r"Directly load (?:AOT compilation|the compiled graph|the \S+ graph)")
# The CPU backend gives no durations; its lines stand around the work, with whole seconds.
_WARM_UP_EDGES: Final = ("Warming up model for the compilation", "Warming up done")
_INFO_RE: Final = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL_RE: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
# Of the engine's hundred settings those that change what a neighbour feels.
_KEPT: Final = (
    "dtype", "max_seq_len", "load_format", "tensor_parallel_size", "pipeline_parallel_size",
    "data_parallel_size", "quantization", "enforce_eager", "kv_cache_dtype", "device_config", "seed",
    "enable_prefix_caching", "enable_chunked_prefill",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmStart:
    """What one start told. Seconds and bytes; None where the log does not say it.

    `load_s` includes making up dummy weights, `engine_s` everything from profiling to captured graphs,
    `compile_s` of it torch.compile's. `warm`: compiled code came from the cache on disk, False: it was made;
    None where nothing was compiled. `arguments` are those that differ from vLLM's defaults, secrets hidden.
    """

    version: str | None
    arguments: Mapping[str, Any] | None
    config: Mapping[str, str]
    load_s: float | None
    weights_bytes: int | None
    engine_s: float | None
    compile_s: float | None
    graphs_s: float | None
    warm: bool | None
    kv_tokens: int | None
    kv_bytes: int | None


def read_log(log: str) -> VllmStart:
    """The facts of a log that holds one start, whatever else stands in it."""
    lines = [_PREFIX_RE.sub(r"\6", line) for line in log.split("\n")]
    text = "\n".join(lines)
    loaded, engine = _LOADED_RE.search(text), _ENGINE_TOOK_RE.search(text)
    compile_s = _last(_COMPILE_RE, text) or (engine[2] if engine else None)
    cache_gib, tokens = _last(_CACHE_GIB_RE, text), _last(_TOKENS_RE, text)
    return VllmStart(
        version=_last(_VERSION_RE, text),
        arguments=_arguments(text),
        config=_config(text),
        load_s=_number(loaded[2] if loaded else _last(_INITIALIZED_RE, text)),
        weights_bytes=round(float(loaded[1]) * _GIB) if loaded else None,
        engine_s=_number(engine[1] if engine else None),
        compile_s=_number(compile_s) if compile_s else _between_s(log, *_WARM_UP_EDGES),
        graphs_s=_number(_last(_GRAPHS_RE, text)),
        warm=False if _COLD_RE.search(text) else True if _WARM_RE.search(text) else None,
        kv_tokens=int(tokens.replace(",", "")) if tokens else None,
        kv_bytes=round(float(cache_gib) * _GIB) if cache_gib else None,
    )


def read_cache_info(metrics: str) -> dict[str, str]:
    """The labels of `vllm:cache_config_info` in the text of /metrics: num_gpu_blocks, block_size and more."""
    match = _INFO_RE.search(metrics)
    return dict(_LABEL_RE.findall(match[1])) if match else {}


def _between_s(log: str, start: str, end: str) -> float | None:
    """Seconds between the first lines that hold `start` and `end`, by their stamps (whole seconds)."""
    first, second = (_stamp_s(log, word) for word in (start, end))
    return None if first is None or second is None else (second - first) % 86_400.0


def _stamp_s(log: str, word: str) -> float | None:
    for line in log.split("\n"):
        if word in line and (match := _PREFIX_RE.match(line)) is not None:
            return 3600.0 * int(match[3]) + 60.0 * int(match[4]) + int(match[5])
    return None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    if not found:
        return None
    return str(found[-1][0] if isinstance(found[-1], tuple) else found[-1])


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _arguments(text: str) -> dict[str, Any] | None:
    found = _last(_ARGUMENTS_RE, text)
    if found is None:
        return None
    try:
        value = ast.literal_eval(found)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None  # an argument whose repr is no literal
    hidden = hide_secrets(value)
    return {str(key): item for key, item in hidden.items()} if isinstance(hidden, dict) else None


def _config(text: str) -> dict[str, str]:
    found = _last(_ENGINE_RE, text)
    settings = dict(_SETTING_RE.findall(found)) if found else {}
    config = {key: settings[key].strip("'") for key in _KEPT if key in settings}
    if batched := _last(_BATCHED_RE, text):
        config["max_num_batched_tokens"] = batched
    return config
