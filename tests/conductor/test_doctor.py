"""The probes of `doctor` on this machine and over a fake GPU; what ends with which code."""

import json
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli import doctor as command
from cotenant.cli.app import make_app
from cotenant.conductor import preflight
from cotenant.conductor.doctor import gpu_probe, host_probe, service_probe
from cotenant.conductor.doctor import machine as doctor
from cotenant.conductor.preflight import Device
from cotenant.errors import UserError
from cotenant.report.doctor.findings import can_run, findings
from cotenant.scenario.hidden import NO_SECRETS
from cotenant.scenario.load import load
from cotenant.scenario.schema import Tenant
from cotenant.tenants import attach
from cotenant.testing.fake_gpu import FakeGpu
from cotenant.testing.fake_nvml import install
from cotenant.testing.fake_nvml_library import FakeLibrary


def test_this_machine() -> None:
    found = host_probe.look(Path("runs"), None)
    assert found.cores >= 1
    assert found.kernel_stamps is True
    assert found.stamp_lag_ns is not None
    assert 0 <= found.stamp_lag_ns < 2_000_000_000
    assert found.clock_step_ns is not None
    assert 0 < found.clock_step_ns < 10_000_000
    assert found.free_disk_bytes is not None
    assert found.disk_trouble is None
    assert isinstance(host_probe.sound().importable, bool)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found = host_probe.look(tmp_path / "file" / "runs", None)
    assert found.disk_trouble is not None


def test_the_observer_itself_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = json.dumps({"codes": {"gpm:10": 3, "nvmlDeviceGetTotalEnergyConsumption": 3}})
    argv = (sys.executable, "-m", "cotenant.testing.fake_nvml", fake, "cotenant.observers.gpu")
    monkeypatch.setattr(gpu_probe, "OBSERVER", argv)
    device = Device(kind="gpu", name="NVIDIA H200", cpu_count=2, gpu=FakeGpu().uuid, gpu_count=2)
    with install(FakeLibrary(FakeGpu(), FakeGpu(uuid="GPU-2", name=b"NVIDIA L4"))):
        found = gpu_probe.look(device)
    assert found.driver == "580.159.04"
    assert found.gpm
    assert found.readings["sm_percent"] == "ok"
    assert found.readings["dram_percent"] == "unsupported"
    assert found.readings["energy_power_w"] == "unsupported"
    assert found.readings["power_w"] == "ok"
    assert found.count == 2
    assert found.others[1].startswith("1 NVIDIA L4, 56 GiB free")
    assert found.links == ("0-1 not known",)


def test_an_observer_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = json.dumps({"init_code": 18})
    argv = (sys.executable, "-m", "cotenant.testing.fake_nvml", fake, "cotenant.observers.gpu")
    monkeypatch.setattr(gpu_probe, "OBSERVER", argv)
    with install(None):
        found = gpu_probe.look(Device(kind="gpu", name="x", cpu_count=2))
    assert found.observer_trouble is not None
    assert "different versions" in found.observer_trouble.text


def test_all_together_runs_here(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.machine("all-together", ["device=cpu"], tmp_path, as_json=True) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["can_run"] is True
    assert "all-together can run here: cotenant run all-together --set device=cpu" in err
    assert {"device", "tts", "head", "llm", "PyTorch", "CPU", "clock", "disk"} <= {
        one["topic"] for one in told["findings"]
    }


OWN = """
extends: tts-alone
name: mine
device: cpu
tenants: {tts: {kind: speech, engine: attach, url: "http://127.0.0.1:9", shape: null}}
"""
OPTIONAL = {"PyTorch", "vLLM", "browser", "sound"}


def topics_told(capsys: pytest.CaptureFixture[str], *arguments: str) -> set[str]:
    with pytest.raises(SystemExit):
        make_app()(["doctor", *arguments], prog_name="cotenant")
    return {line.split()[0] for line in capsys.readouterr().err.splitlines() if line[:1].strip()}


def test_only_what_the_scenario_has_a_use_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(OWN)
    named = topics_told(capsys, "mine.yaml", "--no-try")
    assert {"device", "tts", "CPU", "clock", "disk"} <= named
    assert not named & OPTIONAL
    assert named | OPTIONAL == topics_told(capsys, "mine.yaml", "--no-try", "--all")
    assert topics_told(capsys, "tts-alone", "--set", "device=cpu") & OPTIONAL == {"PyTorch"}
    assert topics_told(capsys, "--set", "device=cpu") >= OPTIONAL
    with pytest.raises(SystemExit) as ended:
        make_app()(["doctor", "--all", "--tts", "http://127.0.0.1:9"], prog_name="cotenant")
    assert ended.value.code == 2
    assert "--all is for the machine" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "told"), [("198.51.100.7", True), ("127.0.0.1", False)])
def test_a_service_on_another_machine_is_said_to_be(
    host: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answers(_name: str, url: str, *_: object, **__: object) -> str:
        return url

    monkeypatch.setattr(attach, "check", answers)
    tts = f"tenants.tts={{kind: speech, engine: attach, url: 'http://{host}:8091'}}"
    (found,) = service_probe.look(load("tts-alone", [tts]).tenants, NO_SECRETS)
    assert found.what.startswith(f"answers at http://{host}:8091")
    assert ("on another machine, by its address" in found.what) is told


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"BROWSER": "w3m"}, None),
        ({"DISPLAY": ":0"}, "chromium"),
        ({"BROWSER": "chromium"}, "chromium"),
    ],
)
def test_a_browser_that_cannot_be_shown_is_none(
    variables: dict[str, str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("chromium", "w3m"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    # As in a process that has not looked for one yet.
    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    browser = service_probe.programs(load("tts-alone"), {}, "cpu", llm_auto=False)[-1]
    assert (browser.name, browser.found) == ("browser", found)
    assert browser.lacking.startswith("no display to show ") == (found is None)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(preflight, "_torch_has_cuda", lambda: False)
    with install(None):
        yield


@pytest.mark.usefixtures("no_gpu")
def test_what_keeps_a_scenario_from_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = [
            "tenants.llm={kind: completions, engine: launch, command: [/no/such/program], "
            f"url: 'http://127.0.0.1:{port}'}}",
            "tenants.head.engine=attach",
            "tenants.head.url=ws://127.0.0.1:1",
            "tenants.head.api_key_env=COTENANT_NO_SUCH_KEY",
        ]
        facts = doctor.look("all-together", given, tmp_path)
    troubles = {one.name: one.trouble.text for one in facts.services if one.trouble is not None}
    assert f"port {port} of 127.0.0.1 is in use" in troubles["llm"]
    assert troubles["head"].startswith("nothing answers at ws://127.0.0.1:1")
    assert not can_run(findings(facts))
    keys = [one.key_trouble.text for one in facts.services if one.key_trouble is not None]
    assert keys == ["COTENANT_NO_SUCH_KEY is not set, and holds its key: a run would not start"]


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("device=cuda:0", "libnvidia-ml.so.1 was not found"),
        ("sharing=mps", "sharing: mps shares an NVIDIA GPU, and device is cpu"),
    ],
)
def test_a_gpu_that_is_asked_for_and_is_not_there(override: str, words: str, tmp_path: Path) -> None:
    found = findings(doctor.look("tts-alone", [override], tmp_path))
    assert any(one.word == "missing" and words in one.text for one in found)


def test_a_bad_scenario_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no scenario 'nowhere'"):
        doctor.look("nowhere", [], tmp_path)
    with pytest.raises(UserError, match="unknown key"):
        doctor.look("tts-alone", ["tenant.x=1"], tmp_path)


def test_a_vllm_beside_its_neighbours_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(gpu_probe, "_observe", lambda _gpu: ({}, {}, None))
    block = "{bin: /no/vllm, model: qwen3-8b-shaped, gpu_memory_utilization: 0.6}"
    given = ["tenants.llm={kind: completions, engine: launch, vllm: " + block + "}"]
    with install(FakeLibrary(FakeGpu())):
        found = findings(doctor.look("all-together", given, tmp_path))
    told = {(one.topic, one.word): one for one in found if one.word == "missing"}
    # 60 of 150 GB are free, 7 GiB go to voice and head, 1 GiB to nobody.
    share = int((60e9 - 8 * 2**30) / 150e9 * 100) / 100
    assert f"0.6 is too much: {share:g} is the largest that fits" in next(
        one.text for one in found if one.topic == "memory" and one.advice.startswith("--set")
    )
    assert "/no/vllm is no program here" in told[("llm", "missing")].text


def test_a_pytorch_without_cuda_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "_torch_has_cuda", lambda: False)
    with install(FakeLibrary(FakeGpu())):
        facts = doctor.look("tts-alone", [], tmp_path)
    assert facts.gpu_missing is not None
    assert "the installed PyTorch has no CUDA" in facts.gpu_missing.text
    assert "pytorch.org" in facts.gpu_missing.advice


CONFIG = {"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64}


@pytest.mark.parametrize("downloaded", [False, True])
def test_sizes_are_those_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: bool
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--an-org--a-model/snapshots/0123" if downloaded else tmp_path / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for part in ("model-1.safetensors", "model-2.safetensors"):
        (folder / part).write_bytes(bytes(1_000))
    block = {"bin": "/v/vllm", "model": "an-org/a-model" if downloaded else str(folder)}
    tenant = Tenant.model_validate({"kind": "completions", "engine": "launch", "vllm": block})
    found = service_probe.models({"llm": tenant})["llm"]
    assert (found.weights_bytes, found.kv_bytes_per_token) == (2_000, 2 * 2 * 4 * 64 * 2)
    (folder / "config.json").write_text("{")
    assert service_probe.models({"llm": tenant})["llm"].weights_bytes is None


def test_a_model_that_is_not_here_has_no_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    block = {"bin": "/v/vllm", "model": "an-org/a-model"}
    tenant = Tenant.model_validate({"kind": "completions", "engine": "launch", "vllm": block})
    assert service_probe.models({"llm": tenant})["llm"].kv_bytes_per_token is None
