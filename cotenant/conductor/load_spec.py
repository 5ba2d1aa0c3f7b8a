"""What a load process is told: its loads, the tenants they talk to, texts, limits."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cotenant.conductor.plan import used_loads
from cotenant.resources import data_dir
from cotenant.scenario.load import dump
from cotenant.scenario.parse import secrets_of
from cotenant.scenario.schema import Scenario, Voices

# The last lines of a list of texts are kept for settling, so that measured texts are met fresh.
SETTLING_LINES = 6

LISTENERS = "listeners"
ASKERS = "askers"

NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def group_loads(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Load process -> its loads. Faces share one with the voices they follow, whose audio they get."""
    groups: dict[str, list[str]] = {LISTENERS: [], ASKERS: []}
    for name in used_loads(scenario):
        groups[ASKERS if scenario.load[name].kind == "completions" else LISTENERS].append(name)
    return {process: tuple(names) for process, names in groups.items() if names}


def split_texts(text: str | Sequence[str], *, long: bool) -> dict[str, list[str]]:
    """The sentences of a voices load, split into those that are measured and those that settle.

    `builtin` stands for the packaged list (`long`: about 5 s of speech each, else 2 to 3 s). A list too
    short to be split serves both.
    """
    if isinstance(text, str):
        path = data_dir("fixtures") / "texts" / ("long.txt" if long else "short.txt")
        text = path.read_text(encoding="utf-8").splitlines()
    sentences = [line.strip() for line in text if line.strip()]
    if len(sentences) <= SETTLING_LINES:
        return {"measured": sentences, "settling": sentences}
    return {"measured": sentences[:-SETTLING_LINES], "settling": sentences[-SETTLING_LINES:]}


def load_specs(
    scenario: Scenario,
    urls: Mapping[str, Sequence[str]],
    *,
    run_dir: Path,
    run_id: str,
    long_texts: bool,
    audio_limit_bytes: int,
    found: Mapping[str, Mapping[str, Any]] = NOTHING,
) -> dict[str, dict[str, Any]]:
    """Load process -> the spec it is sent. Takes a resolved scenario and each tenant's URLs.

    `found`: tenant -> what its server was found to want, in place of what the scenario says (`auto`).
    `secrets` of a spec are those of the whole scenario: a tenant that was started with one may tell it.
    """
    resolved, secrets = dump(scenario), secrets_of(scenario, os.environ).values
    specs = {}
    for index, (process, loads) in enumerate(group_loads(scenario).items(), start=1):
        texts = {
            name: split_texts(load.text, long=long_texts)
            for name in loads
            if isinstance(load := scenario.load[name], Voices)
        }
        tenants = {scenario.load[name].tenant for name in loads}
        specs[process] = {
            "name": process,
            "index": index,
            "run_dir": str(run_dir),
            "run_id": run_id,
            "seed": scenario.seed,
            "audio_limit_bytes": audio_limit_bytes,
            "player": {
                "lookahead_ns": scenario.lookahead_ns,
                "start": scenario.player.start,
                "after_underrun": scenario.player.after_underrun,
                "quantum_ns": scenario.player.quantum_ns,
            },
            "stall_limit_ns": scenario.timing.stall_limit_ns,
            "request_limit_ns": scenario.timing.request_limit_ns,
            "tenants": {
                name: {**resolved["tenants"][name], **found.get(name, {}), "urls": list(urls[name])}
                for name in sorted(tenants)
            },
            "loads": {name: resolved["load"][name] for name in loads},
            "texts": texts,
            "secrets": list(secrets),
        }
    return specs
