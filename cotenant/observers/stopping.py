"""An event that SIGTERM and SIGINT set, safely: for processes whose main thread waits for that event."""

import os
import signal
import threading


def stop_on_signals() -> threading.Event:
    """For the rest of the process; to be called in its main thread.

    A signal's handler could not set the event: it runs in the main thread, which may be within the event's
    `wait` and hold its lock; the two would wait for each other for ever. So a thread does, told by a pipe.
    """
    stop = threading.Event()
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    def wait() -> None:
        os.read(told, 1)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return stop
