"""Traces read back as the strictest reader does, the rules of their form, and a run that has all to show."""

import gzip
import json
from collections import defaultdict
from functools import cache
from typing import Any

from cotenant.playback.options import PlayerOptions
from cotenant.records import Recording
from tests.verdict.recordings import MS, S, good_run

Event = dict[str, Any]


def options(lookahead_ms: int = 400, **more: Any) -> PlayerOptions:
    return PlayerOptions(lookahead_ns=lookahead_ms * MS, **more)


def events_of(data: bytes) -> list[Event]:
    """Read as the strictest reader does: ns cut off behind the point."""
    events = json.loads(gzip.decompress(data))["traceEvents"]
    for event in events:
        for name in ("ts", "dur"):
            if name in event:
                event[name] = int(event[name] * 1000.0)
    return list(events)


def rows_of(events: list[Event], category: str) -> list[Event]:
    return [event for event in events if event.get("cat") == category and event["ph"] in "Xi"]


def check_form(events: list[Event]) -> None:
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    assert all(event["ts"] >= 0 for event in timed)
    named = {(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    assert {event["ph"] for event in events} <= set("MXCistf")
    numbers = [
        (event["tid"], event["name"]) for event in events if event["ph"] == "M" and "name" in event["args"]
    ]
    # A number is one process or one thread: readers take threads of equal number for one.
    assert len({number for number, _ in numbers}) == len(numbers)
    open_slices: dict[tuple[int, int], list[Event]] = defaultdict(list)
    arrows: dict[int, list[tuple[str, Event]]] = defaultdict(list)
    for event in timed:
        assert ("process_name", event["pid"], event["pid"]) in named
        if event["ph"] == "C":
            continue
        assert ("thread_name", event["pid"], event["tid"]) in named
        track = open_slices[event["pid"], event["tid"]]
        if event["ph"] == "X":
            while track and track[-1]["ts"] + track[-1]["dur"] <= event["ts"]:
                track.pop()
            for parent in track:
                assert event["ts"] + event["dur"] <= parent["ts"] + parent["dur"], (parent, event)
            track.append(event)
        elif event["ph"] in "stf":
            # Bound to the slice that was added last on its track, which must hold the moment.
            assert track[-1]["ts"] <= event["ts"] <= track[-1]["ts"] + track[-1]["dur"]
            assert event["ph"] == "s" or event["bp"] == "e"
            arrows[event["id"]].append((event["ph"], track[-1]))
    for steps in arrows.values():
        assert "".join(phase for phase, _ in steps) in ("st", "stf")
        assert [on["cat"] for _, on in steps] in (["request", "chunk"], ["request", "chunk", "playing"])
        assert len({on["args"]["stream"] for _, on in steps}) == 1


@cache
def crowd_run() -> Recording:
    """Voices (some late), faces, an LLM that decodes and one that prefills, GPU, canary, engine, host."""
    builder = good_run(late_ms=1300.7, share=0.5, device="gpu", utterances=6, seconds=30)
    builder.scenario["load"]["prefill"] = {
        "tenant": "llm", "kind": "completions", "mode": "rate", "rate": "1/s", "prompt": 4096, "output": 1,
    }  # fmt: skip
    builder.scenario["stages"][1]["load"].append("prefill")
    for index in range(8):
        due = 50 * S + index * 2 * S + 123_457
        builder.asked("crowd", due, [700.0], load="prefill", done_ms=700.5, prompt_tokens=4096)
    builder.asked("crowd", 70 * S, [], load="prefill", done_ms=400.0, end="error", error_kind="timeout")
    for index in range(20):
        for metric in ("sm_percent", "sm_clock_mhz", "dram_percent"):
            lost = metric == "dram_percent" and 5 <= index < 9
            builder.rows["gpu"].append(
                {
                    "t0": index * S,
                    "t1": (index + 1) * S,
                    "gpu": "GPU-1",
                    "metric": metric,
                    "value": None if lost else 40.0 + index // 2,
                    "status": "stale" if lost else "ok",
                }
            )
        builder.rows["canary"].append({"t": index * S, "latency": MS + index, "device": "cuda:0"})
        builder.rows["engine"].append(
            {"t": index * S, "tenant": "llm", "metric": "running", "value": float(index)}
        )
    return builder.build()
