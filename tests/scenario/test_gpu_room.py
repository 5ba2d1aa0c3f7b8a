"""The built-in LLM, or vLLM's share, that `auto` takes beside the voices and heads that are built in."""

import pytest

from cotenant.errors import UserError
from cotenant.scenario.auto import Machine, resolve
from cotenant.scenario.gpu_room import LLM_BYTES
from cotenant.scenario.load import load
from cotenant.scenario.schema import CONTEXT_TOKENS, Completions, Scenario, Tenant

GIB = 2**30


def resolved(free_gib: float | None, *overrides: str, vllm: bool = False, total_gib: float = 140) -> Scenario:
    machine = Machine(
        vllm="/venv/bin/vllm" if vllm else None,
        gpu_total_bytes=round(total_gib * GIB),
        gpu_free_bytes=None if free_gib is None else round(free_gib * GIB),
    )
    return resolve(load("all-together", list(overrides)), "gpu", machine=machine)


def llm(free_gib: float | None, *overrides: str, vllm: bool = False, total_gib: float = 140) -> Tenant:
    return resolved(free_gib, *overrides, vllm=vllm, total_gib=total_gib).tenants["llm"]


@pytest.mark.parametrize(
    ("free_gib", "overrides", "shape"),
    [
        (139, (), "llm-30b-a3b"),
        (None, (), "llm-8b"),
        (82, (), "llm-30b-a3b"),  # 82 - 4 - 3 GiB are more than 80 GB
        (81, (), "llm-8b"),
        (41, (), "llm-8b"),
        (40, (), "tiny"),
        (1, (), "tiny"),
        (139, ("tenants.tts.replicas=9",), "llm-30b-a3b"),
        (110, ("tenants.tts.replicas=9",), "llm-8b"),
        (81, ("tenants.tts.device=cpu",), "llm-30b-a3b"),
        (81, ("tenants.head.device=cuda:1",), "llm-30b-a3b"),
        (139, ("tenants.llm.device=cuda:1",), "llm-8b"),  # what is free there is not known
        (139, ("tenants.llm.replicas=2",), "llm-8b"),
        (139, ("tenants.llm.shape=llm-8b",), "llm-8b"),
        (139, ("tenants.llm.device=cpu",), "tiny"),
    ],
)
def test_the_largest_that_fits(free_gib: float | None, overrides: tuple[str, ...], shape: str) -> None:
    scenario = resolved(free_gib, *overrides)
    assert scenario.tenants["llm"].shape == shape
    prompts = {
        item.prompt + item.output
        for item in scenario.load.values()
        if isinstance(item, Completions) and isinstance(item.prompt, int)
    }
    assert max(prompts) <= CONTEXT_TOKENS[shape]
    assert max(prompts) == (32_004 if shape != "tiny" else 4_004)


def test_a_small_one_that_was_asked_for_does_not_shorten_prompts() -> None:
    with pytest.raises(UserError, match="longer than the 8704"):
        llm(139, "tenants.llm.shape=tiny")


def test_every_built_in_llm_has_a_need() -> None:
    assert set(LLM_BYTES) == set(CONTEXT_TOKENS)


@pytest.mark.parametrize(
    ("free_gib", "overrides", "share", "model"),
    [
        (139, (), 0.6, "qwen3-30b-a3b-shaped"),
        (90, (), 0.59, "qwen3-30b-a3b-shaped"),
        (110, ("tenants.tts.replicas=9",), 0.5, "qwen3-30b-a3b-shaped"),
        (110, ("tenants.tts.replicas=12",), 0.42, "qwen3-8b-shaped"),
        (110, ("tenants.tts.replicas=9", "tenants.llm.vllm={gpu_memory_utilization: 0.6}"), 0.6,
         "qwen3-30b-a3b-shaped"),
    ],
)  # fmt: skip
def test_a_vllm_leaves_the_neighbours_their_room(
    free_gib: float, overrides: tuple[str, ...], share: float, model: str
) -> None:
    tenant = llm(free_gib, *overrides, vllm=True)
    assert tenant.vllm is not None
    assert (tenant.vllm.gpu_memory_utilization, tenant.vllm.model) == (share, model)
