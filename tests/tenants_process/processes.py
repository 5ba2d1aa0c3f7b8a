"""Finds the processes of one test by a mark in their environment, which every descendant inherits."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

MARK = "COTENANT_TEST_MARK"


def marked(mark: str) -> set[int]:
    """The living processes (no zombies: those have no environment) that carry the mark, but for this one."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in environment:
                found.add(int(entry.name))
    return found


def until(condition: Callable[[], bool], within_s: float, message: str) -> None:
    """Poll until the condition holds; fail after `within_s`."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, message
        time.sleep(0.02)


async def until_async(condition: Callable[[], bool], within_s: float, message: str) -> None:
    """`until` for code that runs in a loop."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, message
        await asyncio.sleep(0.02)
