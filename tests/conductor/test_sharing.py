"""How the GPU is shared: refused before the run where it would not be so, recorded, and seen to be so."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from cotenant.conductor import sharing
from cotenant.conductor.preflight import COMPUTE_EXCLUSIVE, COMPUTE_PROHIBITED, Device
from cotenant.conductor.run import Recorded, record
from cotenant.errors import CouldNotRun, UserError
from cotenant.live.progress import State
from cotenant.observers.gpu_device import Note
from cotenant.run_dir.reader import read
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.schema import Scenario
from cotenant.tenants import mps
from tests.conductor.harness import free_port
from tests.tenants_process.mps_rig import install

UUID = "GPU-11111111-2222-3333-4444-555555555555"
NOWHERE = {mps.PIPES: "/nowhere"}


def gpu(**changes: Any) -> Device:
    return Device(
        **{"kind": "gpu", "name": "NVIDIA H200", "cpu_count": 2, "gpu": UUID, "gpu_count": 1, **changes}
    )


def scenario(folder: Path, mode: str = "mps", **llm: Any) -> Scenario:
    """Resolved as for a GPU: two idle LLMs, one of them with a limit, in two stages."""
    tenants: dict[str, dict[str, Any]] = {}
    for name in ("one", "two"):
        port = free_port()
        command = [sys.executable, "-m", "cotenant.testing.idle_llm", "--port", str(port)]
        tenants[name] = {"kind": "completions", "engine": "launch", "command": command, "device": "cuda:0",
                         "url": f"http://127.0.0.1:{port}"}  # fmt: skip
    tenants["two"] |= {"mps": {"thread_percentage": 50, "priority": 1}} if mode == "mps" else {}
    tenants["two"] |= llm
    ask = {"kind": "completions", "streams": 1, "prompt": 4, "output": 20}
    text = {
        "name": "test", "sharing": mode, "device": "cuda:0", "tenants": tenants,
        "load": {name: {"tenant": name, **ask} for name in tenants},
        "stages": [{"name": "alone", "load": ["one"], "baseline": True},
                   {"name": "beside", "load": ["one", "two"]}],
        "timing": {"settle": "100ms", "settle_limit": "3s", "measure": "400ms", "extend": "0s", "solo": "0s"},
        "observe": {"canary": False, "gpu": False},
    }  # fmt: skip
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return resolve(load(str(path), ()), "gpu")


class Quiet:
    """Keeps what a person would be told; `then` is called once at the first sight of `stage`."""

    def __init__(self, stage: str = "", then: Any = None) -> None:
        self.lines: list[str] = []
        self._stage, self._then = stage, then

    def show(self, state: State) -> None:
        if state.stage == self._stage and self._then is not None:
            then, self._then = self._then, None
            then()

    def line(self, text: str) -> None:
        self.lines.append(text)

    def close(self) -> None:
        pass


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{install(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(mps.PIPES, "/nowhere")


def run(folder: Path, wanted: Scenario, progress: Quiet | None = None) -> Recorded:
    quiet = progress or Quiet()
    return record(wanted, device=gpu(), out=folder / "runs", make_progress=lambda: quiet)


def manifest_of(folder: Path) -> dict[str, Any]:
    (found,) = (folder / "runs").glob("*/manifest.json")
    manifest: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return manifest


@pytest.mark.usefixtures("on_path")
def test_a_run_by_mps_has_a_daemon_of_its_own(tmp_path: Path) -> None:
    recorded = run(tmp_path, scenario(tmp_path))
    assert recorded.status == "complete", recorded.why
    told = read(recorded.run_dir).manifest["sharing"]
    assert told["mode"] == "mps"
    assert told["daemon"]["visible_devices"] == UUID
    assert told["limits"] == {"two": {"thread_percentage": 50, "priority": 1}}
    assert told["clients"] == {"one": 1, "two": 1}
    assert "Exit" in (recorded.run_dir / told["daemon"]["log"]).read_text(encoding="utf-8")
    assert not psutil.pid_exists(told["daemon"]["pid"])


@pytest.mark.usefixtures("on_path")
def test_a_daemon_that_ends_in_mid_run_is_said_first_and_what_was_measured_stays(tmp_path: Path) -> None:
    def kill() -> None:
        wrapper = psutil.Process(manifest_of(tmp_path)["sharing"]["daemon"]["pid"])
        (daemon,) = wrapper.children()
        daemon.kill()

    recorded = run(tmp_path, scenario(tmp_path), Quiet("beside", kill))
    assert recorded.status == "failed"
    assert recorded.why is not None
    assert recorded.why.startswith("the MPS daemon of this run ended (SIGKILL) in beside")
    assert "Starting control daemon" in recorded.why
    recording = read(recorded.run_dir)
    marks = recording.tables["marks"].to_pylist()
    assert [row["name"] for row in marks if row["what"] == "fault"] == [mps.IDENTIFIER]
    assert recording.tables["streams"].num_rows > 0


@pytest.mark.usefixtures("on_path")
def test_a_tenant_that_is_no_client_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_CLIENTS_LIMIT_S", 0.0)
    wanted = scenario(tmp_path)
    wanted.tenants["one"].env[mps.PIPES] = "/nowhere"  # the checks of a scenario refuse it
    with pytest.raises(CouldNotRun, match=r"one did not become a client .* tenants\.one\.device: cpu"):
        run(tmp_path, wanted)
    assert manifest_of(tmp_path)["status"] == "failed"


@pytest.mark.usefixtures("on_path")
def test_a_daemon_that_does_not_start_ends_the_run_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS", "refuse")
    with pytest.raises(CouldNotRun, match=r"(?s)the MPS daemon of this run ended.*the reason"):
        run(tmp_path, scenario(tmp_path))
    assert "the reason" in manifest_of(tmp_path)["error"]


def test_a_missing_program_is_said_before_a_run_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CouldNotRun, match="it is not on PATH; install it"):
        run(tmp_path, scenario(tmp_path))
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize(
    ("mode", "changes", "message"),
    [
        ("mps", {"mig": True}, "MIG is on for NVIDIA H200"),
        ("mps", {"wsl2": True}, "there is no MPS under WSL2"),
        ("mps", {"compute_mode": COMPUTE_PROHIBITED}, "no program may use it"),
        ("time-slice", {"compute_mode": COMPUTE_PROHIBITED}, "no program may use it"),
        ("time-slice", {"compute_mode": COMPUTE_EXCLUSIVE}, "only one process can use it at a time"),
    ],
)
def test_a_mode_that_cannot_start(tmp_path: Path, mode: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CouldNotRun, match=message):
        sharing.check(scenario(tmp_path, mode), gpu(**changes), NOWHERE)


def test_a_machine_without_a_gpu_has_no_mps(tmp_path: Path) -> None:
    cpu = Device(kind="cpu", name="CPU", cpu_count=2)
    with pytest.raises(UserError, match="this run is on the CPU"):
        sharing.check(scenario(tmp_path), cpu, NOWHERE)
    assert sharing.check(scenario(tmp_path, "time-slice"), cpu, NOWHERE) == []
    assert sharing.facts(scenario(tmp_path, "time-slice"), cpu)["mode"] is None


@contextmanager
def other_daemon(folder: Path) -> Iterator[dict[str, str]]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control"))
        listener.listen()
        yield {mps.PIPES: str(folder)}


@pytest.mark.usefixtures("on_path")
def test_somebody_elses_daemon(tmp_path: Path) -> None:
    theirs = tmp_path / "mps"
    theirs.mkdir()
    with other_daemon(theirs) as environ:
        with pytest.raises(CouldNotRun, match=r"one, two would become its clients.*echo quit \| CUDA_MPS"):
            sharing.check(scenario(tmp_path, "time-slice"), gpu(), environ)
        (note,) = sharing.check(scenario(tmp_path), gpu(), environ)
        assert note["kind"] == "other-mps-daemon"
        assert "this run uses one of its own" in note["text"]
    assert sharing.check(scenario(tmp_path, "time-slice"), gpu(), environ) == []


@pytest.mark.usefixtures("on_path")
def test_exclusive_mode_is_mentioned_under_mps(tmp_path: Path) -> None:
    (note,) = sharing.check(scenario(tmp_path), gpu(compute_mode=COMPUTE_EXCLUSIVE), NOWHERE)
    assert note["kind"] == "exclusive-process"


@pytest.mark.parametrize(
    ("first", "wanted", "count", "expected"),
    [
        ("cuda:0", ["cuda:0"], 1, (UUID, True)),
        ("cuda:0", ["cuda:0"], 8, (UUID, True)),
        (UUID, [UUID], 8, (UUID, True)),
        (UUID, [UUID[:12]], 8, (UUID, True)),
        ("cuda:1", ["cuda:1"], 2, ("0,1", False)),
        ("cuda:0", ["cuda:0", "cuda:1"], 2, ("0,1", False)),
        (UUID, ["cuda:0"], 2, ("0,1", False)),
        ("cuda:0", ["GPU-other"], 2, ("0,1", False)),
    ],
)
def test_the_gpus_of_the_daemon(
    first: str, wanted: list[str], count: int, expected: tuple[str | None, bool]
) -> None:
    assert sharing.visible_devices(first, wanted, gpu(gpu_count=count)) == expected


def test_a_slice_is_reported(tmp_path: Path) -> None:
    notes = (Note("mig-board", "clocks are the whole card's", ""), Note("no-gpm", "no GPM", ""))
    device, wanted = gpu(gpu="MIG-1", mig=True, notes=notes), scenario(tmp_path, "time-slice")
    told = sharing.facts(wanted, device)
    assert told["mig"] == {"on": True, "slice": "MIG-1"}
    assert told["green_contexts"] is None
    assert "green contexts" in told["why"]["green_contexts"]
    # Without the GPU's observer nobody else would tell of the rest.
    kinds = [note["kind"] for note in sharing.device_notes(wanted, device)]
    assert kinds == ["mig-board", "no-gpm", "mig-coverage"]
    observed = wanted.model_copy(update={"observe": wanted.observe.model_copy(update={"gpu": True})})
    kinds = [note["kind"] for note in sharing.device_notes(observed, device)]
    assert kinds == ["mig-board", "mig-coverage"]
    assert sharing.device_notes(observed, gpu()) == []
