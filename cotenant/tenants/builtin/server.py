"""The entry of a built-in server's process: `python -m cotenant.tenants.builtin.server KIND`.

Prints one line of JSON on standard output once it serves; logs go to standard error. Ends with 0 on SIGTERM
or SIGINT, with 70 when its engine broke, with 2 or 5 for what the user or the machine must mend.
"""

import argparse
import asyncio
import dataclasses
import functools
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from cotenant.errors import CotenantError, CouldNotRun, ExitCode
from cotenant.tenants.builtin import packets, source_service, speed
from cotenant.tenants.builtin.runtime import Runtime, before_torch, explained
from cotenant.tenants.builtin.service import Loop, Service
from cotenant.tenants.builtin.step_loop import StepLoop

log = logging.getLogger("cotenant.builtin")

_STOP_S: Final = 0.6  # of the second that a stop may take


def _speech(options: argparse.Namespace, runtime: Runtime) -> Service:
    from cotenant.tenants.builtin import speech_http, tts
    from cotenant.tenants.builtin.recorded_voice import RecordedVoice
    from cotenant.tenants.builtin.shapes import registry

    sizes = registry.find(registry.SPEECH, options.shape)
    if options.voices is not None:
        sizes = dataclasses.replace(sizes, slots=options.voices)
    if options.context_frames is not None:
        sizes = dataclasses.replace(sizes, context_frames=options.context_frames)
    policy = packets.parse(options.packets)
    return Service(
        loop=functools.partial(StepLoop, functools.partial(tts.build, sizes, runtime, policy)),
        add_routes=lambda app, loop: speech_http.add_routes(app, RecordedVoice(loop, policy, options.shape)),
        describe=functools.partial(speed.of_voice, options, runtime),
    )


def _face(options: argparse.Namespace, runtime: Runtime) -> Service:
    from cotenant.tenants.builtin import face_ws, talking_head
    from cotenant.tenants.builtin.drawn_head import DrawnHead
    from cotenant.tenants.builtin.shapes import registry

    sizes = registry.find(registry.FACE, options.shape)
    build = functools.partial(talking_head.build, sizes, runtime)
    describe = functools.partial(speed.of_head, options, runtime)
    return Service(
        loop=functools.partial(StepLoop, build),
        add_routes=lambda app, loop: face_ws.add_routes(app, DrawnHead(loop)),
        describe=describe,
    )


def _completions(options: argparse.Namespace, runtime: Runtime) -> Service:
    from cotenant.tenants.builtin import completions_http, llm
    from cotenant.tenants.builtin.shapes import registry

    sizes = registry.find(registry.COMPLETIONS, options.shape)
    routes = functools.partial(completions_http.add_routes, sizes=sizes, model=options.shape)
    build = functools.partial(llm.build, sizes, runtime)
    return Service(loop=functools.partial(StepLoop, build), add_routes=routes)


KINDS: Final[Mapping[str, Callable[[argparse.Namespace, Runtime], Service]]] = {
    "speech": _speech,
    "face": _face,
    "completions": _completions,
}


def service_of(options: argparse.Namespace) -> Service:
    """The server that the command line asks for."""
    if options.source is not None:
        return source_service.make(options)
    before_torch()
    runtime = Runtime(
        device=options.device,
        threads=options.threads,
        seed=options.seed,
        mode=options.mode,
        step_overhead_ns=options.step_overhead,
    )
    return KINDS[options.kind](options, runtime)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; a wrong one ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="cotenant.tenants.builtin.server", description=__doc__.splitlines()[0]
    )
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--shape", default="tiny", help="the sizes of its model")
    parser.add_argument(
        "--host", default="127.0.0.1", choices=["127.0.0.1"], help="always this machine alone"
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the ready line says which")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument(
        "--threads", type=int, default=None, help="torch's CPU threads; else the shape's own number"
    )
    parser.add_argument(
        "--packets", default="{}", help='speech: {"first": 1, "steady": 4, "ramp": [2, 2]} in frames'
    )
    parser.add_argument(
        "--mode",
        choices=["graphs", "eager"],
        help="recorded CUDA graphs (a GPU's default) or single launches",
    )
    parser.add_argument("--voices", type=int, help="speech: utterances that step together at most")
    parser.add_argument(
        "--context-frames", type=int, help="speech: frames decoded again before each packet; else none is"
    )
    parser.add_argument(
        "--step-overhead",
        type=int,
        help="ns of host time besides for each step, or clip of a face",
    )
    parser.add_argument("--seed", type=int, default=7, help="of the weights and the sampling")
    source_service.add_options(parser)
    options = parser.parse_args(arguments)
    for name, least in (("threads", 1), ("voices", 1), ("context_frames", 0), ("step_overhead", 0),
                        ("workers", 1), ("batch", 1)):  # fmt: skip
        if (value := getattr(options, name)) is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}")
    if not 0 <= options.port <= 65535:
        parser.error("--port must be from 0 to 65535")
    return options


async def _health(request: web.Request) -> web.Response:
    loop = request.app[LOOP]
    if loop.failed:
        return web.json_response({"status": "failed"}, status=503)
    return web.json_response({"status": "ok", "active": loop.active})


LOOP: Final = web.AppKey("loop", Loop)


def _app(service: Service, loop: Loop) -> web.Application:
    app = web.Application(client_max_size=64 * 2**20)
    app[LOOP] = loop
    app.router.add_get("/health", _health)
    service.add_routes(app, loop)
    return app


async def serve(options: argparse.Namespace, service: Service) -> int:
    """Serves until a signal or a broken engine; returns the exit code."""
    events = asyncio.get_running_loop()
    ended: asyncio.Future[int] = events.create_future()
    built = asyncio.Event()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    def stands() -> None:
        events.call_soon_threadsafe(built.set)

    def broke(error: BaseException) -> None:
        error = explained(error)
        if isinstance(error, CotenantError):
            log.error("%s", error)
            events.call_soon_threadsafe(end, int(error.exit_code))
            return
        log.error("the engine broke", exc_info=error)
        events.call_soon_threadsafe(end, int(ExitCode.OUR_FAULT))

    for number in (signal.SIGTERM, signal.SIGINT):
        events.add_signal_handler(number, end, 0)
    loop = service.loop(on_ready=stands, on_failure=broke)
    loop.start()
    ready = asyncio.create_task(built.wait())
    waiting: tuple[asyncio.Future[Any], ...] = (ready, ended)
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        ready.cancel()
        return ended.result()
    app = _app(service, loop)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, options.host, options.port)
    try:
        await site.start()
    except OSError as error:
        raise CouldNotRun(
            f"port {options.port} cannot be used ({error.strerror}); --port 0 takes a free one"
        ) from error
    _say_ready(options, runner.addresses[0][1], service.describe(loop.engine))
    code = await ended
    await runner.cleanup()
    loop.stop(_STOP_S)
    return code


def _say_ready(options: argparse.Namespace, port: int, more: dict[str, Any]) -> None:
    made = {"shape": options.shape} if options.source is None else {"from": options.source}
    line = {
        "ready": True,
        "kind": options.kind,
        "url": f"http://{options.host}:{port}",
        **made,
        "pid": os.getpid(),
        **more,
    }
    out = sys.__stdout__  # sys.stdout may be standard error: what a user's module prints goes there
    assert out is not None
    out.write(json.dumps(line) + "\n")
    out.flush()


def main(arguments: list[str] | None = None) -> int:
    """Runs a server; returns the exit code."""
    options = parse_arguments(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return asyncio.run(serve(options, service_of(options)))
    except CotenantError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The engine's thread may still be inside a long step, and torch's clean-up must not run around it.
    os._exit(code)
