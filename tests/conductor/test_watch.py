"""Which observers a run has, and what of their logs reaches the manifest and the user."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cotenant.conductor import watch
from cotenant.conductor.context import Run, State
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario

PIDS = {"tts@0": 7, "tts@1": 8, "llm": 9, "load:askers": 10, "mps:daemon": 11}
URLS = {"tts": ["http://h:1", "http://h:2"], "llm": ["http://h:3"]}


def _commands(*overrides: str, device_kind: str = "gpu") -> dict[str, list[str]]:
    return watch.commands(_scenario(*overrides), device_kind, URLS, PIDS, 5)


def _scenario(*overrides: str) -> Scenario:
    return load("all-together", overrides)


def test_all_of_them_on_a_gpu_and_no_gpu_ones_on_a_cpu() -> None:
    assert set(_commands()) == {"host", "engine-llm", "gpu", "gpu-canary"}
    assert set(_commands(device_kind="cpu")) == {"host", "engine-llm"}


def test_each_can_be_switched_off() -> None:
    everything = set(_commands())
    for field, gone in (
        ("canary", "gpu-canary"), ("gpu", "gpu"), ("host", "host"), ("engine", "engine-llm"),
    ):  # fmt: skip
        assert everything - set(_commands(f"observe.{field}=false")) == {gone}


def test_an_engine_is_read_by_its_tenants_own_key_and_trust() -> None:
    attached = ["tenants.llm.engine=attach", "tenants.llm.url=https://h:3", "tenants.llm.api_key_env=LLM_KEY"]
    flags = _commands(*attached, "tenants.llm.ca_file=ca.pem")["engine-llm"]
    assert flags[-4:] == ["--api-key-env", "LLM_KEY", "--ca-file", "ca.pem"]
    flags = _commands(*attached, "tenants.llm.insecure=true")["engine-llm"]
    assert flags[-3:] == ["--api-key-env", "LLM_KEY", "--insecure"]
    assert not {"--insecure", "--ca-file", "--api-key-env"} & set(_commands()["engine-llm"])


def test_tenants_are_told_by_pid_and_the_run_by_what_all_descend_from() -> None:
    flags = _commands()["gpu"]
    assert flags[flags.index("--pids") + 1] == "llm=9,tts@0=7,tts@1=8"
    assert flags[flags.index("--run-pid") + 1] == "5"


def test_what_an_observer_told_is_kept_and_shown_once(tmp_path: Path) -> None:
    lines: list[str] = []
    notes: list[tuple[str, Any]] = []
    manifest: dict[str, Any] = {}

    def note(key: str, value: Any) -> None:
        notes.append((key, value))
        manifest[key] = value

    run = cast(
        Run,
        SimpleNamespace(
            own_logs=lambda: tmp_path,
            manifest=manifest,
            note=note,
            progress=SimpleNamespace(line=lines.append),
        ),
    )
    watch.note_observers(run, tell=True)
    assert (notes, lines) == ([], [])
    refused = {"ready": False, "kind": "no_library", "message": "no libnvidia-ml", "advice": "install it"}
    (tmp_path / "observer-gpu.log").write_text(json.dumps(refused) + "\n", encoding="utf-8")
    (tmp_path / "observer-host.log").write_text("", encoding="utf-8")
    watch.note_observers(run, tell=True)
    watch.note_observers(run, tell=False)
    assert notes == [("observers", {"gpu": refused})]
    assert lines == ["observer gpu: no libnvidia-ml; install it"]


def test_an_observer_that_ends_is_marked_and_the_run_goes_on() -> None:
    marks: list[tuple[str, str]] = []
    run = cast(Run, SimpleNamespace(mark_now=lambda what, name: marks.append((what, name))))
    state = State(stage="alone")
    state.ended(run, "observer:gpu", "code 5")
    assert (marks, state.stopped) == ([("fault", "observer:gpu")], None)
    state.closing = True
    state.ended(run, "observer:host", "code 0")
    assert len(marks) == 1
