"""Scenarios of attached services for the tests of doctor, and what is found of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from cotenant.conductor.doctor import machine as doctor
from cotenant.report.doctor.facts import MachineFacts, Tried
from cotenant.report.doctor.finding import Finding
from cotenant.report.doctor.findings import findings
from cotenant.testing.truth_server import Script, Served
from cotenant.units import NS_PER_MS, NS_PER_S

KEY = "sk-s3cret-0123456789abcdef"
PCM = {"Content-Type": "audio/pcm;rate=16000"}
LOADS: dict[str, Any] = {
    "voices": {"tenant": "tts", "kind": "voices", "listeners": 3, "text": ["Is this the sentence?"]},
    "faces": {"tenant": "head", "kind": "faces", "follows": "voices"},
    "ask": {"tenant": "llm", "kind": "completions", "prompt": 300, "output": 50},
    "short": {"tenant": "llm", "kind": "completions", "prompt": 60, "output": 9},
}
KINDS = {"tts": "speech", "head": "face", "llm": "completions"}


def write(path: Path, *, stage: list[str] | None = None, **tenants: dict[str, Any]) -> str:
    """A scenario of attached tenants with every load that they need, in one stage."""
    here = {name: {"kind": KINDS[name], "engine": "attach", **one} for name, one in tenants.items()}
    if "head" in tenants:
        here.setdefault("tts", {"kind": "speech", "engine": "builtin"})
    loads = {name: load for name, load in LOADS.items() if load["tenant"] in here}
    document = {"name": "mine", "device": "cpu", "tenants": here, "load": loads,
                "stages": [{"name": "all", "load": stage or list(loads)}]}  # fmt: skip
    place = path / "mine.yaml"
    place.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(place)


def look(scenario: str, folder: Path, *, limit_ns: int | None = 20 * NS_PER_S, **more: Any) -> MachineFacts:
    return doctor.look(scenario, [], folder, limit_ns=limit_ns, **more)


def tried(facts: MachineFacts) -> dict[str, Tried]:
    return {one.tenant: one for one in facts.tried}


def of(facts: MachineFacts, name: str) -> list[Finding]:
    return [one for one in findings(facts) if one.topic == name]


def voice(pieces: int = 3, every_ms: int = 20, **script: Any) -> Callable[[Served], Script]:
    """Speech of 100 ms a piece wherever it is asked for."""

    def answer(served: Served) -> Script:
        if "speech" not in served.path:
            return Script(status=404)
        audio = [(number * every_ms * NS_PER_MS, bytes(3_200)) for number in range(pieces)]
        return Script(pieces=audio, headers=PCM, **script)

    return answer
