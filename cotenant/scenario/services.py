"""A scenario written for services that already run: what extends which, and its YAML. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import yaml

from cotenant.plain import without_controls
from cotenant.scenario.schema import Completions, Scenario, Tenant

_MARGIN_TOKENS: Final = 64
_NAME_LETTERS: Final = 64
_LINE: Final = 108
_LEAST_LINE: Final = 16
_STEP: Final = 4
# Fields of servers that are started for a run.
_OF_STARTED: Final = (
    "model", "vllm", "command", "env", "mps", "packets", "threads", "mode", "voices", "step_overhead",
    "context_frames", "replicas", "device",
)  # fmt: skip


def base_for(kinds: Collection[str]) -> str:
    """The smallest packaged ladder that has tenants of these kinds: nothing in it fails but what was given.

    Each has a voice, which is what stalls are heard in.
    """
    if "completions" in kinds:
        return "all-together" if "face" in kinds else "voice-and-llm"
    return "talking-head" if "face" in kinds else "tts-alone"


def tenant_of_kind(scenario: Scenario, kind: str) -> str | None:
    """The first tenant of a kind, by the order of the scenario."""
    return next((name for name, tenant in scenario.tenants.items() if tenant.kind == kind), None)


def draft(
    name: str, extended: str, base: Scenario, tenants: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A document that extends the scenario `base`, called `extended`, and attaches `tenants`.

    `tenants`: name -> its `url` and what else is known.
    """
    about = f"{base.name} with services that run already: {', '.join(tenants)}."
    attached = {
        tenant: {"engine": "attach", **_removed(base.tenants[tenant]), **known}
        for tenant, known in tenants.items()
    }
    return {"name": _name(name), "about": about, "extends": extended, "tenants": attached}


def _removed(tenant: Tenant) -> dict[str, None]:
    """What the base says of a server that is not started now."""
    if tenant.engine == "attach":
        return {}
    plain = tenant.model_dump(exclude_defaults=True, by_alias=True)
    return {key: None for key in _OF_STARTED if key in plain}


def settled(document: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The document with what was found of each tenant, where it does not say otherwise."""
    result = deepcopy(dict(document))
    for name, settings in found.items():
        said = result["tenants"].setdefault(name, {})
        said.update({key: value for key, value in settings.items() if said.get(key) is None})
    return result


def shortened_prompts(scenario: Scenario, contexts: Mapping[str, int]) -> dict[str, int]:
    """Load -> the longest prompt that its server takes, for each load whose own is longer.

    `scenario` is resolved; `contexts`: tenant -> tokens of prompt and answer together.
    """
    prompts = {}
    for name, load in scenario.load.items():
        limit = contexts.get(load.tenant)
        if limit is None or not isinstance(load, Completions) or not isinstance(load.prompt, int):
            continue
        if load.prompt + load.output > limit:
            prompts[name] = max(1, limit - load.output - _MARGIN_TOKENS)
    return prompts


def to_yaml(document: Mapping[str, Any], comments: Sequence[str], *, width: int | None = None) -> str:
    """YAML that `cotenant run` reads, the comments above it. `width`: columns that its lines keep to where no
    word is longer, the innermost parts in braces; None: as is usual, and in none."""
    lines = [_comment(text) for text in comments]
    plain = dict(document)
    if width is None:
        body = yaml.safe_dump(plain, width=_LINE, sort_keys=False, allow_unicode=True)
    else:
        # A line is broken after what is too long for it, not before.
        tried = (
            yaml.safe_dump(plain, width=most, sort_keys=False, allow_unicode=True, default_flow_style=None)
            for most in range(max(width, _LEAST_LINE), _LEAST_LINE - 1, -_STEP)
        )
        body = min(tried, key=lambda text: sum(max(0, len(line) - width) for line in text.split("\n")))
    return "\n".join([*lines, str(body)])


def _comment(text: str) -> str:
    return "# " + without_controls(re.sub(r"\s+", " ", text))


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:_NAME_LETTERS].strip(".") or "my-services"
