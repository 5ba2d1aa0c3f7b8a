"""From a resolved scenario to a recorded run directory; nothing is judged here."""

import asyncio
import contextlib
import errno
import importlib.metadata
import os
import platform
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cotenant import __version__
from cotenant.conductor import cores, preflight, sharing
from cotenant.conductor.context import Run, without
from cotenant.conductor.ladder import climb
from cotenant.conductor.plan import looks_ns, windows
from cotenant.conductor.walk import LadderStopped
from cotenant.errors import CouldNotRun
from cotenant.live.progress import Progress
from cotenant.records import SCHEMA_VERSION
from cotenant.run_dir import manifest
from cotenant.run_dir.hide_in_logs import hide_in_logs
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.hidden import Secrets
from cotenant.scenario.parse import public_dump, secrets_of
from cotenant.scenario.schema import Scenario
from cotenant.tenants.log_tail import shortened

AUDIO_LIMIT_BYTES = 500_000_000
# As a shell has it: 130 for Ctrl-C, 143 for SIGTERM.
SIGNAL_EXIT = 128
_VERSIONS = ("torch", "numpy", "pyarrow", "aiohttp", "h11", "uvloop")

Status = Literal["complete", "interrupted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """How a recording ended: `why` unless it is complete, `signal` where one interrupted it."""

    run_dir: Path
    status: Status
    why: str | None = None
    signal: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The code to end with whatever the verdict is; None where the verdict decides."""
        if self.signal is not None:
            return SIGNAL_EXIT + self.signal
        return None


def record(
    scenario: Scenario,
    *,
    device: preflight.Device,
    out: Path,
    make_progress: Callable[[], Progress],
    on_begin: Callable[[Run], None] = lambda _run: None,
) -> Recorded:
    """Runs a resolved scenario and leaves a run directory in `out`, whatever happens.

    `on_begin` is called once that is there, before anything is started. Raises UserError and CouldNotRun;
    with the latter the run directory, where it was made, has the status `failed`.
    """
    preflight.check_memory(scenario, available_bytes=preflight.available_memory_bytes())
    notes = [*sharing.device_notes(scenario, device), *sharing.check(scenario, device, os.environ)]
    started = datetime.now(UTC)
    run_id = f"{started:%Y-%m-%dT%H-%M-%SZ}-{scenario.name}"
    run_dir = preflight.make_run_dir(out, run_id)
    secrets = secrets_of(scenario, os.environ)
    facts = {**_manifest(scenario, device, run_dir.name, secrets), "notes": notes}
    try:
        (run_dir / "logs").mkdir()
        manifest.write(run_dir, without(secrets, facts))
        writer = RunWriter(run_dir, "conductor", audio_limit_bytes=None)
    except OSError as error:
        raise _disk_error(run_dir, error) from None
    progress = make_progress()
    for note in notes:
        progress.line("; ".join(filter(None, (note["text"], note["advice"]))))
    run = Run(
        scenario=scenario,
        device=device,
        run_dir=run_dir,
        run_id=run_dir.name,
        writer=writer,
        progress=progress,
        audio_limit_bytes=AUDIO_LIMIT_BYTES,
        manifest=facts,
        secrets=secrets,
    )
    recorded = Recorded(run_dir=run_dir, status="failed", why="an error of cotenant's own")
    try:
        with cores.kept_to(facts["cores"]["watch"]):
            on_begin(run)  # whose threads stay off the load processes' cores too
            recorded = _climb_until_signal(run)
        writer.close()
    except CouldNotRun as error:
        why = shortened(secrets.text(str(error)))
        recorded = Recorded(run_dir=run_dir, status="failed", why=why)
        raise CouldNotRun(why) from None
    except OSError as error:
        failure = _disk_error(run_dir, error)
        recorded = Recorded(run_dir=run_dir, status="failed", why=str(failure))
        raise failure from error
    finally:
        progress.close()
        _finish(run_dir, without(secrets, {**facts, "status": recorded.status, "error": recorded.why}))
        _hide_in_logs(run_dir / "logs", secrets)
    return recorded


def _climb_until_signal(run: Run) -> Recorded:
    """Runs the ladder; the first INT, TERM or HUP (unless that is ignored) stops it in order,
    the second ends the process at once."""
    seen: list[int] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None

        def interrupt(number: int) -> None:
            if seen:
                # The reaper's pipe closes with us: it ends everything that we started.
                run.progress.close()
                os._exit(SIGNAL_EXIT + number)
            seen.append(number)
            run.progress.line("stopping (once more ends at once) ...")
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under nohup a terminal that is closed must not end hours of measuring.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, interrupt, number)
        await climb(run)

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        return Recorded(run_dir=run.run_dir, status="interrupted", why="interrupted", signal=seen[0])
    except LadderStopped as stopped:
        return Recorded(run_dir=run.run_dir, status="failed", why=shortened(run.secrets.text(str(stopped))))
    return Recorded(run_dir=run.run_dir, status="complete")


def _finish(run_dir: Path, facts: Mapping[str, Any]) -> None:
    try:
        manifest.write(run_dir, facts)
    except OSError as error:
        # On a full disk the first manifest stays: it says `running`, which no reader takes for complete.
        if error.errno != errno.ENOSPC:
            raise


def _hide_in_logs(logs: Path, secrets: Secrets) -> None:
    # A full disk can still be overwritten; a log that cannot is the user's own.
    with contextlib.suppress(OSError):
        hide_in_logs(logs, secrets.mask)


def _disk_error(run_dir: Path, error: OSError) -> CouldNotRun:
    if error.errno == errno.ENOSPC:
        return CouldNotRun(f"the disk that holds {run_dir} is full; free some space and run again")
    return CouldNotRun(f"cannot write to {run_dir}: {error.strerror or error}")


def _manifest(scenario: Scenario, device: preflight.Device, run_id: str, secrets: Secrets) -> dict[str, Any]:
    mono_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    return {
        "schema": SCHEMA_VERSION,
        "tool": manifest.TOOL,
        "run_id": run_id,
        "status": "running",
        "error": None,
        "scenario": public_dump(scenario, secrets),
        "seed": scenario.seed,
        "started_wall_ns": wall_ns,
        "anchor": {"mono_ns": mono_ns, "wall_ns": wall_ns},
        "device": {
            "kind": device.kind,
            "name": device.name,
            "cpu_count": device.cpu_count,
            "machine_cpu_count": os.cpu_count(),
        },
        "sharing": sharing.facts(scenario, device),
        "cores": cores.facts(scenario, os.sched_getaffinity(0)),
        "versions": {"cotenant": __version__, "python": platform.python_version(), **_package_versions()},
        "host": {"system": platform.system(), "kernel": platform.release(), "machine": platform.machine()},
        "stages": [{"name": window.stage, "round": window.round} for window in windows(scenario)],
        "looks": len(looks_ns(scenario)) * scenario.timing.rounds,
        "calibration": {},
    }


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
