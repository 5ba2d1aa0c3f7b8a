"""JUnit XML: its structure, its counts, and that nothing looks greener than the exit code."""

import copy
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from cotenant.errors import ExitCode
from cotenant.report.junit import render
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import good_run

# Element -> its attributes (required), its children in order.
STRICT = {
    "testsuites": ({"name", "tests", "failures", "errors", "skipped", "time"}, ("testsuite",)),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, ("properties", "testcase")),
    "properties": (set(), ("property",)),
    "property": ({"name", "value"}, ()),
    "testcase": ({"classname", "name", "time"}, ("properties", "failure", "error", "system-out")),
    "failure": ({"type", "message"}, ()),
    "error": ({"type", "message"}, ()),
    "system-out": (set(), ()),
}


def checked(text: str) -> ET.Element:
    """The root, once everything keeps to the structure."""
    root = ET.fromstring(text.encode())
    for element in root.iter():
        attributes, children = STRICT[element.tag]
        assert set(element.attrib) == attributes, element.tag
        order = [children.index(child.tag) for child in element]
        assert order == sorted(order), element.tag
    suite = root.find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    for outer in (root, suite):
        assert outer.get("tests") == str(len(cases))
        assert outer.get("failures") == str(sum(case.find("failure") is not None for case in cases))
        assert outer.get("errors") == str(sum(case.find("error") is not None for case in cases))
    return root


def summary(**options: Any) -> dict[str, Any]:
    return judge(good_run(late_ms=1300.0, share=0.5).build(), JudgeOptions(**options))


def case_of(root: ET.Element, stage: str, name: str) -> ET.Element:
    found = [c for c in root.iter("testcase") if c.get("classname") == stage and name in str(c.get("name"))]
    assert len(found) == 1
    return found[0]


def test_a_case_for_each_gate_with_its_numbers() -> None:
    judged = summary()
    root = checked(render(judged))
    assert len(root.findall(".//testcase")) == sum(len(stage["gates"]) for stage in judged["stages"])
    case = case_of(root, "crowd", "speech.clean_share")
    assert case.get("name") == "speech.clean_share >= 95 % (voice)"
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["value"] == "0.5"
    assert properties["limit"] == "0.95"
    assert properties["n"] == "24"
    assert properties["margin"] == "-0.45"
    assert set(properties) >= {"low", "high"}
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == "fail"
    assert "50.0 %" in str(failure.get("message"))
    assert len(case_of(root, "alone", "speech.clean_share")) == 1


def test_inconclusive_is_an_error_and_no_skip() -> None:
    root = checked(render(summary(decision="interval")))
    case = case_of(root, "alone", "speech.ttfa_ms.p95")
    error = case.find("error")
    assert error is not None
    assert error.get("type") == "inconclusive"
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["high"] == "inf"


def test_a_warning_passes_with_a_note() -> None:
    judged = summary(gates=("speech.clean_share >= 95 %",))
    for stage in judged["stages"]:
        for gate in stage["gates"]:
            gate["level"] = "warn"
        stage["verdict"] = "pass"
    judged["verdict"] = "pass"
    root = checked(render(judged))
    case = case_of(root, "crowd", "clean_share")
    assert case.find("failure") is None
    note = case.findtext("system-out")
    assert note is not None
    assert note.startswith("warning, fail")
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


def test_an_invalid_stage_is_an_error_of_its_own() -> None:
    judged = summary()
    judged["stages"][1] |= {"validity": "invalid", "invalid_because": ["our own timing error", "and more"]}
    judged["validity"] = "invalid"
    case = case_of(checked(render(judged)), "crowd", "validity")
    error = case.find("error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("invalid", "our own timing error")
    assert "and more" in str(error.text)


def variants() -> list[tuple[str, dict[str, Any]]]:
    bad, good = summary(), judge(good_run().build(), JudgeOptions(decision="point"))
    unfinished = {**good, "status": "interrupted"}
    invalid = {**good, "validity": "invalid", "invalid_because": ["x"]}
    ungated = copy.deepcopy({**good, "verdict": "inconclusive", "verdict_because": "no gate was asked"})
    for stage in ungated["stages"]:
        stage["gates"] = []
    unmeasured = copy.deepcopy({**good, "verdict": "inconclusive"})
    unmeasured["stages"][1] |= {"verdict": "inconclusive", "gates": [], "why": {"verdict": "not measured"}}
    named = {
        "bad": bad, "good": good, "unfinished": unfinished, "invalid": invalid, "ungated": ungated,
        "unmeasured": unmeasured, "unsure": summary(decision="interval"),
    }  # fmt: skip
    return list(named.items())


@pytest.mark.parametrize(("name", "judged"), variants())
def test_green_only_where_the_exit_code_is_zero(name: str, judged: dict[str, Any]) -> None:
    root = checked(render(judged))
    green = root.get("failures") == root.get("errors") == "0"
    assert green == (exit_code(judged) == ExitCode.PASS), name


def test_hostile_names_are_text() -> None:
    judged = summary()
    name = 'a<b>&"\x00\x1b[31m\ud800\ufffe]]> \U0001f600'
    judged["scenario"] = judged["stages"][0]["name"] = name
    judged["run_id"] = "\x08"
    root = checked(render(judged).encode("utf-8").decode())
    found = {str(case.get("classname")) for case in root.iter("testcase")}
    shown = re.sub("[\x00\x1b\ud800\ufffe]", "\ufffd", name)
    assert shown in found
