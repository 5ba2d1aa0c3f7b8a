"""An event set by a signal, whatever its process is about to do just then."""

import signal
import subprocess
import sys

import pytest

# It is within the event's lock for most of its time.
BUSY = """
from cotenant.observers.stopping import stop_on_signals
stop = stop_on_signals()
print(flush=True)
while not stop.wait(0):
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_only_waits_ends_each_time(number: signal.Signals) -> None:
    """With a handler in the main thread six of ten hung."""
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            process.send_signal(number)
            try:
                assert process.wait(timeout=20) == 0
            finally:
                process.kill()
