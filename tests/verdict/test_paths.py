"""The names that a gate may use and the numbers of an entry are the same."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cotenant.verdict.paths import check_path, kinds_of, known_paths, unit_of
from cotenant.verdict.plan import read_plan
from cotenant.verdict.sample import look_up
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import S, good_run, steady


def _full_run() -> Any:
    builder = good_run()
    builder.window("solo:decode", 230 * S, 240 * S)
    builder.window("solo:faces", 241 * S, 249 * S)
    builder.asked("solo:decode", 231 * S, steady(0, 100, 50), done_ms=5000)
    builder.face("solo:faces", 242 * S, steady(300, 60, 40))
    return builder.build()


def _numbers(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}" if path else str(key))
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path


def test_every_name_is_there() -> None:
    recording = _full_run()
    entry = judge(recording, JudgeOptions())["stages"][1]
    for path in known_paths(read_plan(recording)):
        value, reason = look_up(entry, path)
        assert value is not None or "nothing of that name" not in reason, path


def test_every_number_has_a_name_or_is_no_metric() -> None:
    recording = _full_run()
    entry = judge(recording, JudgeOptions())["stages"][1]
    known = set(known_paths(read_plan(recording)))
    beside = ("n", "own", "own_ms", "reference", "reference_ms", "low", "high", "prompts", "requests")
    for part in ("speech", "face", "llm", "vs_reference"):
        for path in _numbers(entry[part], part):
            leaf = path.rpartition(".")[2]
            pooled = "chunk_gap_ms" in path or "chunk_gap_time_weighted_ms" in path
            counted = ".errors." in path or leaf in beside
            assert path in known or pooled or counted, path


@pytest.mark.parametrize(
    ("path", "kind", "unit"),
    [
        ("speech.ttfa_ms.p95", "voices", "ms"),
        ("speech.headroom_ms.unlimited", "voices", ""),
        ("speech.clean_share", "voices", "share"),
        ("speech.continuity.c100", "voices", "share"),
        ("face.skew_outside.accept", "faces", "share"),
        ("llm.decode.ttft_ms.p95", "completions", "ms"),
        ("vs_reference.frame_latency_p95.ratio", "faces", ""),
        ("vs_reference.ttfa_p95.difference_ms", "voices", "ms"),
        ("vs_reference.llm.decode.itl_p99.ratio", "completions", ""),
        ("gpu.sm_percent.mean", "", ""),
        ("canary_ms.p99", "", "ms"),
    ],
)
def test_a_path_tells_its_load_and_its_unit(path: str, kind: str, unit: str) -> None:
    check_path(path, known_paths(read_plan(_full_run())))
    assert kinds_of(path)[0] == kind
    assert unit_of(path) == unit
