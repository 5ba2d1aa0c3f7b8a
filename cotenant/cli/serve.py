"""`cotenant serve`: a built-in server by hand. It replaces this process, so that Ctrl-C reaches it alone."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


class Service(StrEnum):
    """The built-in servers as users call them."""

    SPEECH = "speech"
    FACE = "face"
    LLM = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Which server, and its flags; `threads` None leaves the server's own choice."""

    service: Service
    shape: str
    port: int
    threads: int | None
    device: str


def command(
    service: Annotated[Service, typer.Argument(help="Which server.")],
    shape: Annotated[
        str, typer.Option("--shape", help="The size of its model (see `cotenant list`).")
    ] = "tiny",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 takes a free one; the ready line says which.")
    ] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads of the model.")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda:0.")] = "cpu",
) -> int:
    """Starts one built-in server on 127.0.0.1 and prints its address as a line of JSON. Ctrl-C ends it."""
    options = ServeOptions(service=service, shape=shape, port=port, threads=threads, device=device)
    return replace_process(server_command(options))


def server_command(options: ServeOptions) -> list[str]:
    """The command line of the server's own process."""
    kind = "completions" if options.service is Service.LLM else options.service.value
    arguments = {"--shape": options.shape, "--port": str(options.port), "--device": options.device}
    if options.threads is not None:
        arguments["--threads"] = str(options.threads)
    module = "cotenant.tenants.builtin.server"
    return [sys.executable, "-m", module, kind, *(part for pair in arguments.items() for part in pair)]


def replace_process(command_line: Sequence[str]) -> int:
    """Never returns: the process goes on as the other program."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command_line[0], list(command_line))
