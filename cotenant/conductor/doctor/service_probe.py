"""Looks at each tenant of a resolved scenario: could it be started, or does it answer; and which engines are
here."""

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cotenant.errors import CotenantError, CouldNotRun
from cotenant.report.doctor.facts import Program, ServiceFacts, Trouble
from cotenant.scenario.hidden import Secrets
from cotenant.scenario.memory import ModelSizes, kv_bytes_per_token, value_bytes
from cotenant.scenario.parse import hide_query
from cotenant.scenario.schema import Scenario, Tenant
from cotenant.scenario.vllm import MODEL_SHAPES, Vllm, is_path
from cotenant.tenants import attach, vllm, vllm_command, vllm_flags
from cotenant.tenants.elsewhere import elsewhere
from cotenant.tenants.mps import CONTROL
from cotenant.tenants.ready import check_port_free

_WEIGHTS: Final = ("*.safetensors", "*.gguf")
_VLLM_GET: Final = "python3 -m venv vllm-env && vllm-env/bin/pip install vllm, then put vllm-env/bin on PATH"

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "firefox")
_TEXT_BROWSERS: Final = ("www-browser", "links", "elinks", "lynx", "w3m")


def look(used: Mapping[str, Tenant], secrets: Secrets) -> tuple[ServiceFacts, ...]:
    """The tenants that the scenario uses, in turn; `secrets` stand in nothing that is told of them."""

    async def all_of_them() -> tuple[ServiceFacts, ...]:
        return tuple(await asyncio.gather(*(_look_at(name, one, secrets) for name, one in used.items())))

    return asyncio.run(all_of_them())


async def _look_at(name: str, tenant: Tenant, secrets: Secrets) -> ServiceFacts:
    what = _what(tenant)
    key_trouble = None
    if tenant.api_key_env and not os.environ.get(tenant.api_key_env, "").strip():
        key_trouble = Trouble(
            text=f"{tenant.api_key_env} is not set, and holds its key: a run would not start",
            advice=f"export {tenant.api_key_env}=...",
        )
    try:
        if tenant.engine == "attach":
            assert tenant.url is not None
            await attach.check(
                name, tenant.url, tenant.ready.path, ca_file=tenant.ca_file, insecure=bool(tenant.insecure)
            )
            what = f"answers at {hide_query(tenant.url)}"
            if await elsewhere(tenant.url):
                what += "; on another machine, by its address: what a run reads of CPU and GPU is this one's"
        elif tenant.engine == "launch":
            if tenant.url is not None:
                await check_port_free(name, tenant.url)
                what += f"; its port is free ({hide_query(tenant.url)})"
            what += await _startable(name, tenant)
        else:
            what += "; takes a free port"
        if tenant.engine != "attach":
            what += "; not started here, so not tried"
    except CotenantError as error:
        text = secrets.text(str(error).removeprefix(f"{name}: "))
        return ServiceFacts(name=name, what=what, trouble=Trouble(text=text), key_trouble=key_trouble)
    to_try = tenant.engine == "attach" and key_trouble is None
    return ServiceFacts(name=name, what=secrets.text(what), key_trouble=key_trouble, to_try=to_try)


def _what(tenant: Tenant) -> str:
    if tenant.engine == "builtin":
        return f"built in, shape {tenant.shape}" + (f" x {tenant.replicas}" if tenant.replicas > 1 else "")
    if tenant.vllm is not None:
        dummy = ", dummy weights" if tenant.vllm.model in MODEL_SHAPES else ""
        return f"vLLM with {tenant.vllm.model}{dummy}"
    return "started by its command" if tenant.engine == "launch" else "attached"


async def _startable(name: str, tenant: Tenant) -> str:
    """What is started, as far as that can be told without starting it. Raises CouldNotRun."""
    if tenant.vllm is None:
        program = (tenant.command or [""])[0]
        if shutil.which(program) is None:
            raise CouldNotRun(f"{name}: {program} is no program here; correct tenants.{name}.command")
        return ""
    prefix = vllm_command.server_prefix(tenant.vllm)
    vllm.model_files(name, tenant.vllm.model)
    if shutil.which(prefix[0]) is None:
        raise CouldNotRun(
            f"{name}: {prefix[0]} is no program here; give the path of a vllm command in "
            f"tenants.{name}.vllm.bin"
        )
    version = await vllm_flags.installed_version(prefix, tenant.env)
    return f"; vLLM {version or 'of an unknown version'} ({prefix[0]})"


def programs(
    scenario: Scenario, used: Mapping[str, Tenant], device_kind: str, *, llm_auto: bool
) -> tuple[Program, ...]:
    """PyTorch, vLLM, MPS and what is optional: where it is, and who needs it.

    `llm_auto`: the engine of an LLM was left to what is found here.
    """
    builtin = any(tenant.engine == "builtin" for tenant in used.values())
    on_path = shutil.which("vllm")
    found = [
        Program(
            name="PyTorch",
            found=_version("torch"),
            use="the built-in servers compute with it" if builtin else "the canary on a GPU computes with it",
            get=f"{sys.executable} -m pip install torch",
            needed=builtin,
            concerns=device_kind == "gpu",
        ),
        Program(
            name="vLLM",
            found=None
            if on_path is None
            else f"{asyncio.run(_vllm_version(on_path)) or 'found'} ({on_path})",
            use="`engine: auto` of an LLM starts it on a GPU, else a built-in LLM stands in",
            get=_VLLM_GET,
            concerns=llm_auto and device_kind == "gpu",
        ),
    ]
    if device_kind == "gpu" or scenario.sharing == "mps":
        found.append(
            Program(
                name="MPS",
                found=shutil.which(CONTROL),
                use="`sharing: mps`",
                get="sudo apt install nvidia-compute-utils-<driver's number> (Debian: nvidia-cuda-mps)",
                needed=scenario.sharing == "mps",
            )
        )
    found.append(_browser())
    return tuple(found)


def _browser() -> Program:
    """What `cotenant report --open` starts: on a screen, so that one without a display is none."""
    use = "`cotenant report --open` shows a run's page with it; any browser, elsewhere too, opens report.html"
    try:
        name = getattr(webbrowser.get(), "name", "by a command of its own")
    except webbrowser.Error:
        name = None
    screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    installed = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if name in _TEXT_BROWSERS:
        name = None
    unseen = name is None and installed is not None and not screen
    return Program(
        name="browser",
        found=name,
        use=use,
        get="" if installed is not None else "sudo apt install chromium",
        lacking=f"no display to show {installed} on (DISPLAY is not set)" if unseen else "not here",
    )


def models(used: Mapping[str, Tenant]) -> dict[str, ModelSizes]:
    """Sizes of the models that are on this disk: weights by their files, the cache by config.json."""
    return {
        name: _sizes(tenant.vllm)
        for name, tenant in used.items()
        if tenant.vllm is not None and tenant.vllm.model not in MODEL_SHAPES
    }


def _sizes(block: Vllm) -> ModelSizes:
    unknown = ModelSizes(weights_bytes=None, kv_bytes_per_token=None)
    folder = Path(block.model).expanduser() if is_path(block.model) else _downloaded(block.model)
    if folder is None:
        return unknown
    try:
        files = [path for pattern in _WEIGHTS for path in folder.glob(pattern)]
        weights_bytes = sum(path.stat().st_size for path in files) or None
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return unknown
    per_token = kv_bytes_per_token(config, value_bytes(block)) if isinstance(config, dict) else None
    return ModelSizes(weights_bytes=weights_bytes, kv_bytes_per_token=per_token)


def _downloaded(model: str) -> Path | None:
    """The newest snapshot of ORGANISATION/NAME where Hugging Face's libraries keep what they downloaded."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    folders = (cache / f"models--{model.replace('/', '--')}" / "snapshots").glob("*")
    found = [folder for folder in folders if (folder / "config.json").is_file()]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


async def _vllm_version(program: str) -> str | None:
    return await vllm_flags.installed_version([program], {})


def _version(package: str) -> str | None:
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"
