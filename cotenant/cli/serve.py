"""`cotenant serve`: a built-in server, or one of your own generator, by hand.

It replaces this process, so that Ctrl-C reaches it alone.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from cotenant.errors import UserError
from cotenant.tenants.builtin.source_examples import EXAMPLES, FILES, GETS


class Service(StrEnum):
    """The built-in servers as users call them."""

    SPEECH = "speech"
    FACE = "face"
    LLM = "llm"


class SampleFormat(StrEnum):
    """Samples as they are sent: 16-bit integers, or 32-bit floats."""

    S16 = "s16"
    F32 = "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Which server, and its flags; None leaves the server's own choice.

    With a `source` it serves that generator, else the built-in engine of that shape.
    """

    service: Service
    port: int
    threads: int | None
    shape: str | None = None
    device: str | None = None
    source: str | None = None
    rate: int | None = None
    sample_format: SampleFormat | None = None
    workers: int | None = None
    batch: int | None = None


def command(
    service: Annotated[Service, typer.Argument(help="Which server.")],
    shape: Annotated[
        str | None, typer.Option("--shape", help="The size of its model (see `cotenant list`); else tiny.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes a free one; the ready line says which.")
    ] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads of the model.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu (if not given) or cuda:0.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODULE:NAME",
            help="A generator of your own in place of the built-in model: speech: (text, voice) -> samples, "
            "face: (audio, fps) -> frames (an example of each is above).",
        ),
    ] = None,
    rate: Annotated[int | None, typer.Option("--rate", help="With --from: of its samples, in Hz.")] = None,
    sample_format: Annotated[
        SampleFormat | None, typer.Option("--sample-format", help="With --from: as sent; else s16.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="With --from: requests at once; else 1, others wait."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, help="With --from: requests given to its `batch` together."),
    ] = None,
) -> int:
    """Starts a server on 127.0.0.1 and prints its address as a line of JSON. Ctrl-C ends it."""
    options = ServeOptions(
        service=service, shape=shape, port=port, threads=threads, device=device, source=source, rate=rate,
        sample_format=sample_format, workers=workers, batch=batch,
    )  # fmt: skip
    check(options)
    return replace_process(server_command(options))


def _help_of_generators() -> str:
    """For each kind what a generator gets and gives, and a whole one."""
    parts = []
    for kind, example in EXAMPLES.items():
        parts.append(f"{kind} --from {FILES[kind]}:generate: {GETS[kind]}.")
        # A paragraph that begins so keeps its lines.
        parts.append("\b\n" + "".join(f"    {line}\n" for line in example.splitlines()).rstrip())
    return "\n\n".join(parts)


command.__doc__ = f"{command.__doc__}\n\n{_help_of_generators()}"


def check(options: ServeOptions) -> None:
    """Raises UserError for flags of the one kind of engine given with the other."""
    if options.source is None:
        for name in ("rate", "sample_format", "workers", "batch"):
            if getattr(options, name) is not None:
                raise UserError(
                    f"--{name.replace('_', '-')} is for a generator of your own; add --from, or remove it"
                )
        return
    if options.service is Service.LLM:
        raise UserError("--from is for speech and face; an LLM server is attached by its url in the scenario")
    if options.shape is not None:
        raise UserError("--shape is for the built-in model, and --from brings its own; remove one of them")
    if options.device is not None:
        raise UserError(
            "--device is for the built-in model; with --from your module chooses (CUDA_VISIBLE_DEVICES helps)"
        )


def server_command(options: ServeOptions) -> list[str]:
    """The command line of the server's own process."""
    kind = "completions" if options.service is Service.LLM else options.service.value
    built_in = options.source is None
    given: dict[str, object] = {
        "--shape": options.shape or ("tiny" if built_in else None),
        "--port": options.port,
        "--device": options.device or ("cpu" if built_in else None),
        "--threads": options.threads,
        "--from": options.source,
        "--rate": options.rate,
        "--sample-format": options.sample_format,
        "--workers": options.workers,
        "--batch": options.batch,
    }
    module = "cotenant.tenants.builtin.server"
    flags = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    return [sys.executable, "-m", module, kind, *flags]


def replace_process(command_line: Sequence[str]) -> int:
    """Never returns: the process goes on as the other program."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command_line[0], list(command_line))
