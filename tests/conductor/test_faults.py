"""Faults of services, processes, people and disks: a sentence, an exit code, and nothing recorded lost."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.run_dir.reader import read
from cotenant.testing.truth_server import Script, TruthServer
from tests.conductor.harness import (
    PACKET,
    free_port,
    gate,
    interrupted,
    ran,
    speech,
    speech_server,
    started,
    voice_scenario,
    with_llm,
)


def two_stages(server: TruthServer, **changes: Any) -> dict[str, Any]:
    return with_llm(voice_scenario(server.url, **changes), free_port())


# A gate that a busy machine does not fail: where it is asked whether what was recorded is judged.
NONE_FAILED = ["speech.failed <= 0"]


async def test_a_run_of_services_that_answer(folder: Path) -> None:
    async with speech_server() as server:
        ended = await ran(folder, two_stages(server), "--json")
    # On a machine that is busy with something else the run is INVALID, and says so.
    assert ended.code == (0 if ended.summary["validity"] == "valid" else 4), ended.err
    assert ended.summary["verdict"] == "pass"
    assert ended.manifest["status"] == "complete"
    assert [s["name"] for s in ended.summary["stages"]] == ["alone", "beside"]
    assert ended.summary["stages"][1]["llm"]["decode"]["delivered"] is True
    assert ended.run_dir is not None
    assert ended.out.encode() == (ended.run_dir / "summary.json").read_bytes()
    again = await gate(folder, ended.run_dir, "--json")
    assert (again.code, again.out) == (ended.code, ended.out)
    assert {row["end"] for row in ended.measured("alone")} == {"eos"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "unauthorized"), (404, "not_found"), (500, "server_error"), (503, "overloaded")],
)
async def test_a_service_that_refuses_every_warm_up_could_not_be_run(
    folder: Path, status: int, kind: str
) -> None:
    refusal = Script(status=status, pieces=[(0, b"no")])
    async with speech_server(lambda _n, _served: refusal) as server:
        ended = await ran(folder, voice_scenario(server.url))
    assert ended.code == 5, ended.err
    assert kind in ended.err
    assert "'tts'" in ended.err
    assert ended.manifest["status"] == "failed"
    assert {row["error_kind"] for row in ended.streams()} == {kind}


PCM = {"Content-Type": "audio/pcm;rate=24000"}
SSE = {"Content-Type": "text/event-stream"}
OOM = b'event: speech.audio.error\ndata: {"type":"speech.audio.error","error":{"message":"oom"}}\n\n'


@pytest.mark.parametrize(
    ("bad", "end", "kind"),
    [
        (Script(status=503, pieces=[(0, b"busy")]), "error", "overloaded"),
        (Script(pieces=[(0, PACKET)], ending="close", headers=PCM), "truncated", "truncated"),
        (Script(pieces=[(0, PACKET)], ending="silent", headers=PCM), "truncated", "timeout"),
        (Script(pieces=[], ending="silent", headers=PCM), "error", "timeout"),
        (Script(pieces=[(0, OOM)], headers=SSE), "error", "in_stream"),
    ],
)
async def test_a_service_that_breaks_in_a_stage_is_judged_by_it(
    folder: Path, bad: Script, end: str, kind: str
) -> None:
    async with speech_server(lambda n, _served: speech() if n < 2 else bad) as server:
        scenario = voice_scenario(server.url, closing=False)
        scenario["timing"]["stall_limit"] = "1s"
        ended = await ran(folder, scenario)
    assert ended.code == 1 or ended.summary["validity"] == "invalid", ended.err
    (stage,) = ended.summary["stages"]
    assert stage["verdict"] == "fail"
    assert stage["speech"]["failed"] == stage["speech"]["streams"] > 0
    assert stage["speech"]["clean_share"] == 0
    assert {(row["end"], row["error_kind"]) for row in ended.measured("alone")} == {(end, kind)}


async def test_a_port_in_use_is_named(folder: Path) -> None:
    async with speech_server() as server, speech_server() as other:
        port = int(other.url.rsplit(":", 1)[1])
        ended = await ran(folder, with_llm(voice_scenario(server.url), port))
    assert ended.code == 5
    assert f"port {port}" in ended.err
    assert "in use" in ended.err


async def test_a_tenant_that_never_gets_healthy_says_what_it_said_last(folder: Path) -> None:
    async with speech_server() as server:
        scenario = two_stages(server)
        scenario["tenants"]["llm"] |= {
            "command": ["sh", "-c", "echo loading \\033[31mforever; sleep 60"],
            "ready": {"path": "/health", "within": "1s"},
        }
        ended = await ran(folder, scenario)
    assert ended.code == 5
    assert "was not ready within 1s" in ended.err
    assert "tenants.llm.ready.within gives it longer" in " ".join(ended.err.split())
    assert "loading" in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("stage", ["alone", "beside"])
async def test_kill_of_a_load_process_ends_the_run_with_a_sentence(folder: Path, stage: str) -> None:
    async with (
        speech_server() as server,
        started(folder, two_stages(server, gate=NONE_FAILED)) as command,
    ):
        await command.until_marked("measure", stage)
        command.find("cotenant.load.process", "listeners").kill()
        ended = await command.end()
    assert "'listeners'" in ended.err
    assert "SIGKILL" in ended.err
    assert ended.manifest["status"] == "failed"
    assert ended.run_dir is not None
    if stage == "alone":
        assert ended.code == 5
    else:
        assert ended.code == 4
        assert ended.summary["stages"][0]["verdict"] == "pass"
    judged = await gate(folder, ended.run_dir)
    # Where nothing was measured there is nothing to judge.
    assert judged.code == ended.code


async def test_kill_of_the_conductor_leaves_nothing_running_and_a_run_that_can_be_judged(
    folder: Path,
) -> None:
    with tempfile.TemporaryDirectory(prefix="kill-") as short:  # a socket's path has no more than 107 bytes
        await kill_the_conductor(folder, short)
        assert os.listdir(short) == []  # noqa: PTH208  the folder of the control socket is gone too


async def kill_the_conductor(folder: Path, short: str) -> None:
    async with (
        speech_server() as server,
        started(folder, two_stages(server), env={"TMPDIR": short}) as command,
    ):
        await command.until_marked("measure", "beside")
        command.look()
        assert len(command.family) >= 4  # the reaper, two load processes, the tenant
        command.process.kill()
        ended = await command.end()
    assert ended.code == -signal.SIGKILL
    assert ended.manifest["status"] == "running"
    assert ended.run_dir is not None
    judged = await gate(folder, ended.run_dir, "--json")
    # An utterance that was cut is no clean one.
    assert judged.code in (1, 3, 4)
    assert '"status": "running"' in judged.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_run_keeps_what_it_has(folder: Path, number: int, code: int) -> None:
    async with speech_server() as server, started(folder, voice_scenario(server.url)) as command:
        await command.until_marked("measure", "alone")
        command.process.send_signal(number)
        ended = await command.end()
    await interrupted(ended, code)


async def test_ctrl_c_before_the_load_has_said_hello(folder: Path) -> None:
    async with speech_server() as server, started(folder, voice_scenario(server.url)) as command:
        await command.until_marked("tenant", "tts")
        command.process.send_signal(signal.SIGINT)
        ended = await command.end()
    assert ended.code == 130, ended.err
    assert ended.manifest["status"] == "interrupted"


async def test_a_stopped_reaper_does_not_hold_the_end_up(folder: Path) -> None:
    async with speech_server() as server, started(folder, voice_scenario(server.url)) as command:
        await command.until_marked("measure", "alone")
        command.find("cotenant.tenants.reaper").suspend()
        command.process.send_signal(signal.SIGINT)
        ended = await command.end()
    assert ended.code == 130, ended.err


async def test_a_long_folder_for_temporary_files(folder: Path) -> None:
    long = folder / ("x" * 100)
    long.mkdir()
    async with speech_server() as server:
        scenario = voice_scenario(server.url, closing=False)
        ended = await ran(folder, scenario, env={"TMPDIR": str(long)})
    assert ended.manifest["status"] == "complete", ended.err


async def test_a_second_ctrl_c_ends_at_once(folder: Path) -> None:
    async with speech_server() as server, started(folder, two_stages(server)) as command:
        await command.until_marked("measure", "beside")
        # A load process that does not answer would hold an orderly end up for seconds.
        command.find("cotenant.load.process", "listeners").suspend()
        command.process.send_signal(signal.SIGINT)
        await asyncio.sleep(0)
        command.process.send_signal(signal.SIGINT)
        command.process.send_signal(signal.SIGINT)
        ended = await command.end()
    assert ended.code == 130


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 600 KiB in a folder."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "cotenant-test", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_is_one_clear_sentence(folder: Path) -> None:
    with small_disk(folder / "disk") as disk:
        (folder / "runs").symlink_to(disk)
        async with speech_server() as server:
            scenario = voice_scenario(server.url)
            scenario["timing"]["measure"] = "20s"
            ended = await ran(folder, scenario)
        assert ended.code == 5, ended.err
        assert "is full" in ended.err
        assert "Traceback" not in ended.err
        assert ended.run_dir is not None
        assert read(ended.run_dir).tables["streams"].num_rows > 0


async def test_an_out_folder_that_cannot_be_written_is_a_usage_error(folder: Path) -> None:
    (folder / "file").write_text("x", encoding="utf-8")
    ended = await ran(folder, voice_scenario("http://127.0.0.1:1"), "--out", "file/x")
    assert ended.code == 2, ended.err
    assert "--out" in ended.err


@pytest.mark.parametrize("flags", [("--gate", "speech.no_such <= 1"), ("--set", "gate=['ttfa <= 5ms']")])
async def test_a_gate_that_names_no_metric_is_found_before_anything_starts(
    folder: Path, flags: tuple[str, str]
) -> None:
    ended = await ran(folder, voice_scenario("http://127.0.0.1:1"), *flags)
    assert ended.code == 2, ended.err
    assert ended.run_dir is None


async def test_nothing_answers_there(folder: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ended = await ran(folder, voice_scenario(url))
    assert ended.code == 5
    assert url in ended.err
    assert os.fspath(folder) not in ended.err.replace(str(ended.run_dir), "")
