"""Replicas: the first alone, the others together; which one failed and why; what they tell of themselves."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import CouldNotRun
from cotenant.tenants import gpu_memory, replicas
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S
from tests.tenants_process.processes import until

# Appends its number to a file when it starts, waits until enough have started, is ready, and stays.
SERVER = """
import json, pathlib, sys, time
number, wanted, path = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
with path.open("a") as file:
    file.write(f"{number}\\n")
while sum("ready" not in line for line in path.read_text().splitlines()) < wanted:
    time.sleep(0.01)
with path.open("a") as file:
    file.write(f"{number} ready\\n")
print(json.dumps({"ready": True, "kind": "speech", "url": f"http://h:{number}", "pid": 1, "shape": "tiny",
                  "frame_ms": float(number)}), flush=True)
time.sleep(600)
"""
OOM = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
    "12.50 MiB is free. Including non-PyTorch memory, this process has 3.00 GiB memory in use."
)


def plan(log_dir: Path, argvs: Sequence[Sequence[str]], limit_s: float = 20) -> replicas.Plan:
    return replicas.Plan(
        name="tts", argvs=[[sys.executable, "-c", *argv] for argv in argvs], env={}, nice=0, log_dir=log_dir,
        limit_ns=round(limit_s * NS_PER_S), shape="qwen3-tts-1.7b",
        knobs=["fewer replicas", "a smaller shape"],
    )  # fmt: skip


def start(wanted: replicas.Plan) -> tuple[list[str], dict[str, Any], dict[str, int]]:
    async def main() -> tuple[list[str], dict[str, Any], dict[str, int]]:
        async with await Reaper.start() as reaper:
            urls, facts = await replicas.start(reaper, wanted)
            return urls, facts, reaper.pids()

    return asyncio.run(main())


def test_the_first_starts_alone_and_all_others_together(tmp_path: Path) -> None:
    """Each of the others is ready only once all run."""
    seen = tmp_path / "seen"
    argvs = [[SERVER, str(n), "1" if n == 0 else "4", str(seen)] for n in range(4)]
    urls, facts, pids = start(plan(tmp_path, argvs))
    assert urls == [f"http://h:{n}" for n in range(4)]
    assert seen.read_text().splitlines()[:2] == ["0", "0 ready"]
    assert sorted(pids) == ["tts@0", "tts@1", "tts@2", "tts@3"]
    start_s = facts.pop("start_s")
    assert 0 < start_s["first"] <= start_s["total"]
    assert facts == {"engine": "builtin", "replicas": 4, "shape": "tiny", "frame_ms": 0.0}


def test_one_alone_has_the_tenants_own_name(tmp_path: Path) -> None:
    urls, facts, pids = start(plan(tmp_path, [[SERVER, "7", "1", str(tmp_path / "seen")]]))
    assert (urls, list(pids), facts["replicas"]) == (["http://h:7"], ["tts"], 1)
    assert (tmp_path / "tts.log").is_file()


def failing(tmp_path: Path, says: str) -> tuple[str, list[int]]:
    """What is raised where replica 2 of 4 says something and ends; the pids of the others."""
    path = str(tmp_path / "pids")
    notes_pid = f"import os; open({path!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
    good = [notes_pid + SERVER, "0", "1", str(tmp_path / "seen")]
    # The others would never be ready.
    others = [notes_pid + SERVER, "1", "1000", str(tmp_path / "seen")]
    # It fails once all others run.
    bad = f"import sys, time\nwhile len(open({path!r}).readlines()) < 3: time.sleep(0.01)\nsys.exit({says!r})"
    with pytest.raises(CouldNotRun) as error:
        start(plan(tmp_path, [good, others, [bad], others]))
    return str(error.value), [int(line) for line in Path(path).read_text().split()]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_one_that_failed_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    message, pids = failing(tmp_path, "it cannot go on")
    assert message == (
        f"tts@2 ended (code 1) before it was ready\ntts@2 said last ({tmp_path / 'tts@2.log'}):\n"
        "  it cannot go on"
    )
    assert len(pids) == 3
    until(lambda: all(map(gone, pids)), 5.0, "replicas are left running")


def test_a_full_gpu_is_told_with_what_to_lower(tmp_path: Path) -> None:
    message, _ = failing(tmp_path, f"the GPU's memory is full ({OOM})")
    first, *rest = message.splitlines()
    assert first == (
        "tts@2 (qwen3-tts-1.7b) does not fit into the GPU's memory: 12.50 MiB of 139.80 GiB were free when "
        "it asked for 20.00 MiB more; use fewer replicas, a smaller shape, or a lower gpu_memory_utilization "
        "of a vLLM that is there already (nvidia-smi shows who holds what)"
    )
    assert rest[0].startswith("tts@2 said last")


def test_an_older_log_is_not_taken_for_this_starts(tmp_path: Path) -> None:
    (tmp_path / "tts.log").write_text(OOM + "\n" + json.dumps({"ready": True, "url": "http://old"}) + "\n")
    with pytest.raises(CouldNotRun, match=r"tts ended \(code 3\) before it was ready"):
        start(plan(tmp_path, [["import sys; sys.exit(3)"]]))


@pytest.mark.parametrize(
    ("log", "free"),
    [
        (OOM, "12.50 MiB"),
        ("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be ...", None),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None),
    ],
)
def test_words_for_memory_that_ran_out(log: str, free: str | None) -> None:
    found = gpu_memory.full(log)
    assert found is not None
    assert found.free == free
    assert "does not fit into the GPU's memory" in gpu_memory.sentence("tts", "tiny", found, [])
    assert gpu_memory.full("INFO engine memory 12 GiB") is None
