"""What arrival stamps are worth: 64 streams from a server that tells when it sent what, both cores busy.

Run by hand: `python -m tests.bench.bench_stamps`. The messages hold the time just before they were sent; the
error of a chunk is its stamp minus that time.
"""

import argparse
import asyncio
import contextlib
import gc
import multiprocessing
import os
import socket
import statistics
import struct
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import uvloop

from cotenant.load.clock import ClockMap, read_pair
from cotenant.load.request import Limits, Outcome, Request
from cotenant.load.sockets import keep_stamps_on
from cotenant.load.transport import Transport
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.wire.http1 import Body, Head

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PAYLOAD_BYTES = 200
PAIRS_PER_S = 4


def serve(port: Connection, streams: int, messages: int, step_ns: int) -> None:
    """Accepts `streams` requests, then sends each a chunk per step, in a burst, as an engine does."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=streams)
    port.send(listening.getsockname()[1])
    for _ in range(2):
        clients = []
        for _ in range(streams):
            client, _ = listening.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while b"\r\n\r\n" not in client.recv(65536):
                pass
            client.sendall(HEAD)
            clients.append(client)
        next_ns = time.monotonic_ns() + step_ns
        for _ in range(messages):
            while (left_ns := next_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / NS_PER_S)
            for client in clients:
                sent = struct.pack("<q", time.monotonic_ns())
                client.sendall(b"%x\r\n%b\r\n" % (PAYLOAD_BYTES, sent.ljust(PAYLOAD_BYTES, b".")))
            next_ns += step_ns
        for client in clients:
            client.sendall(b"0\r\n\r\n")
            client.close()


def burn(stop: Event, nice: int) -> None:
    """Keeps a core busy."""
    os.nice(nice)
    while not stop.is_set():
        sum(range(20_000))


class Collector:
    """Notes (true send, stamp, shared read) of each message."""

    def __init__(self) -> None:
        self.outputs = 0
        self.noted: list[tuple[int, int, bool]] = []
        self._part = b""

    def sent(self) -> None:
        pass

    def head(self, head: Head) -> None:
        pass

    def body(self, body: Body, arrival_ns: int) -> bool:
        self._part += body.data
        if body.closes:
            self.noted.append((struct.unpack_from("<q", self._part)[0], arrival_ns, body.after_bytes > 0))
            self.outputs += 1
            self._part = b""
        return False

    def cut(self, arrival_ns: int) -> None:
        pass


async def collect(url: str, streams: int, *, stamps: bool) -> tuple[list[tuple[int, int, bool]], float]:
    """All messages of all streams, and the share of a core that receiving them took."""
    held = keep_stamps_on()
    transport = Transport(ClockMap(read_pair()), stamps=stamps)
    limits = Limits(connect_ns=10 * NS_PER_S, stall_ns=10 * NS_PER_S, total_ns=None)
    collectors = [Collector() for _ in range(streams)]

    async def one(collector: Collector) -> None:
        opened = await transport.open(url, limits)
        outcome = Outcome(due_ns=time.monotonic_ns())
        await transport.exchange(opened, Request(url=url, headers={}, body=b"{}"), outcome, limits, collector)
        assert outcome.end == "eos", outcome.error

    async def pairs() -> None:
        while True:
            await asyncio.sleep(1 / PAIRS_PER_S)
            transport.clock.add(read_pair())

    pairing = asyncio.ensure_future(pairs())
    cpu_s, wall_s = time.process_time(), time.monotonic()
    await asyncio.gather(*(one(collector) for collector in collectors))
    used = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    pairing.cancel()
    held.close()
    return [noted for collector in collectors for noted in collector.noted], used


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1e6) * len(ordered) // 10**6) - 1))]


@contextlib.contextmanager
def busy(cores: int, nice: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    burners = [context.Process(target=burn, args=(stop, nice)) for _ in range(cores)]
    for burner in burners:
        burner.start()
    time.sleep(1)
    try:
        yield
    finally:
        stop.set()
        for burner in burners:
            burner.join()


def row(name: str, errors: Sequence[float], of: int) -> str:
    if not errors:
        return f"{name:<34}{'-':>10}"
    figures = (statistics.median(errors), *(quantile(errors, share) for share in (0.99, 0.999)), max(errors))
    return f"{name:<34}{len(errors) / of:>9.2%} " + "".join(f"{figure:>11.4f}" for figure in figures)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--step-ms", type=int, default=10)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--nice", type=int, default=10, help="of the burners; 10 is what tenants on a CPU have"
    )
    options = parser.parse_args()
    messages = options.seconds * 1000 // options.step_ms
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(
        target=serve, args=(theirs, options.streams, messages, options.step_ms * NS_PER_MS)
    )
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/"
    gc.freeze()
    gc.disable()
    burners = f"{options.burners} burners at nice {options.nice}"
    print(f"{options.streams} streams, a chunk each {options.step_ms} ms, {burners}")
    print(f"{'error of stamps, ms':<34}{'share':>9} {'p50':>11}{'p99':>11}{'p99.9':>11}{'max':>11}")
    with busy(options.burners, options.nice), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for stamps in (True, False):
            name = "kernel" if stamps else "user"
            noted, used = runner.run(collect(url, options.streams, stamps=stamps))
            alone = [(stamp - sent) / NS_PER_MS for sent, stamp, shared in noted if not shared]
            others = [(stamp - sent) / NS_PER_MS for sent, stamp, shared in noted if shared]
            print(row(f"{name}, reads of one message", alone, len(noted)))
            print(row(f"{name}, other reads", others, len(noted)))
            print(f"{name}: {len(noted)} messages, {used:.0%} of a core")
    server.join()


if __name__ == "__main__":
    main()
