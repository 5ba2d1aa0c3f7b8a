"""A GPU that fails a tenant, at its start or in mid-run: what to do is said, and what was recorded stays."""

from pathlib import Path

import pytest

from tests.conductor.harness import (
    Ended,
    free_port,
    gate,
    ran,
    speech_server,
    started,
    voice_scenario,
    with_llm,
)

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "139.80 GiB of which 1.05 GiB is free."
)
MPS = "CUDA error: the remote procedural call between the MPS server and the MPS client failed"


# What each fault says is tested without a run (tests/tenants_process/test_failure_gpu.py).
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (OOM, "llm: the GPU's memory is full (1.05 GiB of 139.80 GiB free)"),
        ("api_server.py: error: unrecognized arguments: --no-such-flag", "does not know the arguments"),
    ],
)
async def test_a_tenant_that_the_gpu_fails_at_its_start(folder: Path, said: str, words: str) -> None:
    async with speech_server() as server:
        scenario = with_llm(voice_scenario(server.url), free_port())
        scenario["tenants"]["llm"]["command"] = ["sh", "-c", f'echo "{said}" >&2; exit 1']
        ended = await ran(folder, scenario)
    assert ended.code == 5
    assert words in ended.err
    assert ended.manifest["status"] == "failed"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
            "the GPU, or its driver, has failed it",
        ),
        (MPS, "the MPS daemon or its server has ended"),
    ],
)
async def test_a_tenant_that_the_gpu_fails_in_mid_run(folder: Path, said: str, words: str) -> None:
    async with speech_server() as server:
        # A gate that a busy machine does not fail: it is asked whether what was recorded is judged.
        scenario = with_llm(voice_scenario(server.url, gate=["speech.failed <= 0"]), free_port())
        async with started(folder, scenario) as command:
            await command.until_marked("measure", "beside")
            assert command.run_dir is not None
            with (command.run_dir / "logs" / "llm.log").open("a", encoding="utf-8") as log:
                log.write(said + "\n")
            command.find("cotenant.testing.idle_llm").kill()
            ended = await command.end()
    assert "the tenant 'llm' ended (SIGKILL) in beside" in ended.err
    assert f"llm: {words}" in ended.err
    await _judged(folder, ended)


async def _judged(folder: Path, ended: Ended) -> None:
    assert ended.manifest["status"] == "failed"
    assert ended.run_dir is not None
    assert ended.summary["stages"][0]["speech"]["streams"] > 0
    again = await gate(folder, ended.run_dir, "--json")
    assert again.code == ended.code == 4  # a load that was not delivered
