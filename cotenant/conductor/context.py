"""What the parts of a run share: its facts, what changes while it goes on, its marks and logs."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cotenant.conductor.gone import Gone
from cotenant.conductor.preflight import Device
from cotenant.live.progress import Progress
from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.hidden import NO_SECRETS, Secrets
from cotenant.scenario.schema import Scenario
from cotenant.tenants import launch
from cotenant.tenants import mps as own_mps

# Ids in the reaper; a tenant's name has no colon.
LOAD: Final = "load:"
OBSERVER: Final = "observer:"
MPS: Final = own_mps.IDENTIFIER


# What services and their logs told; the rest of a manifest is ours, and the scenario's form is `public_dump`.
_TOLD: Final = ("tenants", "notes", "error", "observers", "sharing", "calibration")


def without(secrets: Secrets, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as it may be written."""
    return {key: secrets.within(value) if key in _TOLD else value for key, value in facts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is made of. `scenario` is resolved, `manifest` manifest.json without `secrets`."""

    scenario: Scenario
    device: Device
    run_dir: Path
    run_id: str
    writer: RunWriter
    progress: Progress
    audio_limit_bytes: int
    manifest: dict[str, Any]
    secrets: Secrets = NO_SECRETS

    def note(self, key: str, value: Any) -> None:
        """Puts a fact into manifest.json at once."""
        self.manifest[key] = value
        manifest.write(self.run_dir, without(self.secrets, self.manifest))

    def mark(self, what: str, name: str, edge: str, t_ns: int) -> None:
        """A row of `marks`, on disk at once: a run that is killed can still be judged by its marks."""
        self.writer.append("marks", t=t_ns, what=what, name=name, edge=edge)
        self.writer.flush()

    def mark_now(self, what: str, name: str) -> None:
        self.mark(what, name, "start", time.monotonic_ns())

    def own_logs(self) -> Path:
        """The logs of our own processes, apart from the tenants', whose names are the user's."""
        folder = self.run_dir / "logs" / "own"
        folder.mkdir(exist_ok=True)
        return folder


@dataclass(slots=True, kw_only=True)
class State:
    """What changes while a run goes on. `stopped`: why nothing more can be measured; `mps`: its own daemon;
    `gone`: by tenant, the services that were lost."""

    stage: str = "start"
    stopped: str | None = None
    closing: bool = False
    mps: own_mps.Daemon | None = None
    counts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    gone: dict[str, Gone] = field(default_factory=dict)
    _leaving: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def count(self, name: str, event: Mapping[str, Any]) -> None:
        """Takes a load process's progress."""
        if event.get("event") == "progress":
            self.counts[name] = event

    def ended(self, run: Run, name: str, how: str) -> None:
        """A child has ended: what needs a tenant that did is not run; who waits for a load misses it."""
        if self.closing or name.startswith(LOAD):
            return
        if name.startswith(OBSERVER):
            run.mark_now("fault", name)  # the run goes on with less to tell
            return
        if name == MPS:
            self._lost_mps(run, how)
            return
        tenant = name.partition("@")[0]  # a replica has the id `tenant@number`
        run.mark_now("fault", f"tenant:{tenant}")
        tail = launch.log_tail(run.run_dir / "logs", name)
        self.lose(Gone(tenant=tenant, stage=self.stage, process=name, how=how, tail=tail))

    def lose(self, gone: Gone) -> None:
        """Whoever waits for its loads need not. One that has ended stays so, whatever was looked at since."""
        known = self.gone.get(gone.tenant)
        if known is None or not known.for_good:
            self.gone[gone.tenant] = gone
        self._leaving[gone.tenant].set()

    def found(self, tenant: str) -> None:
        """A service answers again, unless its program ended while that was looked at."""
        if not self.gone[tenant].for_good:
            del self.gone[tenant]
            self._leaving[tenant].clear()

    async def leaves(self, tenant: str) -> None:
        """Until the tenant is gone."""
        await self._leaving[tenant].wait()

    @property
    def lost(self) -> list[Gone]:
        """What has ended for good, in order."""
        return [one for one in self.gone.values() if one.for_good]

    def _lost_mps(self, run: Run, how: str) -> None:
        run.mark_now("fault", MPS)
        # First of all that follows from it: its clients fail with CUDA errors.
        tail = launch.log_tail(run.own_logs(), own_mps.LOG_NAME)
        self.stopped = (
            f"the MPS daemon of this run ended ({how}) in {self.stage}: its clients cannot use the GPU any "
            f"more, and new ones would not share it by MPS; run again, or set sharing: time-slice{tail}"
        )
