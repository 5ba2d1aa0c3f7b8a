"""A judged run as JUnit XML: one test case a gate, and nothing green that the exit code does not call so."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, Final

from cotenant.report.gate_words import number_of, sentence, title
from cotenant.report.text import could_not_run, run_word
from cotenant.report.why import first_cause

# What XML 1.0 cannot hold, not even escaped.
_UNSPEAKABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUMBERS: Final = ("value", "low", "high", "margin")


def render(summary: Mapping[str, Any]) -> str:
    """The XML text of one `testsuites` with one `testsuite`; class names are stages.

    A failed gate is a `failure`; one that is inconclusive an `error` of that type (a skip would look green);
    one of level `warn` passes, with a note. An invalid stage, a stage without a verdict and a run that is not
    complete are errors of their own, what a run failed by the first; of one that failed before anything was
    measured it is the only case. The property `verdict` is that of the exit code.
    """
    root = ET.Element("testsuites", name="cotenant")
    suite = ET.SubElement(root, "testsuite", name=_clean(summary["scenario"]))
    _properties(
        suite,
        {
            **{key: summary.get(key) for key in ("run_id", "status", "validity", "decision", "lookahead_ms")},
            "verdict": run_word(summary).lower().replace(" ", "_"),
        },
    )
    if summary["status"] != "complete":
        _unfinished(suite, summary)
    if not could_not_run(summary):
        for stage in summary["stages"]:
            _stage(suite, stage)
        _run(suite, summary)
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": 0,
    }
    for element in (suite, root):
        for name, count in counts.items():
            element.set(name, str(count))
        element.set("time", "0")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _stage(suite: ET.Element, stage: Mapping[str, Any]) -> None:
    name = str(stage["name"])
    cause = first_cause(stage)
    for gate in stage["gates"]:
        _gate(suite, name, gate, cause)
    if stage["validity"] != "valid":
        reasons = "\n".join(map(str, stage.get("invalid_because") or ())) or "the stage is invalid"
        _error(suite, name, "validity", "invalid", reasons)
    judged = [gate["verdict"] for gate in stage["gates"] if gate.get("level") != "warn"]
    if stage["verdict"] != "pass" and stage["verdict"] not in judged:
        reason = (stage.get("why") or {}).get("verdict") or f"the stage is {stage['verdict']}"
        _error(suite, name, "verdict", str(stage["verdict"]), str(reason))


def _gate(suite: ET.Element, stage: str, gate: Mapping[str, Any], cause: str | None) -> None:
    case = _case(suite, stage, title(gate))
    numbers = {key: number_of(gate, key) for key in _NUMBERS}
    level = gate.get("level", "fail")
    _properties(case, {**numbers, "n": gate.get("n"), "limit": gate["limit"], "level": level})
    verdict, found = str(gate["verdict"]), sentence(gate)
    if verdict == "pass":
        return
    if level == "warn":
        _text(ET.SubElement(case, "system-out"), f"warning, {verdict}: {found}")
        return
    kind = "failure" if verdict == "fail" else "error"
    why = f"\nwhy: {cause}" if cause is not None else ""
    _text(ET.SubElement(case, kind, type=verdict, message=_clean(found)), f"{title(gate)}\n{found}{why}")


def _unfinished(suite: ET.Element, summary: Mapping[str, Any]) -> None:
    name, error = str(summary["scenario"]), summary.get("error")
    if error:
        _error(suite, name, "run", "could_not_run" if could_not_run(summary) else "failed", str(error))
    else:
        _error(suite, name, "status", "inconclusive", f"the run is not complete: {summary['status']}")


def _run(suite: ET.Element, summary: Mapping[str, Any]) -> None:
    """What no stage tells."""
    name = str(summary["scenario"])
    red = suite.find("testcase/failure") is not None or suite.find("testcase/error") is not None
    if not red and (summary["verdict"] != "pass" or summary["validity"] != "valid"):
        reasons = summary.get("invalid_because") or [summary.get("verdict_because") or "no gate was judged"]
        kind = "invalid" if summary["validity"] != "valid" else str(summary["verdict"])
        _error(suite, name, "verdict", kind, "\n".join(map(str, reasons)))


def _case(suite: ET.Element, stage: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_clean(stage), name=_clean(name), time="0")


def _error(suite: ET.Element, stage: str, name: str, kind: str, text: str) -> None:
    case = _case(suite, stage, name)
    message = text.splitlines()[0] if text else name
    _text(ET.SubElement(case, "error", type=_clean(kind), message=_clean(message)), text)


def _properties(parent: ET.Element, values: Mapping[str, Any]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        text = "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)
        ET.SubElement(properties, "property", name=name, value=_clean(text))


def _text(element: ET.Element, text: str) -> None:
    element.text = _clean(text)


def _clean(text: object) -> str:
    return _UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", str(text))
