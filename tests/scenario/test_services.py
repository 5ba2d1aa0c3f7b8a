"""The scenario that is written for services at given addresses: what it keeps of the one it extends."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.scenario import services
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load, packaged_names
from cotenant.scenario.schema import Scenario

KINDS = ("speech", "face", "completions")


def written(base: str, tenants: dict[str, dict[str, Any]], folder: Path, **more: Any) -> Scenario:
    document = services.draft("my services", base, load(base), tenants) | more
    path = folder / "x.yaml"
    path.write_text(services.to_yaml(document, ["a comment\nin two lines \x1b[31m"]))
    return load(str(path))


@pytest.mark.parametrize("base", packaged_names())
def test_any_packaged_scenario_can_be_extended(base: str, tmp_path: Path) -> None:
    names = [services.tenant_of_kind(load(base), kind) for kind in KINDS]
    tenants = {name: {"url": f"http://127.0.0.1:{8_000 + i}"} for i, name in enumerate(names) if name}
    found = written(base, tenants, tmp_path)
    assert found.name == "my-services"
    for name, said in tenants.items():
        assert found.tenants[name].engine == "attach"
        assert found.tenants[name].url == said["url"]
        assert found.tenants[name].vllm is None
        assert found.tenants[name].replicas == 1
    assert found.stages == load(base).stages
    assert resolve(found, "cpu").tenants.keys() == found.tenants.keys()


@pytest.mark.parametrize("given", [k for n in (1, 2, 3) for k in itertools.combinations(KINDS, n)])
def test_the_base_has_what_was_given_and_a_voice_and_nothing_else(given: tuple[str, ...]) -> None:
    kinds = [tenant.kind for tenant in load(services.base_for(given)).tenants.values()]
    assert sorted(kinds) == sorted({*given, "speech"})


def test_what_was_found_gives_way_to_what_is_said() -> None:
    document = {"tenants": {"tts": {"url": "u", "voice": "mine", "model": None}}}
    found = services.settled(document, {"tts": {"voice": "theirs", "model": "m", "rate": 24_000}})
    assert found["tenants"]["tts"] == {"url": "u", "voice": "mine", "model": "m", "rate": 24_000}
    assert document["tenants"]["tts"]["model"] is None


def test_prompts_are_shortened_only_where_the_context_ends() -> None:
    attached = ["tenants.llm={kind: completions, engine: attach, url: 'http://h'}", "load.prefill.prompt=32k"]
    scenario = resolve(load("all-together", attached), "cpu")
    assert services.shortened_prompts(scenario, {"llm": 40_000}) == {}
    assert services.shortened_prompts(scenario, {"llm": 8_192}) == {"prefill": 8_192 - 4 - 64}
    assert services.shortened_prompts(scenario, {"llm": 512}) == {"prefill": 512 - 68, "decode": 48}
    assert services.shortened_prompts(scenario, {}) == {}


def test_comments_stay_comments() -> None:
    text = services.to_yaml({"name": "x"}, ["one\ntwo: 3", "\x1b[2J"])
    assert yaml.safe_load(text) == {"name": "x"}
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("tenant", "engine", "protocol"),
    [
        # A voice's server is asked what it speaks; what the others speak is ours to say.
        ("tts", "attach", "auto"),
        ("head", "attach", "cotenant"),
        ("llm", "attach", "openai"),
        ("tts", "builtin", "openai"),
        ("head", "builtin", "cotenant"),
        ("llm", "builtin", "openai"),
    ],
)
def test_auto_stays_for_the_voices_server_of_somebody_else_alone(
    tenant: str, engine: str, protocol: str
) -> None:
    said = [f"tenants.{tenant}.protocol=auto", f"tenants.{tenant}.engine={engine}"]
    if engine == "attach":
        said.append(f"tenants.{tenant}.url=http://127.0.0.1:8000")
    assert resolve(load("all-together", said), "cpu").tenants[tenant].protocol == protocol
