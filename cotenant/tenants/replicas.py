"""Starts the built-in servers of one tenant: the first alone, then all others together."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.errors import CouldNotRun
from cotenant.tenants import gpu_memory
from cotenant.tenants.log_tail import last_lines
from cotenant.tenants.ready import Tell, silent, wait_ready_line
from cotenant.tenants.reaper_client import Reaper
from cotenant.units import NS_PER_S

# Of a ready line, what is no fact about the tenant.
_NO_FACTS = ("ready", "kind", "url", "pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the replicas are started: a command each, and what they share.

    `shape` and `knobs` (what the user could lower) are for the message where the GPU's memory does not do;
    `tell` is told what is waited for.
    """

    name: str
    argvs: Sequence[Sequence[str]]
    env: Mapping[str, str]
    nice: int
    log_dir: Path
    limit_ns: int
    shape: str
    knobs: Sequence[str]
    tell: Tell = silent

    def identifier(self, replica: int) -> str:
        """The id in the reaper and the name of the log: `name`, or `name@0`, `name@1` ..."""
        return self.name if len(self.argvs) == 1 else f"{self.name}@{replica}"


async def start(reaper: Reaper, plan: Plan) -> tuple[list[str], dict[str, Any]]:
    """The url of each replica, in their order, and facts: the first one's ready line and how long each took.

    The first compiles kernels and fills caches that the others then find; only its speed is told, because it
    was measured while no other was starting. Raises CouldNotRun that names the first that failed; what has
    started by then is the reaper's to end.
    """
    begun_ns = time.monotonic_ns()
    ready = [await _one(reaper, plan, 0)]
    first_ns = time.monotonic_ns() - begun_ns
    ready += await _others(reaper, plan)
    all_ns = time.monotonic_ns() - begun_ns
    facts = {key: value for key, value in ready[0].items() if key not in _NO_FACTS}
    start_s = {"first": round(first_ns / NS_PER_S, 2), "total": round(all_ns / NS_PER_S, 2)}
    urls = [str(line["url"]) for line in ready]
    return urls, {"engine": "builtin", "replicas": len(urls), **facts, "start_s": start_s}


async def _others(reaper: Reaper, plan: Plan) -> list[Mapping[str, Any]]:
    tasks = [asyncio.create_task(_one(reaper, plan, replica)) for replica in range(1, len(plan.argvs))]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        # In the order of the replicas: of several that fail together the first is told.
        failures = [error for task in tasks if task.done() and (error := task.exception()) is not None]
        if failures:
            raise failures[0]
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _one(reaper: Reaper, plan: Plan, replica: int) -> Mapping[str, Any]:
    identifier = plan.identifier(replica)
    log = plan.log_dir / f"{identifier}.log"
    offset_bytes = log.stat().st_size if log.exists() else 0
    await reaper.spawn(identifier, plan.argvs[replica], log=log, env=plan.env, nice=plan.nice)
    try:
        return await wait_ready_line(
            reaper, identifier, log, limit_ns=plan.limit_ns, offset_bytes=offset_bytes, tell=plan.tell
        )
    except CouldNotRun:
        full = gpu_memory.full(_text(log, offset_bytes))
        if full is None:
            raise
        told = gpu_memory.sentence(identifier, plan.shape, full, plan.knobs)
        lines = "".join(f"\n  {line}" for line in last_lines(log))
        raise CouldNotRun(f"{told}\n{identifier} said last ({log}):{lines}") from None


def _text(log: Path, offset_bytes: int) -> str:
    try:
        return log.read_bytes()[offset_bytes:].decode(errors="replace")
    except OSError:
        return ""
