"""A vLLM that refuses an option is named with its version, which nobody has to start it for."""

import asyncio
import sys
from pathlib import Path

import pytest

from cotenant.errors import CouldNotRun
from cotenant.scenario.schema import Tenant
from cotenant.tenants import vllm, vllm_flags
from cotenant.tenants.reaper_client import Reaper

HELP = (
    "print('--model --host --port --load-format --served-model-name --skip-tokenizer-init --max-num-seqs')\n"
)


def installed(folder: Path, version: str | None) -> Path:
    """A `vllm` command whose interpreter has this version of the package."""
    if version is not None:
        package = folder / "site" / f"vllm-{version}.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    program = folder / "vllm"
    program.write_text(f"#!{sys.executable}\n{HELP}")
    program.chmod(0o755)
    return program


def version_of(program: str, folder: Path) -> str | None:
    env = {"PYTHONPATH": str(folder / "site")}
    return asyncio.run(vllm_flags.installed_version([program, "serve"], env))


def test_by_the_first_line_of_its_command_or_its_interpreter(tmp_path: Path) -> None:
    program = installed(tmp_path, "0.25.1")
    assert version_of(str(program), tmp_path) == "0.25.1"
    assert version_of(sys.executable, tmp_path) == "0.25.1"


def test_where_it_does_not_tell(tmp_path: Path) -> None:
    assert version_of("/no/vllm", tmp_path) is None
    (tmp_path / "vllm").write_text("#!/usr/bin/env -S python3 -S\n")
    (tmp_path / "vllm").chmod(0o755)
    assert version_of(str(tmp_path / "vllm"), tmp_path) is None


def test_an_option_that_it_does_not_know_is_refused_before_it_starts(tmp_path: Path) -> None:
    program = installed(tmp_path, "0.25.1")
    block = {"bin": str(program), "model": "tiny-qwen3", "extra_args": ["--max-num-partial-prefill", "2"]}
    tenant = Tenant.model_validate({"kind": "completions", "engine": "launch", "vllm": block})

    async def main() -> None:
        async with await Reaper.start() as reaper:
            await vllm.start(
                reaper, "llm", tenant, env={"PYTHONPATH": str(tmp_path / "site")}, log_dir=tmp_path, nice=0
            )

    with pytest.raises(CouldNotRun) as error:
        asyncio.run(main())
    told = str(error.value)
    assert (
        "llm: this vLLM does not know --max-num-partial-prefill (tenants.llm.vllm.extra_args); remove" in told
    )
    assert f"({program} has vLLM 0.25.1)" in told
    assert not (tmp_path / "llm.log").exists()
