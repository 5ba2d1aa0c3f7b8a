"""What a person sees at the end of a run: heading, table, why, mend, verdict."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cotenant.report.elsewhere import none_here
from cotenant.report.gate_words import short_sentence
from cotenant.report.gpu import gpu_lines
from cotenant.report.notes import notes, stages_named
from cotenant.report.table import table_lines
from cotenant.report.text import could_not_run, error_text, run_word, safe
from cotenant.report.why import baseline_failed, decisive, why_lines
from cotenant.units import counted, format_ms, format_share
from cotenant.verdict.caveats import crowded
from cotenant.verdict.failures import decided_by
from cotenant.verdict.gates import worst
from cotenant.verdict.plan import away_of

Entry = Mapping[str, Any]
LABEL: Final = 7
NARROWEST: Final = 40


def render(summary: Entry, manifest: Entry, width: int) -> str:
    """The whole text, lines of at most `width` columns (names longer than that are cut), no colour, no
    markup."""
    width = max(NARROWEST, width)
    lines = [*_wrapped(heading(summary, manifest), width), ""]
    lines += [*table_lines(summary["stages"], width), ""]
    if watched := gpu_lines(summary["stages"], width):
        lines += [*watched, ""]
    for label, texts in (
        ("note", notes(summary, manifest)),
        ("why", why_lines(summary)),
        ("mend", mend_lines(summary)),
    ):
        lines += _labelled(label, texts, width)
    word, sentence = verdict_line(summary)
    lines += _labelled(word, [sentence], width)
    return "\n".join(lines) + "\n"


def verdict_line(summary: Entry) -> tuple[str, str]:
    """The verdict in one word, that of the exit code, and one sentence."""
    word = run_word(summary)
    if could_not_run(summary):
        return word, error_text(summary)
    how = "" if summary["decision"] == "interval" else "; decided by point estimates"
    return word, _verdict_sentence(summary, word) + how


def _verdict_sentence(summary: Entry, word: str) -> str:
    if word == "INVALID":
        because = summary["invalid_because"]
        more = f" (and {len(because) - 1} more)" if len(because) > 1 else ""
        return f"{safe(because[0])}{more}; {_what_counts(summary)}"
    if summary["verdict"] == "pass":
        passed = _passed(summary)
        if error := error_text(summary):
            passed += f", but the run failed: {error}"
        elif word != "PASS":
            passed += f", but the run is {safe(summary['status'])}"
        return passed
    if word == "INCONCLUSIVE" and (error := error_text(summary)):
        return f"the run failed before all of it was measured: {error}"
    stage, gate = decisive(summary)
    if stage is None:
        return safe(summary.get("verdict_because") or "no gate was asked")
    first = f"{safe(summary['verdict_because'])}: " if summary.get("verdict_because") else ""
    if gate is None:
        reason = stage.get("why", {}).get("verdict", "nothing was measured")
        return f"{first}{safe(stage['name'])}: {safe(reason)}"
    others = [one for one in stage["gates"] if one["verdict"] == gate["verdict"] and one is not gate]
    also = f"; {counted(len(others), 'more gate')} of this stage" if others else ""
    # Of a baseline that fails it is said with the first.
    meanwhile = crowded(stage["caveats"]) if word == "FAIL" and not stage["baseline"] else ""
    gate_text = ", ".join(filter(None, (short_sentence(gate), meanwhile)))
    return f"{first}{safe(stage['name'])}: {gate_text}{also}"


def _what_counts(summary: Entry) -> str:
    """What an INVALID run still says."""
    invalid = [stage for stage in summary["stages"] if stage["validity"] == "invalid"]
    rest = [str(stage["verdict"]) for stage in summary["stages"] if stage["validity"] == "valid"]
    if not rest or any(stage["baseline"] for stage in invalid):
        return "nothing that the table says counts" + (", for the baseline does not" if rest else "")
    names = stages_named([stage["name"] for stage in invalid])
    alone = "the other stage alone is" if len(rest) == 1 else "the other stages alone are"
    return f"what the table says of {names} does not count; {alone} {worst(rest).upper()}"


def heading(summary: Entry, manifest: Entry) -> str:
    """What ran on what, and by which player it was judged."""
    device = manifest.get("device") if isinstance(manifest.get("device"), Mapping) else {}
    machine = safe((device or {}).get("name") or "an unknown device", 80)
    parts = [f"{safe(summary['scenario'], 80)} {'from' if none_here(summary) else 'on'} {machine}"]
    if away := away_of(manifest):
        parts.append(f"{safe(', '.join(away), 80)} on another machine")
    counts = _planned(manifest)
    parts += [counted(count, what) for count, what in counts if count]
    start = summary["player"]["start"]
    parts.append(f"lookahead {format_ms(summary['lookahead_ms'])} ({safe(start)})")
    if summary["player"]["after_underrun"] != "resume":
        parts.append(f"after an underrun {safe(summary['player']['after_underrun'])}")
    return ", ".join(parts)


def _planned(manifest: Entry) -> list[tuple[int, str]]:
    scenario = manifest.get("scenario")
    loads = scenario.get("load", {}) if isinstance(scenario, Mapping) else {}
    found = []
    for kind, what in (("voices", "voice"), ("faces", "face")):
        numbers = [load.get("listeners", 1) for load in loads.values() if load.get("kind") == kind]
        found.append((sum(n for n in numbers if isinstance(n, int)), what))
    return found


def mend_lines(summary: Entry) -> list[str]:
    """A lookahead only where this recording proves it; anything else is untried."""
    stage, _ = decisive(summary)
    if stage is None or stage["verdict"] != "fail":
        return []
    lines = []
    mend = stage.get("mend")
    if mend is not None and mend["lookahead_ms"] is None:
        lines.append(safe(mend["why"]["lookahead_ms"]))
    elif mend is not None:
        playback = format_ms(mend["time_to_playback_p95_ms"])
        gates = f"every gate of {safe(stage['name'])} passes"
        clean = f"{format_share(mend['clean_share'])} of the utterances of {safe(stage['name'])} are clean"
        if left_out := mend.get("left_out"):
            came = counted(stage["speech"]["streams"] - left_out, "utterance")
            gates, clean = f"{gates} for the {came} that came", f"{clean} among the {came} that came"
        said = f"with a lookahead of {mend['lookahead_ms']:g} ms {clean if mend['breaks'] else gates}"
        said += f", playback then starts at {playback} (p95)"
        if mend["breaks"]:
            shown = ", ".join(safe(text) for text in mend["breaks"][:2])
            more = f" and {len(mend['breaks']) - 2} more" if len(mend["breaks"]) > 2 else ""
            fails = "fails" if len(mend["breaks"]) == 1 else "fail"
            said += f", but that is no cure: {shown}{more} {fails}"
        if mend["slower_share"] >= 0.5:
            said += "; the voice is made slower than real time, so longer texts need more"
        lines.append(said)
    if not baseline_failed(summary) and stage.get("untried") and decided_by(stage) is None:
        lines.append(f"untried: {'; '.join(map(safe, stage['untried']))}")
    return lines


def _passed(summary: Entry) -> str:
    """What passed; a warning that did not is among the notes."""
    gates = [gate for stage in summary["stages"] for gate in stage["gates"]]
    fatal = [gate for gate in gates if gate["level"] == "fail"]
    judged = sum(bool(stage["gates"]) for stage in summary["stages"])
    if not fatal:
        held = sum(gate["verdict"] == "pass" for gate in gates)
        return f"nothing that was asked can fail; {held} of {counted(len(gates), 'warning')} held"
    count = "the only gate" if len(fatal) == 1 else f"all {len(fatal)} gates"
    return f"{count} of {counted(judged, 'stage')} passed"


def _labelled(label: str, texts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    # A longer word than the others' column still has a space behind it.
    indent = max(LABEL, len(label) + 2)
    for text in texts:
        lead = label if not lines else ""
        wrapped = textwrap.wrap(text, width - indent, break_long_words=True, break_on_hyphens=False) or [""]
        lines.append(f"{lead:<{indent}}{wrapped[0]}")
        lines += [f"{'':<{indent}}{rest}" for rest in wrapped[1:]]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
