"""From facts about a machine to findings, and the list that people read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant.observers.gpm import METRICS
from cotenant.report.doctor.facts import (
    GpuFacts,
    HostFacts,
    MachineFacts,
    Program,
    ServiceFacts,
    SoundFacts,
    Trouble,
)
from cotenant.report.doctor.finding import Finding
from cotenant.report.doctor.findings import GPM_METRICS, can_run, findings, to_json
from cotenant.report.doctor.text import render
from cotenant.scenario.memory import Fit, Need

GIB = 2**30
HOST = HostFacts(
    cores=16,
    cpu_name="A CPU",
    load_average=0.5,
    governors=("performance",),
    numa_nodes=1,
    realtime=True,
    clock_source="tsc",
    clock_step_ns=40,
    pair_bracket_ns=90,
    kernel_stamps=True,
    stamp_lag_ns=20_000,
    free_disk_bytes=50 * GIB,
    available_bytes=100 * GIB,
)
GPU = GpuFacts(
    name="NVIDIA H200",
    uuid="GPU-1",
    driver="580.1",
    total_bytes=140 * GIB,
    free_bytes=138 * GIB,
    count=1,
    gpm=True,
    readings={"power_w": "ok", "sm_percent": "ok"},
)
VLLM = Need(
    tenant="llm", need_bytes=84 * GIB, text="m: weights", claim_share=0.6, least_share=0.3, largest_share=0.9
)
GOOD = MachineFacts(
    scenario="x",
    device_kind="gpu",
    device_trouble=None,
    gpu_missing=None,
    gpu=GPU,
    fit=Fit(total_bytes=140 * GIB, free_bytes=138 * GIB, needs=(VLLM,)),
    host=HOST,
    sound=SoundFacts(importable=True, devices=("HDA",)),
    programs=(Program(name="PyTorch", found="2.13", use="computes", get="pip install torch", needed=True),),
    services=(ServiceFacts(name="tts", what="built in"),),
    sharing="time-slice",
)


def test_a_good_machine_has_nothing_but_ok() -> None:
    found = findings(GOOD)
    assert {one.word for one in found} == {"ok"}
    assert can_run(found)


def test_gpm_is_named_as_the_observer_names_it() -> None:
    assert set(GPM_METRICS) == set(METRICS.values())


def need(**changes: Any) -> dict[str, Any]:
    return {"fit": Fit(total_bytes=140 * GIB, free_bytes=138 * GIB, needs=(replace(VLLM, **changes),))}


def host(**changes: Any) -> dict[str, Any]:
    return {"host": replace(HOST, **changes)}


def gpu(**changes: Any) -> dict[str, Any]:
    return {"gpu": replace(GPU, **changes)}


@pytest.mark.parametrize(
    ("changes", "topic", "word", "words"),
    [
        ({"device_trouble": Trouble(text="no cuda:3")}, "device", "missing", "no cuda:3"),
        (
            {"device_kind": "cpu", "gpu": None, "fit": None, "gpu_missing": Trouble(text="no driver")},
            "device",
            "note",
            "no GPU is used (no driver): the scenario runs on the CPU",
        ),
        (
            gpu(readings={"power_w": "ok", "energy_power_w": "unsupported"}),
            "NVML",
            "note",
            "1 of 2 readings come; not: energy_power_w (unsupported)",
        ),
        (gpu(readings={"dram_percent": "no_permission"}), "GPM", "note", "dram_percent (no_permission)"),
        (gpu(observer_trouble=Trouble(text="it hangs")), "NVML", "note", "it hangs"),
        (gpu(notes=(Trouble(text="MIG is on"),)), "GPU", "note", "MIG is on"),
        (gpu(count=2, others=("0 A", "1 B"), links=("0-1 NVLink",)), "links", "ok", "0-1 NVLink"),
        (gpu(numa_node=1), "NUMA", "ok", "NUMA node 1"),
        (need(claim_share=0.95), "memory", "missing", "0.95 is too much: 0.9 is the largest that fits"),
        (need(claim_share=0.2), "memory", "missing", "0.2 is too little: 0.3 is needed"),
        (need(), "memory", "ok", "0.6 fits: up to 0.9 does, 0.3 is needed"),
        (need(need_bytes=None), "memory", "note", "whether all fits is not known"),
        (
            need(need_bytes=139 * GIB),
            "memory",
            "missing",
            "does not fit, 138.0 GiB of 140.0 GiB",
        ),
        ({"sharing_trouble": Trouble(text="no MPS")}, "sharing", "missing", "no MPS"),
        ({"sharing_notes": (Trouble(text="another daemon"),)}, "sharing", "note", "another daemon"),
        (
            {"services": (ServiceFacts(name="tts", what="x", trouble=Trouble(text="port in use")),)},
            "tts",
            "missing",
            "port in use",
        ),
        (
            {"services": (ServiceFacts(name="tts", what="x", key_trouble=Trouble(text="no key")),)},
            "tts",
            "missing",
            "no key",
        ),
        (
            {"programs": (Program(name="MPS", found=None, use="sharing", get="apt", needed=True),)},
            "MPS",
            "missing",
            "not here: sharing",
        ),
        (
            {"programs": (Program(name="MPS", found=None, use="sharing", get="apt"),)},
            "MPS",
            "note",
            "not needed by this scenario",
        ),
        (host(cores=2, load_average=0.0), "CPU", "note", "2 cores (A CPU): fewer than 4"),
        (host(load_average=9.0), "CPU", "note", "load average 9.0 on 16 cores"),
        (host(governors=("powersave",)), "CPU", "note", "CPU governor powersave"),
        (host(governors=()), "CPU", "ok", "no CPU governor can be seen"),
        (host(numa_nodes=2), "NUMA", "note", "2 NUMA nodes"),
        (host(realtime=False), "realtime", "note", "no real-time priority"),
        (host(memory_trouble=Trouble(text="3 servers need more")), "RAM", "missing", "3 servers need more"),
        (host(clock_source="hpet"), "clock", "note", "slow to read"),
        (host(kernel_stamps=False), "clock", "note", "does not stamp"),
        (host(kernel_stamps=None), "clock", "note", "does not stamp"),
        (host(free_disk_bytes=600_000_000), "disk", "note", "0.6 GiB free"),
        (host(free_disk_bytes=1_000_000), "disk", "missing", "0.0 GiB free"),
        (host(disk_trouble=Trouble(text="no run can be written")), "disk", "missing", "no run can be"),
        ({"sound": SoundFacts(importable=False)}, "sound", "note", "PortAudio is not here"),
        ({"sound": SoundFacts(importable=True)}, "sound", "note", "no sound device that plays"),
    ],
)
def test_one_thing_is_otherwise(changes: dict[str, Any], topic: str, word: str, words: str) -> None:
    found = findings(replace(GOOD, **changes))
    assert [one for one in found if one.topic == topic and one.word == word and words in one.text]
    assert can_run(found) == (word != "missing")


def test_too_much_memory_names_the_option_that_mends_it() -> None:
    found = findings(replace(GOOD, **need(claim_share=0.95)))
    assert "--set tenants.llm.vllm.gpu_memory_utilization=0.9" in {one.advice for one in found}
    found = findings(replace(GOOD, **need(claim_share=0.95, least_share=0.94)))
    assert "a smaller model" in {one.advice for one in found}


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_list_folds_and_loses_nothing(width: int) -> None:
    found = findings(replace(GOOD, **host(governors=("powersave",), realtime=False, cores=2)))
    text = render("cotenant 0.1", found, width)
    assert max(map(len, text.splitlines())) <= width
    together = "".join(text.split())
    for one in found:
        assert one.word in text
        assert "".join(one.advice.split()) in together.replace("->", "")


@pytest.mark.parametrize("width", [40, 80])
def test_a_topic_that_is_too_long_for_its_column_is_whole(width: int) -> None:
    name = "my-service-with-a-long-name"
    found = [Finding(topic=name, word=word, text="x y") for word in ("ok", "note")]
    lines = render("h", [*found, Finding(topic="CPU", word="ok", text="z")], width).splitlines()
    assert lines[1] == name
    assert [line.split() for line in lines[2:4]] == [["ok", "x", "y"], ["note", "x", "y"]]


def test_text_of_others_cannot_steer_the_terminal() -> None:
    text = render("x", [Finding(topic="t\x1b[2J", word="ok", text="a\x1b[31mb\u202ec\nd")], 80)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 2


def test_the_json_has_facts_and_findings() -> None:
    found = findings(GOOD)
    told = json.loads(json.dumps(to_json(GOOD, found)))
    assert told["can_run"] is True
    assert told["facts"]["gpu"]["name"] == "NVIDIA H200"
    assert len(told["findings"]) == len(found)
