"""The end of a task that works beside another one."""

import asyncio
from typing import Any


async def end_task(task: asyncio.Future[Any], *expected: type[Exception]) -> None:
    """Cancels the task and waits for its end. Raises what it raised, unless that is `expected`."""
    task.cancel()
    await asyncio.wait((task,))
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, expected):
        raise error
