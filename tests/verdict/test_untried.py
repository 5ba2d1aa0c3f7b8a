"""What a run names as untried: what it did not do, with the settings that do it."""

from typing import Any

import pytest

from cotenant.records import TABLES, Recording
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.parse import dump
from cotenant.verdict.plan import read_plan
from cotenant.verdict.untried import untried

GPU: dict[str, Any] = {"kind": "gpu", "name": "a GPU"}


def of(stage: str, *overrides: str, device: str = "gpu") -> list[str]:
    scenario = resolve(load("voices-apart", overrides), "gpu" if device == "gpu" else "cpu")
    manifest = {"schema": 1, "scenario": dump(scenario), "device": {**GPU, "kind": device}}
    tables = {name: schema.empty_table() for name, schema in TABLES.items()}
    plan = read_plan(Recording(manifest=manifest, tables=tables))
    return untried(plan, next(one for one in plan.stages if one.name == stage))


def test_on_a_gpu_batching_mps_and_shorter_prompts() -> None:
    batched, mps, prompts = of("all-together")
    assert "--set tenants.tts.replicas=1" in batched
    assert "--set sharing=mps --set tenants.llm.mps.thread_percentage=50" in mps
    assert "--set tenants.llm.mps.priority=1" in mps
    assert prompts == "fewer or shorter prompts of the LLM"


@pytest.mark.parametrize(
    ("setting", "named", "not_named"),
    [
        ("tenants.llm.mps.thread_percentage=50", ["below 50 %", "low priority"], "thread_percentage=50"),
        ("tenants.llm.mps.priority=1", ["thread_percentage=50"], "priority=1"),
    ],
)
def test_what_a_run_under_mps_did_is_not_named_again(setting: str, named: list[str], not_named: str) -> None:
    text = "; ".join(of("all-together", "sharing=mps", setting))
    assert all(word in text for word in named)
    assert not_named not in text
    assert "sharing=mps" not in text


def test_nothing_is_named_that_cannot_be_set() -> None:
    attached = ("tenants.llm.engine=attach", "tenants.llm.url=http://127.0.0.1:1")
    assert "MPS" not in "; ".join(of("all-together", *attached))
    assert of("talking-head", "tenants.tts.replicas=1") == []
    assert of("tts-alone") == []
    assert of("all-together", device="cpu") == ["fewer or shorter prompts of the LLM"]
