"""The engine observer: an LLM server's /metrics on an absolute grid, into the table `engine`.

Run as `python -m cotenant.observers.engine_metrics --run-dir DIR --tenant NAME --url URL`; ends on SIGTERM or
SIGINT. Names of the metrics: `cotenant.observers.engine_series`. A counter's row holds what it grew by since
the row before of that name. Where there is nothing to read, one row says so: metric `unavailable`, whose
value is the HTTP status (0: no answer, 200: an answer without known metrics). How long the scrapes took is in
`host` (source `engine:NAME`, metric `scrape_ns`).
"""

import argparse
import asyncio
import os
import signal
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from cotenant import tls
from cotenant.errors import ServiceError
from cotenant.observers.engine_series import EngineSeries
from cotenant.observers.grid import next_tick_ns
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.wire.prometheus import MetricSample, PrometheusDecoder

_COULD_NOT_RUN: Final = 5
_SCRAPE_LIMIT_S: Final = 5.0
_TEXT_LIMIT_BYTES: Final = 16 << 20
_LEAST_PERIOD_NS: Final = 50 * NS_PER_MS
# Servers that have no /metrics will not get one: asking them now and then is enough.
_NO_METRICS_STATUSES: Final = (401, 403, 404, 405, 501)
_RARELY_NS: Final = 30 * NS_PER_S


def metrics_url(url: str) -> str:
    """`/metrics` of the server that `url` (with or without a path such as /v1) names."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.netloc:
        raise ValueError(f"{url!r} is no URL of a server")
    return url if parts.path.endswith("/metrics") else f"{parts.scheme}://{parts.netloc}/metrics"


async def observe(
    writer: RunWriter,
    tenant: str,
    url: str,
    period_ns: int,
    stop: asyncio.Event,
    headers: Mapping[str, str] | None = None,
    trusted: ssl.SSLContext | None = None,
) -> None:
    """Scrape until `stop` is set; the caller closes the writer. Raises OSError when the disk refuses."""
    series, told_missing = EngineSeries(), False
    stopped = asyncio.create_task(stop.wait())
    timeout = aiohttp.ClientTimeout(total=_SCRAPE_LIMIT_S)
    connector = aiohttp.TCPConnector(ssl=trusted) if trusted is not None else None
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, connector=connector) as session:
        origin_ns = due_ns = time.monotonic_ns()
        while not await _done_by(stopped, due_ns):
            sent_ns = time.monotonic_ns()
            scrape = asyncio.create_task(_scrape(session, url))
            await asyncio.wait((scrape, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not scrape.done():
                scrape.cancel()
                await asyncio.wait((scrape,))
                return
            status, samples = scrape.result()
            t_ns = time.monotonic_ns()
            values = series.values(samples)
            if values is None and not told_missing:
                writer.append("engine", t=t_ns, tenant=tenant, metric="unavailable", value=float(status))
            told_missing = values is None
            for metric, value in (values or {}).items():
                writer.append("engine", t=t_ns, tenant=tenant, metric=metric, value=value)
            took_ns = float(t_ns - sent_ns)
            writer.append("host", t=t_ns, source=f"engine:{tenant}", metric="scrape_ns", value=took_ns)
            writer.flush()
            rarely = status in _NO_METRICS_STATUSES
            due_ns = next_tick_ns(t_ns + (_RARELY_NS if rarely else 0), origin_ns, period_ns)


async def _done_by(stopped: asyncio.Task[bool], due_ns: int) -> bool:
    """Waits until `due_ns` and says whether it was told to end by then."""
    left_s = max(0, due_ns - time.monotonic_ns()) / NS_PER_S
    await asyncio.wait((stopped,), timeout=left_s)
    return stopped.done()


async def _scrape(session: aiohttp.ClientSession, url: str) -> tuple[int, list[MetricSample]]:
    """The status (0: no answer) and the samples; none of a text that is not whole."""
    status = 0
    try:
        # A redirect is not followed: the key is for this address.
        async with session.get(url, allow_redirects=False) as response:
            status = response.status
            if status != 200:
                return status, []
            decoder, samples, size_bytes = PrometheusDecoder(), [], 0
            async for piece in response.content.iter_any():
                size_bytes += len(piece)
                if size_bytes > _TEXT_LIMIT_BYTES:
                    return status, []
                samples += decoder.feed(piece)
            return status, samples + decoder.close()
    except (aiohttp.ClientError, ServiceError, TimeoutError, OSError):
        return status, []


async def _run(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    key = os.environ.get(options.api_key_env or "", "")
    headers = {"Authorization": f"Bearer {key}"} if key else None
    writer = RunWriter(options.run_dir, f"engine-{options.tenant}", audio_limit_bytes=None)
    try:
        trusted = None
        if options.ca_file is not None or options.insecure:
            trusted = tls.context(options.ca_file, insecure=options.insecure)
        await observe(writer, options.tenant, options.url, options.period_ns, stop, headers, trusted)
    finally:
        writer.close()


def _period_ns(text: str) -> int:
    period_ns = round(float(text) * NS_PER_MS)
    if period_ns < _LEAST_PERIOD_NS:
        raise argparse.ArgumentTypeError(f"at least {_LEAST_PERIOD_NS // NS_PER_MS} ms")
    return period_ns


def main(arguments: Sequence[str] | None = None) -> int:
    """The process's entry."""
    parser = argparse.ArgumentParser(prog="cotenant.observers.engine_metrics", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--url", type=metrics_url, required=True, help="the server's; its /metrics is read")
    parser.add_argument("--period-ms", type=_period_ns, default=500 * NS_PER_MS, dest="period_ns")
    parser.add_argument("--api-key-env", help="the environment variable that holds the server's key")
    parser.add_argument("--ca-file", help="a PEM file with certificates to trust besides")
    parser.add_argument("--insecure", action="store_true", help="take any certificate")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_run(options))
    except OSError as error:
        sys.stderr.write(f"the engine observer cannot write to {options.run_dir}: {error}\n")
        return _COULD_NOT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main())
