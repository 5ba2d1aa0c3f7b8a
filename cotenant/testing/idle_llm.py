"""An OpenAI completions server that computes nothing: tokens come by the clock, the device stays idle."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

from aiohttp import web

from cotenant.units import NS_PER_S

MODEL = "idle"


class IdleLlm:
    """`tokens_per_s` of each stream; a prompt of n tokens takes n / `prefill_tokens_per_s` seconds."""

    def __init__(self, *, tokens_per_s: float, prefill_tokens_per_s: float) -> None:
        self._gap_ns = round(NS_PER_S / tokens_per_s)
        self._prefill_ns = NS_PER_S / prefill_tokens_per_s
        self.active = 0
        self.generated = 0
        self.prompted = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/completions", self.completions)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/health", self.health)
        app.router.add_get("/metrics", self.metrics)
        return app

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "active": self.active})

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def metrics(self, _: web.Request) -> web.Response:
        lines = [
            f'vllm:num_requests_running{{model_name="{MODEL}"}} {self.active}',
            f'vllm:num_requests_waiting{{model_name="{MODEL}"}} 0',
            f'vllm:generation_tokens_total{{model_name="{MODEL}"}} {self.generated}',
            f'vllm:prompt_tokens_total{{model_name="{MODEL}"}} {self.prompted}',
        ]
        return web.Response(text="\n".join(lines) + "\n")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """One answer; 400 for a request that is none."""
        start_ns = time.monotonic_ns()
        try:
            body = await request.json()
            prompt, wanted = body["prompt"], int(body.get("max_tokens", 16))
            length = len(prompt) if isinstance(prompt, list) else len(str(prompt).split())
        except (ValueError, KeyError, TypeError) as error:
            return web.json_response({"error": {"message": f"no completion request: {error}"}}, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        self.active += 1
        self.prompted += length
        try:
            await response.prepare(request)
            for count in range(1, wanted + 1):
                due_ns = start_ns + round(length * self._prefill_ns) + (count - 1) * self._gap_ns
                await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / NS_PER_S)
                self.generated += 1
                await response.write(_chunk(body, length, count, last=count == wanted))
            await response.write(_usage(body, length, wanted) + b"data: [DONE]\n\n")
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client has gone; what it asked for is dropped
        finally:
            self.active -= 1
        return response


def _chunk(body: dict[str, Any], prompt: int, count: int, *, last: bool) -> bytes:
    choice = {"index": 0, "text": " idle", "finish_reason": "length" if last else None}
    value: dict[str, Any] = {"object": "text_completion", "model": MODEL, "choices": [choice]}
    if (body.get("stream_options") or {}).get("continuous_usage_stats"):
        value["usage"] = _counts(prompt, count)
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _usage(body: dict[str, Any], prompt: int, count: int) -> bytes:
    if not (body.get("stream_options") or {}).get("include_usage"):
        return b""
    value = {"object": "text_completion", "model": MODEL, "choices": [], "usage": _counts(prompt, count)}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _counts(prompt: int, count: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}


async def serve(llm: IdleLlm, host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT; prints the ready line."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(llm.app(), shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        url = f"http://{host}:{runner.addresses[0][1]}"
        ready = {"ready": True, "kind": "completions", "url": url, "shape": "idle", "pid": os.getpid()}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()


def main(arguments: list[str] | None = None) -> int:
    """The command line of `python -m cotenant.testing.idle_llm`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tokens-per-s", type=float, default=25.0)
    parser.add_argument("--prefill-tokens-per-s", type=float, default=4000.0)
    options = parser.parse_args(arguments)
    llm = IdleLlm(tokens_per_s=options.tokens_per_s, prefill_tokens_per_s=options.prefill_tokens_per_s)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(llm, options.host, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
