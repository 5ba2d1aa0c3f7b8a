"""The options of built-in servers: what they become for a machine, and what they do not go with."""

from pathlib import Path
from typing import Any

import pytest

from cotenant.scenario.auto import DeviceKind, Machine, resolve
from cotenant.scenario.load import dump, load, parse
from cotenant.scenario.schema import Scenario, Tenant
from tests.scenario.test_wrong import GOOD, message_of


def resolved_tts(kind: DeviceKind, *overrides: str) -> Tenant:
    return resolve(load("tts-alone", list(overrides)), kind).tenants["tts"]


@pytest.mark.parametrize(
    ("kind", "overrides", "voices"),
    [
        ("gpu", [], 8),
        ("gpu", ["tenants.tts.replicas=9", "load.voices.listeners=9"], 1),
        ("gpu", ["tenants.tts.replicas=3", "load.voices.listeners=10"], 4),
        ("gpu", ["tenants.tts.replicas=12"], 1),
        ("gpu", ["load.voices.listeners=100"], 64),
        ("gpu", ["tenants.tts.voices=auto"], 8),
        ("gpu", ["tenants.tts.voices=3"], 3),
        ("cpu", [], 2),
    ],
)
def test_a_server_batches_its_listeners(kind: DeviceKind, overrides: list[str], voices: int) -> None:
    assert resolved_tts(kind, *overrides).voices == voices


def test_listeners_of_several_loads_count_where_they_run_together() -> None:
    data = dump(load("tts-alone"))
    data["load"] |= {
        name: {"tenant": "tts", "kind": "voices", "listeners": n} for name, n in (("a", 3), ("b", 5))
    }
    data["stages"] = [{"name": "one", "load": ["a", "b"]}, {"name": "two", "load": ["b", "voices"]}]
    data["load"]["voices"]["listeners"] = 1
    assert resolve(parse(data), "gpu").tenants["tts"].voices == 8


def test_graphs_on_a_gpu_and_single_launches_elsewhere() -> None:
    scenario = load("all-together", ["tenants.head.device=cpu", "tenants.llm.mode=eager"])
    assert {n: t.mode for n, t in resolve(scenario, "gpu").tenants.items()} == {
        "tts": "graphs", "head": "eager", "llm": "eager",
    }  # fmt: skip
    assert resolved_tts("cpu").mode == "eager"
    assert resolved_tts("cpu", "tenants.tts.mode=graphs").mode == "graphs"


def test_an_overhead_is_the_shapes_own_where_none_is_given() -> None:
    assert resolved_tts("gpu", "tenants.tts.step_overhead=auto").step_overhead_ns is None
    assert resolved_tts("gpu", "tenants.tts.step_overhead=0ms").step_overhead_ns == 0
    assert resolved_tts("gpu", "tenants.tts.step_overhead=6.5ms").step_overhead_ns == 6_500_000


def options(scenario: Scenario) -> dict[str, Any]:
    keys = ("mode", "voices", "step_overhead", "context_frames")
    return {key: dump(scenario)["tenants"]["tts"].get(key) for key in keys}


def test_the_options_survive_the_dump() -> None:
    given = {"mode": "auto", "voices": "auto", "step_overhead": "auto", "context_frames": 25}
    scenario = load("tts-alone", [f"tenants.tts.{key}={value}" for key, value in given.items()])
    assert options(scenario) == given
    assert parse(dump(scenario)) == scenario
    for kind in ("cpu", "gpu"):
        resolved = resolve(scenario, kind)
        assert parse(dump(resolved)) == resolved == resolve(resolved, "gpu")
        assert "auto" not in options(resolved).values()


def test_who_asks_for_a_built_in_servers_option_gets_one() -> None:
    vllm = Machine(vllm="/venv/bin/vllm", gpu_total_bytes=140 * 2**30, gpu_free_bytes=139 * 2**30)
    for override in ("shape=llm-8b", "mode=eager", "step_overhead=1ms"):
        scenario = load("llm-decode", [f"tenants.llm.{override}"])
        assert resolve(scenario, "gpu", machine=vllm).tenants["llm"].engine == "builtin"
    assert resolve(load("llm-decode"), "gpu", machine=vllm).tenants["llm"].engine == "launch"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, voices: 65",
         "tenants.tts.voices (line 4): 65 is out of range; write a whole number from 1 to 64, or auto"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, voices: 0",
         "tenants.tts.voices (line 4): 0 is out of range"),
        ("face, engine: builtin", "face, engine: builtin, voices: 4",
         "tenants.head.voices (line 5): voices is for kind: speech, and this is face; remove it"),
        ("completions, engine: builtin", "completions, engine: builtin, context_frames: 4",
         "tenants.llm.context_frames (line 6): context_frames is for kind: speech, and this is completions"),
        ("speech, engine: builtin", 'speech, engine: attach, url: "http://h:1", mode: eager',
         "tenants.tts.mode (line 4): the engine attach takes no mode; remove it, or use engine: builtin"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, mode: graph",
         "tenants.tts.mode (line 4): 'graph' is not known; did you mean 'graphs'?"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, step_overhead: 6",
         "tenants.tts.step_overhead (line 4): 6 has no unit; write 6s or 6ms, or auto"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, step_overhead: 2s",
         "tenants.tts.step_overhead (line 4): this is host time that every single step spends"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, step_overhead: -1ms",
         "tenants.tts.step_overhead (line 4)"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, context_frames: -1",
         "tenants.tts.context_frames (line 4): -1 is out of range; write a whole number from 0"),
        ("tts: {kind: speech, engine: builtin", "tts: {kind: speech, engine: builtin, voise: 4",
         "tenants.tts.voise (line 4): unknown key; did you mean 'voice'?"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert told in message_of(GOOD.replace(old, new, 1), tmp_path)
