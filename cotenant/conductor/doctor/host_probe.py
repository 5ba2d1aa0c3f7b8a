"""Looks at the machine beside its GPU: cores, governor, real-time priority, clocks, stamps, disk, sound."""

import asyncio
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from cotenant.conductor.preflight import available_memory_bytes, check_memory, find_device
from cotenant.errors import CouldNotRun, ServiceError
from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.process import ask_for_realtime
from cotenant.load.sockets import connect, keep_stamps_on
from cotenant.report.doctor.facts import HostFacts, SoundFacts, Trouble
from cotenant.scenario.schema import Scenario
from cotenant.units import NS_PER_S

_STAMP_LIMIT_NS: Final = 2 * NS_PER_S
_CLOCK_READS: Final = 2_000
_SOUND_LIMIT_S: Final = 15.0
_STAMPED_MESSAGES: Final = 5
# In a child: PortAudio talks to drivers, and what goes wrong there ends a process.
_SOUND_CODE: Final = """
import json
try:
    import sounddevice
except (ImportError, OSError) as error:
    print(json.dumps({"importable": False, "why": str(error)}))
else:
    names = [d["name"] for d in sounddevice.query_devices() if d["max_output_channels"] > 0]
    print(json.dumps({"importable": True, "devices": names}))
"""


def look(out: Path, scenario: Scenario | None) -> HostFacts:
    """All of it. `out`: where run directories would be made; `scenario` is resolved, None without one."""
    kernel, lag_ns = asyncio.run(_stamps())
    free_bytes, disk_trouble = _disk(out)
    available_bytes = available_memory_bytes()
    memory_trouble = None
    if scenario is not None:
        try:
            check_memory(scenario, available_bytes=available_bytes)
        except CouldNotRun as error:
            memory_trouble = Trouble(text=str(error))
    cores = len(os.sched_getaffinity(0))
    return HostFacts(
        cores=cores,
        cpu_name=find_device("cpu").name,
        load_average=_load_average(),
        governors=_governors(),
        numa_nodes=_numa_nodes(),
        realtime=_realtime(),
        clock_source=_read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clock_step_ns=_clock_step_ns(),
        pair_bracket_ns=read_pair().bracket_ns,
        kernel_stamps=kernel,
        stamp_lag_ns=lag_ns,
        free_disk_bytes=free_bytes,
        disk_trouble=disk_trouble,
        memory_trouble=memory_trouble,
        available_bytes=available_bytes,
    )


def sound() -> SoundFacts:
    """Whether PortAudio is here, and what plays."""
    command = [sys.executable, "-c", _SOUND_CODE]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SOUND_LIMIT_S)
        told = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return SoundFacts(importable=False, why="PortAudio does not answer")
    return SoundFacts(
        importable=told["importable"], devices=tuple(told.get("devices", ())), why=told.get("why", "")
    )


def _realtime() -> bool:
    # In a thread: the priority is that thread's, and ends with it.
    had = []
    thread = threading.Thread(target=lambda: had.append(ask_for_realtime()))
    thread.start()
    thread.join()
    return had == [True]


def _clock_step_ns() -> int:
    """The smallest difference that two readings of the clock had."""
    times = [time.monotonic_ns() for _ in range(_CLOCK_READS)]
    steps = [after - before for before, after in itertools.pairwise(times) if after > before]
    return min(steps, default=0)


async def _stamps() -> tuple[bool | None, int | None]:
    """Whether reads of the clients' own kind of connection are stamped on loopback, and how long before."""
    with socket.create_server(("127.0.0.1", 0)) as server, keep_stamps_on():
        server.setblocking(False)
        loop = asyncio.get_running_loop()
        host, port = server.getsockname()[:2]
        until_ns = time.monotonic_ns() + _STAMP_LIMIT_NS
        try:
            connection = await connect(host, port, tls=None, clock=ClockMap(read_pair()), until_ns=until_ns)
        except ServiceError:
            return None, None
        try:
            async with asyncio.timeout(_STAMP_LIMIT_NS / NS_PER_S):
                peer, _ = await loop.sock_accept(server)
            with peer:
                lags = []
                for _ in range(_STAMPED_MESSAGES):
                    await loop.sock_sendall(peer, b"?")
                    read = await connection.read(until_ns)
                    if read is None or not read.kernel:
                        return False, None
                    lags.append(max(0, time.monotonic_ns() - read.arrival_ns))
                return True, sorted(lags)[len(lags) // 2]
        except (OSError, TimeoutError):
            return None, None
        finally:
            connection.close()


def _disk(out: Path) -> tuple[int | None, Trouble | None]:
    """Free bytes where `out` is or would be made."""
    folder = out.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return None, Trouble(
            text=f"no run can be written to {out}", advice="--out DIR that can be written to"
        )
    try:
        return shutil.disk_usage(folder).free, None
    except OSError as error:
        return None, Trouble(text=f"{folder}: {error.strerror}", advice="--out DIR elsewhere")


def _governors() -> tuple[str, ...]:
    paths = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return tuple(sorted({found for path in paths if (found := _read(str(path)))}))


def _numa_nodes() -> int | None:
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
