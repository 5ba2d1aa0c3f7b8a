"""A closed terminal ends a run in order, and under nohup not at all.

One at a time: how this process takes SIGHUP is handed on to whatever it starts.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.conductor.harness import Ended, interrupted, speech_server, started, voice_scenario


def hung_up(folder: Path, taken: Any, **changes: Any) -> Ended:
    """A run that is hung up on in its first window, by whoever takes the signal so."""

    async def main() -> Ended:
        async with (
            speech_server() as server,
            started(folder, voice_scenario(server.url, **changes)) as command,
        ):
            await command.until_marked("measure", "alone")
            command.process.send_signal(signal.SIGHUP)
            return await command.end()

    before = signal.signal(signal.SIGHUP, taken)
    try:
        return asyncio.run(asyncio.wait_for(main(), 120))
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hang_up_ends_a_run_that_keeps_what_it_has(tmp_path: Path) -> None:
    # The tests themselves may run under nohup.
    asyncio.run(interrupted(hung_up(tmp_path, signal.SIG_DFL), 129))


def test_a_hang_up_that_is_ignored_ends_no_run(tmp_path: Path) -> None:
    ended = hung_up(tmp_path, signal.SIG_IGN, closing=False)  # as under nohup
    assert ended.manifest["status"] == "complete", ended.err
    assert ended.code in (0, 1, 3, 4)
