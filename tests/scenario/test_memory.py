"""What fits into a GPU: the cache's formula, a vLLM's share beside its neighbours, and what is not known."""

import json
from typing import Any

import pytest

from cotenant.resources import data_dir
from cotenant.scenario.auto import Machine, resolve
from cotenant.scenario.memory import Fit, ModelSizes, fit, kv_bytes, kv_bytes_per_token, tokens_at_once
from cotenant.scenario.parse import parse
from cotenant.scenario.schema import Scenario
from cotenant.scenario.vllm import MODEL_SHAPES

GIB = 2**30


def scenario(block: dict[str, Any] | None, **more: Any) -> Scenario:
    llm: dict[str, Any] = {"kind": "completions", "engine": "launch"}
    llm |= {"vllm": {"bin": "/v/vllm", **block}} if block is not None else {"engine": "builtin"}
    return resolve(
        parse(
            {
                "name": "x",
                "tenants": {
                    "tts": {"kind": "speech", "engine": "builtin", "replicas": 2},
                    "llm": {**llm, **more},
                },
                "load": {
                    "voices": {"tenant": "tts", "kind": "voices"},
                    "decode": {"tenant": "llm", "kind": "completions", "streams": 8, "prompt": 128},
                    "prefill": {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": "32k"},
                },
                "stages": [
                    {"name": "a", "load": ["voices", "decode"]},
                    {"name": "b", "load": ["voices", "decode", "prefill"]},
                ],
            }
        ),
        "gpu",
        machine=Machine(vllm="/v/vllm", gpu_total_bytes=140 * GIB, gpu_free_bytes=138 * GIB),
    )


def fitted(given: Scenario, free_gib: float = 138, models: dict[str, ModelSizes] | None = None) -> Fit:
    return fit(given, given.tenants, models or {}, total_bytes=140 * GIB, free_bytes=round(free_gib * GIB))


def test_the_formula_of_a_cache() -> None:
    # 2 x 36 layers x 8 heads x 128 x 2 bytes, as of an 8B model
    assert kv_bytes(layers=36, kv_heads=8, head_size=128, value_bytes=2, tokens=1000) == 147_456_000


@pytest.mark.parametrize("name", sorted(MODEL_SHAPES))
def test_config_files_give_the_cache_of_their_shapes(name: str) -> None:
    config = json.loads((data_dir("fixtures") / "models" / name / "config.json").read_text())
    assert kv_bytes_per_token(config) == MODEL_SHAPES[name].kv_bytes_per_token
    assert kv_bytes_per_token({"text_config": config}, 1) == MODEL_SHAPES[name].kv_bytes_per_token // 2


@pytest.mark.parametrize(
    "config",
    [{}, {"text_config": 3}, {"num_hidden_layers": "36"}, {"kv_lora_rank": 512, "num_hidden_layers": 2}],
)
def test_what_is_no_plain_attention_is_not_known(config: dict[str, Any]) -> None:
    assert kv_bytes_per_token(config) is None


def test_heads_without_a_size_share_the_hidden_one() -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    assert kv_bytes_per_token(config) == 2 * 2 * 4 * 16 * 2


def test_the_fullest_stage_counts() -> None:
    assert tokens_at_once(scenario({"model": "qwen3-8b-shaped"}), "llm") == 8 * 528 + 2 * 32_400


def test_a_share_that_fits_says_how_far_it_may_go() -> None:
    found = fitted(scenario({"model": "qwen3-8b-shaped", "gpu_memory_utilization": 0.6}))
    llm = found.needs[1]
    assert found.fits is True
    assert llm.need_bytes == round(0.6 * 140 * GIB)
    # two servers of 4 GiB and 1 GiB to spare beside it
    assert llm.largest_share == int((138 - 9) / 140 * 100) / 100
    least = MODEL_SHAPES["qwen3-8b-shaped"].weights_bytes + 147_456 * (8 * 528 + 64_800) + 3 * GIB
    assert llm.least_share is not None
    assert 0 <= llm.least_share - least / (140 * GIB) < 0.01


@pytest.mark.parametrize(
    ("block", "free_gib", "fits"),
    [
        ({"model": "qwen3-8b-shaped", "gpu_memory_utilization": 0.95}, 138, False),  # beside two voices
        ({"model": "qwen3-8b-shaped", "gpu_memory_utilization": 0.6}, 80, False),  # somebody else is there
        ({"model": "qwen3-30b-a3b-shaped", "gpu_memory_utilization": 0.4}, 138, False),  # its own weights
        ({"model": "qwen3-8b-shaped", "kv_cache_memory_bytes": "20Gi"}, 138, True),
        ({"model": "qwen3-8b-shaped", "kv_cache_memory_bytes": "20Gi"}, 40, False),
        ({"model": "org/name", "kv_cache_memory_bytes": "20Gi"}, 138, None),
        ({"model": "org/name", "gpu_memory_utilization": 0.5}, 138, True),
    ],
)
def test_what_fits(block: dict[str, Any], free_gib: float, fits: bool | None) -> None:
    assert fitted(scenario(block), free_gib).fits is fits


def test_a_smaller_cache_value_halves_the_cache() -> None:
    block = {"model": "qwen3-30b-a3b-shaped", "gpu_memory_utilization": 0.6}
    whole = fitted(scenario(block)).needs[1].least_share
    half = fitted(scenario({**block, "extra_args": ["--kv-cache-dtype", "fp8"]})).needs[1].least_share
    assert whole is not None
    assert half is not None
    assert whole - half == pytest.approx(98_304 * (8 * 528 + 64_800) / 2 / (140 * GIB), abs=0.011)


def test_sizes_of_a_model_in_a_folder() -> None:
    block = {"model": "/models/mine", "gpu_memory_utilization": 0.5}
    sizes = {"llm": ModelSizes(weights_bytes=90 * GIB, kv_bytes_per_token=1000)}
    found = fitted(scenario(block), models=sizes)
    assert found.fits is False
    assert found.needs[1].least_share == pytest.approx(0.67, abs=0.005)


def test_built_in_and_attached_ones() -> None:
    built = fitted(scenario(None))
    assert [need.tenant for need in built.needs] == ["tts", "llm"]
    assert built.fits is True
    assert fitted(scenario(None), 10).fits is False
    given = scenario(None, engine="attach", url="http://127.0.0.1:8000")
    assert [need.tenant for need in fitted(given).needs] == ["tts"]


def test_a_command_is_not_known_but_what_is_can_be_too_much() -> None:
    given = scenario(None, engine="launch", command=["serve"], url="http://127.0.0.1:8000")
    assert fitted(given).fits is None
    assert fitted(given, 5).fits is False
