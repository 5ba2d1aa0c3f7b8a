"""What one field of a scenario cannot know about another, checked on plain data.

On plain data, because they are told together with the errors of single fields: there is no model then.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.builtin_checks import builtin_checks
from cotenant.scenario.nearest import nearest
from cotenant.scenario.protocol_checks import NOT_YET, protocol_checks
from cotenant.scenario.schema import CONTEXT_TOKENS, GATE_PROFILES, PROTOCOLS, SHAPES
from cotenant.scenario.serve_checks import serve_checks
from cotenant.scenario.sharing import run_checks, tenant_checks
from cotenant.scenario.values import AUTO, limit
from cotenant.scenario.vllm import prompt_checks, tokens, vllm_checks
from cotenant.scenario.yaml_text import Path

Found = tuple[Path, str]

_GATE_RE: Final = re.compile(r"\s*[A-Za-z0-9_.-]+\s*(?:<=|>=|<|>)\s*([^\s<>=].*)")
TENANT_OF_LOAD: Final = {"voices": "speech", "faces": "face", "completions": "completions"}
_ENGINES_OF_FIELD: Final = {
    "shape": ("builtin", "auto"),
    "threads": ("builtin", "auto"),
    "packets": ("builtin", "auto"),
    "command": ("launch",),
    "vllm": ("launch", "auto"),
    "env": ("launch", "builtin", "auto"),
    "url": ("launch", "attach"),
    "mps": ("builtin", "launch", "auto"),
}


def cross_checks(data: Mapping[str, Any]) -> Iterator[Found]:
    """Every disagreement between fields, as (path, what is wrong; what would be right)."""
    tenants, loads = _mappings(data, "tenants"), _mappings(data, "load")
    for name, tenant in tenants.items():
        for path, message in _tenant(tenant, data.get("sharing")):
            yield ("tenants", name, *path), message
    for number, (name, load) in enumerate(loads.items()):
        for path, message in _load(load, tenants, loads, number):
            yield ("load", name, *path), message
    yield from run_checks(data)
    yield from _stages(data, loads)
    yield from _gates(data)


def _mappings(data: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        return {}
    return {name: item for name, item in value.items() if isinstance(item, Mapping)}


def _tenant(tenant: Mapping[str, Any], sharing: object) -> Iterator[Found]:
    engine, kind = tenant.get("engine", AUTO), tenant.get("kind")
    for key, engines in _ENGINES_OF_FIELD.items():
        given = tenant.get(key)
        if (
            (given or (key == "vllm" and given is not None))
            and given != AUTO
            and engine not in engines
            and engine in ("builtin", "launch", "attach", AUTO)
        ):
            right = " or ".join(engine for engine in engines if engine != AUTO)
            yield (key,), f"the engine {engine} takes no {key}; remove it, or use engine: {right}"
    if engine == "attach" and tenant.get("url") is None:
        yield (), "engine: attach needs the address of the running server; add url: http://HOST:PORT"
    built = tenant.get("vllm") is not None
    if engine == "launch" and not tenant.get("command") and not built:
        yield (
            (),
            "engine: launch needs the command that starts the server; add command: [PROGRAM, ARGUMENT, ...]"
            + (", or vllm: {model: NAME}" if kind == "completions" else ""),
        )
    if engine == "launch" and tenant.get("url") is None and not built:
        yield (), "engine: launch needs the address the server will answer on; add url: http://127.0.0.1:PORT"
    if engine in ("attach", "launch") and tenant.get("replicas", 1) != 1:
        yield ("replicas",), f"engine: {engine} is one server; remove replicas, or add one tenant per server"
    yield from tenant_checks(tenant, sharing)
    if tenant.get("packets") and kind in ("face", "completions"):
        yield ("packets",), f"packets are for kind: speech, and this is {kind}; remove it"
    yield from vllm_checks(tenant)
    yield from builtin_checks(tenant)
    yield from serve_checks(tenant)
    yield from protocol_checks(tenant)
    yield from _tenant_words(tenant, kind)


def _tenant_words(tenant: Mapping[str, Any], kind: object) -> Iterator[Found]:
    for key, table in (("shape", SHAPES), ("protocol", PROTOCOLS)):
        word = tenant.get(key, AUTO)
        known = (AUTO, *table.get(str(kind), ()))
        if isinstance(word, str) and str(kind) in table and word not in known:
            yield (
                (key,),
                NOT_YET.get((str(kind), word.lower()))
                or f"{word!r} is no {key} of a {kind} tenant; {nearest(word, known)}",
            )


def _load(
    load: Mapping[str, Any],
    tenants: Mapping[str, Mapping[str, Any]],
    loads: Mapping[str, Mapping[str, Any]],
    number: int,
) -> Iterator[Found]:
    kind, tenant = load.get("kind"), load.get("tenant")
    wanted = TENANT_OF_LOAD.get(str(kind))
    if isinstance(tenant, str):
        if tenant not in tenants:
            yield ("tenant",), f"there is no tenant {tenant!r}; {nearest(tenant, tenants, number=number)}"
        elif wanted and (found := tenants[tenant].get("kind")) in TENANT_OF_LOAD.values() and found != wanted:
            fitting = [name for name, other in tenants.items() if other.get("kind") == wanted]
            right = f"use {' or '.join(fitting)}" if fitting else f"add a tenant of kind: {wanted}"
            yield ("tenant",), f"{kind} need a tenant of kind {wanted}, and {tenant!r} is {found}; {right}"
    if kind == "faces":
        yield from _follows(load, loads, number)
    if kind == "completions":
        yield from _completions(load, tenants.get(str(tenant), {}))
    if kind == "voices" and load.get("text") in ([], ""):
        yield ("text",), "there is no sentence to speak; write text: builtin, a file, or [sentence, ...]"
    if kind == "voices" and isinstance(text := load.get("text"), list):
        for index, sentence in enumerate(text):
            if isinstance(sentence, str) and not sentence.strip():
                yield ("text", index), "this sentence is empty; write one, or remove it"


def _follows(load: Mapping[str, Any], loads: Mapping[str, Mapping[str, Any]], number: int) -> Iterator[Found]:
    follows = load.get("follows")
    if not isinstance(follows, str):
        return
    voices = [name for name, other in loads.items() if other.get("kind") == "voices"]
    if follows not in loads:
        yield ("follows",), f"there is no load {follows!r}; {nearest(follows, voices, number=number)}"
    elif follows not in voices:
        known = nearest(follows, voices, number=number)
        yield ("follows",), f"faces follow voices, and {follows!r} is not of that kind; {known}"
    else:
        heads, listeners = load.get("listeners", 1), loads[follows].get("listeners")
        if isinstance(heads, int) and isinstance(listeners, int) and heads > listeners > 0:
            yield (
                ("listeners",),
                f"{heads} faces cannot follow {listeners} listeners of {follows!r}; use at most {listeners}",
            )


def _completions(load: Mapping[str, Any], tenant: Mapping[str, Any]) -> Iterator[Found]:
    for message in prompt_checks(tenant, load):
        yield ("prompt",), message
    prompt, output = tokens(load.get("prompt")), tokens(load.get("output", 400))
    context = CONTEXT_TOKENS.get(str(tenant.get("shape"))) if tenant.get("engine") == "builtin" else None
    if context is not None and prompt is not None and output is not None and prompt + output > context:
        yield (
            ("prompt",),
            f"a prompt of {prompt} tokens and an output of {output} are longer than the {context} that the "
            f"built-in {tenant.get('shape')} holds; shorten them, or take a larger shape",
        )
    mode, rate = load.get("mode", "alive"), load.get("rate")
    if mode == "rate" and rate is None:
        yield (), "mode: rate needs how many requests are sent; add rate: 0.5/s"
    if mode == "rate" and load.get("streams", AUTO) != AUTO:
        yield ("streams",), "mode: rate has no fixed number of streams; remove streams, or use mode: alive"
    if mode == "alive" and rate is not None:
        yield ("rate",), "mode: alive sends the next request when one ends; remove rate, or use mode: rate"


def _stages(data: Mapping[str, Any], loads: Mapping[str, Mapping[str, Any]]) -> Iterator[Found]:
    stages = data.get("stages")
    seen: dict[str, int] = {}
    baseline: int | None = None
    for index, stage in enumerate(stages if isinstance(stages, list) else []):
        if not isinstance(stage, Mapping):
            continue
        name = stage.get("name")
        if isinstance(name, str):
            if name in seen:
                yield (
                    ("stages", index, "name"),
                    f"stages[{seen[name]}] is called {name!r} too; give each stage a name of its own",
                )
            seen.setdefault(name, index)
        if stage.get("baseline") is True:
            if baseline is not None:
                yield (
                    ("stages", index, "baseline"),
                    f"stages[{baseline}] is the baseline already; keep baseline: true on one stage",
                )
            baseline = index if baseline is None else baseline
        for path, message in _stage_loads(stage.get("load"), loads, index):
            yield ("stages", index, "load", *path), message


def _stage_loads(names: object, loads: Mapping[str, Mapping[str, Any]], stage: int) -> Iterator[Found]:
    if not isinstance(names, list):
        return
    for index, name in enumerate(names):
        if not isinstance(name, str):
            continue
        if name not in loads:
            yield (index,), f"there is no load {name!r}; {nearest(name, loads, number=stage + index)}"
            continue
        if name in names[:index]:
            yield (index,), f"{name!r} stands here twice; keep one"
        follows = str(loads[name].get("follows"))
        followed = loads.get(follows, {}).get("kind") == "voices"
        if loads[name].get("kind") == "faces" and followed and follows not in names:
            yield (
                (index,),
                f"{name!r} follows {follows!r}, which is not in this stage; add {follows} to its load",
            )


def _gates(data: Mapping[str, Any]) -> Iterator[Found]:
    gates, stages = data.get("gate"), data.get("stages")
    names = [s.get("name") for s in stages if isinstance(s, Mapping)] if isinstance(stages, list) else []
    for index, gate in enumerate(gates if isinstance(gates, list) else []):
        if isinstance(gate, str) and gate not in GATE_PROFILES:
            for message in _gate_text(gate, index):
                yield ("gate", index), message
        wanted = gate.get("stages") if isinstance(gate, Mapping) else None
        for position, name in enumerate(wanted if isinstance(wanted, list) else []):
            if name not in names:
                yield (
                    ("gate", index, "stages", position),
                    f"there is no stage {name!r}; {nearest(name, map(str, names), number=index + position)}",
                )


def _gate_text(gate: str, number: int) -> Iterator[str]:
    match = _GATE_RE.fullmatch(gate)
    if match is None:
        example = "or write a limit, as in 'speech.ttfa_ms.p95 <= 500ms'"
        known = nearest(gate, GATE_PROFILES, number=number)
        yield f"there is no gate profile {gate[:60]!r}; {known}, {example}"
        return
    try:
        limit(match[1])
    except ValueError as error:
        yield str(error)
