"""Who may import whom: the rooms of the package, kept by reading every module's syntax tree."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "cotenant"

# A pure room may import rooms of a lower rank, and itself.
PURE_RANK = {
    "units": 0,
    "errors": 0,
    "plain": 0,
    "secret_forms": 0,
    "records": 1,
    "scenario": 2,
    "wire": 2,
    "playback": 2,
    "load.pacing": 3,
    "verdict": 3,
    "report": 4,
}
EDGES = ("tenants", "load", "observers", "run_dir", "live")
COMPOSERS = ("conductor", "cli", "pytest_plugin", "__main__")
OTHERS = ("resources", "tls", "testing", "data", "api", "")
EDGE_EXCEPTIONS = {("load", "cotenant.run_dir.writer"), ("observers", "cotenant.run_dir.writer")}

# Scenario files are found and read there; everything else in the pure rooms gets its facts as arguments.
READS_FILES = ("cotenant.scenario.load",)
IMPURE = (
    "aiohttp", "aiomqtt", "asyncio", "concurrent", "glob", "http.client", "http.server", "mmap",
    "multiprocessing", "os", "pathlib", "psutil", "pynvml", "requests", "select", "selectors",
    "shutil", "signal", "socket", "socketserver", "ssl", "subprocess", "tempfile", "threading",
    "time", "torch", "urllib.request", "uvloop",
)  # fmt: skip
ONLY_IN = {
    "torch": ("cotenant.tenants.builtin", "cotenant.observers.gpu_canary"),
    "sounddevice": ("cotenant.cli.listen", "cotenant.report.audio"),
}


def room_of(module: str) -> str:
    """`cotenant.scenario.load` -> `scenario`; the pure half of `load` is a room of its own."""
    if within(module, "cotenant.load.pacing"):
        return "load.pacing"
    return module.split(".")[1] if "." in module else ""


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imports_of(source: str, known: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Every module that is imported anywhere, with the line; `from a import b` is `a.b` if that is one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in known or not base.startswith("cotenant") else base), node.lineno


def broken_rules(sources: Mapping[str, str]) -> list[str]:
    """One sentence for each import that the design forbids. `sources`: module name -> its text."""
    known = frozenset(sources)
    broken = []
    for module, source in sources.items():
        room = room_of(module)
        if room not in (*PURE_RANK, *EDGES, *COMPOSERS, *OTHERS):
            broken.append(f"{module}: {room} is no room of the design")
        for imported, line in imports_of(source, known):
            reason = _why_not(module, imported)
            if reason is not None:
                broken.append(f"{module}:{line} imports {imported}: {reason}")
        if room in PURE_RANK and module not in READS_FILES:
            broken += [f"{module}:{line} opens a file: a pure room has none" for line in _opens(source)]
    return broken


def _opens(source: str) -> list[int]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]


def _why_not(module: str, imported: str) -> str | None:
    for name, places in ONLY_IN.items():
        if within(imported, name) and not any(within(module, place) for place in places):
            return f"only in {' and '.join(places)}"
    if imported.startswith("."):
        return "imports are absolute"
    if within(imported, "cotenant"):
        return _why_not_inside(module, imported)
    if room_of(module) in PURE_RANK and any(within(imported, name) for name in IMPURE):
        return None if module in READS_FILES and within(imported, "pathlib") else "a pure room has no edge"
    return None


def _why_not_inside(module: str, imported: str) -> str | None:
    here, there = room_of(module), room_of(imported)
    if here == there or there == "":
        return None
    if there == "cli":
        return None if here == "__main__" else "nothing imports the command line"
    if there == "testing":
        return "fakes are for tests"
    if here in PURE_RANK:
        if there == "resources":
            return None if module in READS_FILES else "a pure room reads no file"
        if there not in PURE_RANK:
            return "a pure room has no edge"
        return None if PURE_RANK[there] < PURE_RANK[here] else "the rooms' order is the other way"
    if there in COMPOSERS and here not in COMPOSERS:
        return "only the command line composes it"
    if here in EDGES and there in EDGES:
        return None if (here, imported) in EDGE_EXCEPTIONS else "edges never import each other"
    return None


def package_sources() -> dict[str, str]:
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def test_the_package_keeps_its_import_direction() -> None:
    sources = package_sources()
    assert len(sources) > 20
    assert broken_rules(sources) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cotenant.playback.player", "import time"),
        ("cotenant.playback.player", "from time import monotonic_ns"),
        ("cotenant.playback.player", "def f():\n    import asyncio.events"),
        ("cotenant.load.pacing", "import socket"),
        ("cotenant.load.pacing", "from cotenant.load import process"),
        ("cotenant.verdict.stats", "import torch.nn"),
        ("cotenant.verdict.stats", "from pathlib import Path"),
        ("cotenant.scenario.schema", "from pathlib import Path"),
        ("cotenant.scenario.load", "import os"),
        ("cotenant.report.console", "x = open('file')"),
        ("cotenant.report.page", "from cotenant.resources import data_dir"),
        ("cotenant.verdict.summary", "from cotenant.run_dir import reader"),
        ("cotenant.playback.player", "from cotenant.verdict import stats"),
        ("cotenant.wire.sse", "from cotenant.scenario.schema import Scenario"),
        ("cotenant.units", "import cotenant.records"),
        ("cotenant.tenants.launch", "from cotenant.load.process import main"),
        ("cotenant.load.listener", "from cotenant.run_dir.reader import read"),
        ("cotenant.load.listener", "from cotenant.run_dir import reader"),
        ("cotenant.live.progress", "from cotenant.run_dir.writer import RunWriter"),
        ("cotenant.tenants.launch", "from cotenant.conductor.run import run"),
        ("cotenant.tenants.launch", "import torch"),
        ("cotenant.tenants.builtin_not.x", "import torch"),
        ("cotenant.conductor.run", "import torch"),
        ("cotenant.cli.doctor", "import sounddevice"),
        ("cotenant.conductor.run", "from cotenant.cli import main"),
        ("cotenant.conductor.run", "from cotenant.testing import truth"),
        ("cotenant.conductor.run", "from . import ladder"),
        ("cotenant.helpers.x", ""),
    ],
)
def test_the_checker_sees_a_broken_rule(module: str, source: str) -> None:
    others = (
        "cotenant.run_dir.reader",
        "cotenant.run_dir.writer",
        "cotenant.load.process",
        "cotenant.cli.main",
    )
    assert len(broken_rules({**dict.fromkeys(others, ""), module: source})) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "cotenant.load.process",
            "import asyncio, socket, time\nfrom cotenant.run_dir.writer import RunWriter",
        ),
        (
            "cotenant.load.process",
            "from cotenant.load.pacing import due\nfrom cotenant.playback.player import play",
        ),
        ("cotenant.scenario.load", "from pathlib import Path\nfrom cotenant.resources import data_dir"),
        ("cotenant.report.console", "import rich\nfrom cotenant.verdict.stats import quantile"),
        ("cotenant.tenants.builtin.tts", "import torch"),
        (
            "cotenant.conductor.run",
            "import time\nfrom cotenant.load import process\nfrom cotenant import __version__",
        ),
        ("cotenant.cli.listen", "import sounddevice\nfrom cotenant.conductor.run import run"),
        ("cotenant.wire.http1", "import h11, timeit_not"),
    ],
)
def test_the_checker_lets_the_rest_through(module: str, source: str) -> None:
    assert broken_rules({"cotenant.load.process": "", module: source}) == []
