"""The server of a user's own generator: its options checked, its workers, the front that fits its kind."""

import argparse
import functools
import os
import sys
from typing import Any, Final

from cotenant.errors import UserError
from cotenant.tenants.builtin import source
from cotenant.tenants.builtin.service import Service
from cotenant.tenants.builtin.source import Source
from cotenant.tenants.builtin.workers import Run, Workers

_SPEECH_ONLY: Final = ("rate", "batch")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What a server's command takes for a generator of the user's own."""
    group = parser.add_argument_group("a generator of your own in place of the built-in engine")
    group.add_argument(
        "--from",
        dest="source",
        metavar="MODULE:NAME",
        help="what makes the pieces; `cotenant serve --help` shows one",
    )
    group.add_argument("--rate", type=int, help="speech: of its samples, in Hz, if it does not tell")
    group.add_argument("--sample-format", choices=["s16", "f32"], default="s16", help="speech: as sent")
    group.add_argument("--workers", type=int, default=1, help="requests that are worked on at once")
    group.add_argument("--batch", type=int, default=1, help="speech: requests that one worker takes together")


def make(options: argparse.Namespace) -> Service:
    """The service; from here on what the process prints goes to standard error.

    The module is imported later, in the first worker's thread. Raises UserError for options that do not go
    together.
    """
    _check(options)
    if options.threads is not None:
        # Read by numerical libraries when they are loaded, which the user's module does.
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads)))
    sys.stdout = sys.stderr
    return _speech(options) if options.kind == "speech" else _face(options)


def _check(options: argparse.Namespace) -> None:
    if options.kind not in source.PARAMETERS:
        raise UserError(f"--from is for speech and face; a server of {options.kind} is attached by its url")
    if options.kind != "speech":
        for name in _SPEECH_ONLY:
            if getattr(options, name) not in (None, 1):
                raise UserError(f"--{name} is for speech; leave it out")
    if options.batch > 1 and options.workers > 1:
        raise UserError("--batch takes requests together, --workers apart; leave one of them out")
    if options.rate is not None:
        source.whole_rate(options.rate, "--rate")


def _speech(options: argparse.Namespace) -> Service:
    from cotenant.tenants.builtin import source_speech, speech_http

    def add_routes(app: Any, workers: Workers) -> None:
        voice = source_speech.SourceVoice(
            workers, options.source, rate_hz=options.rate, sample_format=options.sample_format
        )
        speech_http.add_routes(app, voice)

    def describe(found: Source) -> dict[str, Any]:
        rate_hz = options.rate or found.rate_hz
        said = {} if rate_hz is None else {"rate_hz": rate_hz}
        return {**said, "sample_format": options.sample_format, **_said(options)}

    return Service(loop=_workers(options, source_speech.run), add_routes=add_routes, describe=describe)


def _face(options: argparse.Namespace) -> Service:
    from cotenant.tenants.builtin import face_ws, source_head

    return Service(
        loop=_workers(options, source_head.run),
        add_routes=lambda app, workers: face_ws.add_routes(app, source_head.SourceHead(workers)),
        describe=lambda found: _said(options),
    )


def _said(options: argparse.Namespace) -> dict[str, Any]:
    return {"workers": options.workers, **({"batch": options.batch} if options.batch > 1 else {})}


def _workers(options: argparse.Namespace, run: Run) -> "functools.partial[Workers]":
    build = functools.partial(source.load, options.source, options.kind, batched=options.batch > 1)
    return functools.partial(Workers, build, run, count=options.workers, batch=options.batch)
