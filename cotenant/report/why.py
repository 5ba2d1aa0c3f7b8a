"""The lines under `why`: what the stalls of the stage that decided are blamed on, and facts beside them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.report.text import number, safe
from cotenant.units import counted, format_ms, format_share
from cotenant.verdict.failures import decided_by

Entry = Mapping[str, Any]
MOST_LINES: Final = 3
_LEFT: Final = "unattributed"
# Causes that are no tenant's: the GPU has nothing to do with them.
_NOT_GPU: Final = ("own_load", "host", "voice_late", _LEFT)
# What is left without a cause is worth a line from this share of the silence on.
_WORTH: Final = 0.1
# At this use of its SMs a reader would take the GPU for free.
_ONLY_PERCENT: Final = 60
_COMPARED: Final = (
    ("chunk_gap_max_p95", "an utterance's longest gap (p95)"),
    ("ttfa_p95", "TTFA p95"),
    ("time_to_playback_p95", "time to playback p95"),
    ("rtf_p95", "real-time factor p95"),
)


def why_lines(summary: Entry) -> list[str]:
    """At most three: the two strongest causes (or that none was found), and how the stage compares with the
    baseline; nothing of that where the baseline failed."""
    stage, _ = decisive(summary)
    if stage is None or stage["verdict"] == "pass":
        return []
    withheld = baseline_failed(summary)
    lines = []
    if not withheld or first_cause(stage) is not None:
        failed, causes = failure_lines(stage), cause_lines(stage)
        if decided_by(stage) is None:
            # Failures that did not decide are said after the causes of what did.
            lines = [*causes, *failed]
        else:
            lines = [*failed, *(causes if any(cause["what"] != _LEFT for cause in stage["causes"]) else [])]
        lines = lines[: MOST_LINES - 1]
    if not withheld:
        facts = _compared(stage)
        if not any(cause["what"] not in _NOT_GPU for cause in stage["causes"]):
            facts += _gpu_facts(stage)
        if stage["verdict"] == "fail" and not lines:
            # What has grown beside the co-tenants is no cause yet: nothing was seen to wait for them.
            reason = stage["why"].get("causes")
            none = f"no cause found ({safe(reason)})" if reason else "no cause found"
            lines.append(": ".join([none, "; ".join(facts)] if facts else [none]))
        elif facts:
            lines.append("; ".join(facts))
    return [f"{safe(stage['name'])}: {line}" if index == 0 else line for index, line in enumerate(lines)]


def cause_lines(stage: Entry) -> list[str]:
    """At most two causes of a stage as sentences, the first of a tenant's with what the GPU showed."""
    causes: Sequence[Entry] = stage["causes"]
    named = [cause for cause in causes if cause["what"] != _LEFT]
    rest = [cause for cause in causes if cause not in named[:1] and (cause["share"] or 0) >= _WORTH]
    lines: list[str] = []
    for cause in [*named[:1], *rest][: MOST_LINES - 1]:
        text = safe(cause["text"], 600)
        if cause["what"] == _LEFT and named:
            what = "silence" if cause["of"] == "voice" else "frozen time"
            text = f"{text} ({format_share(cause['share'])} of the {what})"
        elif cause["what"] not in _NOT_GPU and not lines:
            text = "; ".join([text, *_beside(stage, cause)])
        lines.append(text)
    return lines


def failure_lines(stage: Entry) -> list[str]:
    """What of a stage's voices and faces failed by an error, and any service that stopped answering."""
    found = [one for one in stage.get("failures", ()) if one["of"] != "completions" or one["stopped"]]
    return [safe(one["text"], 600) for one in found]


def first_cause(stage: Entry) -> str | None:
    """What decides in one sentence: that streams failed, else the strongest cause of stalls and freezes; None
    where nothing is blamed."""
    named = [safe(cause["text"], 600) for cause in stage["causes"] if cause["what"] != _LEFT]
    failed = failure_lines(stage)
    first = [*failed, *named] if decided_by(stage) is not None else [*named, *failed]
    return next(iter(first), None)


def decisive(summary: Entry) -> tuple[Entry | None, Entry | None]:
    """The stage that the verdict comes from (a failing baseline first, else the last one), and its gravest
    gate."""
    bad = [stage for stage in summary["stages"] if stage["verdict"] == summary["verdict"]]
    if not bad or summary["verdict"] == "pass":
        return None, None
    # What an invalid stage says counts only where no valid one says it.
    bad = [stage for stage in bad if stage["validity"] == "valid"] or bad
    stage = next((one for one in bad if one["baseline"]), bad[-1])
    gates = [
        gate for gate in stage["gates"] if gate["verdict"] == summary["verdict"] and gate["level"] == "fail"
    ]
    clean = [gate for gate in gates if gate["metric"] == "speech.clean_share"]
    return stage, next(iter(clean or gates), None)


def baseline_failed(summary: Entry) -> bool:
    """Whether the voice does not live here even alone."""
    return any(stage["baseline"] and stage["verdict"] == "fail" for stage in summary["stages"])


def _compared(stage: Entry) -> list[str]:
    facts, pairs = [], 0
    for name, text in _COMPARED:
        entry = stage["vs_reference"].get(name, {})
        ratio = entry.get("ratio")
        if ratio is not None and ratio > 1.05:
            bounds = ""
            if entry.get("low") is not None and entry.get("high") is not None:
                bounds = f" ({entry['low']:.2g} to {entry['high']:.2g})"
            facts.append(f"{text} {ratio:.2g} times the baseline's{bounds}")
            pairs = entry["n"]
    return [*facts, f"{counted(pairs, 'pair')} of utterances compared"] if pairs else facts


def _gpu_facts(stage: Entry) -> list[str]:
    sm, canary = number(stage, "gpu.sm_percent.mean"), number(stage, "canary_ms.p99")
    facts = [] if canary is None else [f"GPU canary p99 {format_ms(canary)}"]
    return [*facts, f"SM use {sm:.0f} %"] if sm is not None else facts


def _beside(stage: Entry, cause: Entry) -> list[str]:
    """How many processes shared the GPU, and how little of it was in use all the same."""
    evidence, facts = cause["evidence"], []
    processes, longest = evidence.get("gpu_processes"), evidence.get("canary_longest_ms")
    if processes is not None and longest is not None and processes > 1:
        facts.append(f"the GPU switched between about {processes} processes (canary {format_ms(longest)})")
    sm = number(stage, "gpu.sm_percent.mean")
    if sm is not None:
        facts.append(f"SM use {'only ' if sm < _ONLY_PERCENT else ''}{sm:.0f} %")
    return facts
