"""How the typed summary shows itself: short, for a debugger and the message of a failed test. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cotenant.verdict.typed import Stage, Summary

LONGEST: Final = 110  # pytest cuts what is longer than 240 characters
_NUMBERS: Final = {
    "Speech": ("streams", "failed", "underruns", "clean_share"),
    "Face": ("streams", "failed", "freezes", "fps_p5"),
    "Llm": ("finished", "open", "failed", "tokens_per_s"),
}


class Brief:
    """What loads got: of its many figures only the first that one looks at."""

    __slots__ = ()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({', '.join(f'{key}={getattr(self, key)!r}' for key in _NUMBERS[name])}, ...)"


def shown(kind: str, what: str, **said: str) -> str:
    """`Stage('crowd', verdict='fail', because='...')`; what is empty is left out."""
    parts = [f"{key}={cut(text)!r}" for key, text in said.items() if text]
    return f"{kind}({', '.join([repr(what), *parts])})"


def cut(text: str, longest: int = LONGEST) -> str:
    """The beginning, with an ellipsis where that is not all."""
    return text if len(text) <= longest else text[: longest - 3].rstrip() + "..."


def stage(one: "Stage") -> str:
    """Verdict, validity, and the first reason against it."""
    because = one.invalid_because[0] if one.invalid_because else _gate(one.raw["gates"], one.verdict)
    because = because or str(one.why.get("verdict", ""))
    return shown("Stage", one.name, verdict=one.verdict, validity=one.validity, because=because)


def summary(one: "Summary") -> str:
    """The same of a run, or in which stages it came to that."""
    because = one.error or "".join(one.invalid_because[:1]) or one.verdict_because
    if not because and one.verdict != "pass":
        because = ", ".join(stage.name for stage in one.stages if stage.verdict == one.verdict)
    return shown("Summary", one.run_id, verdict=one.verdict, validity=one.validity, because=because)


def _gate(gates: Sequence[Mapping[str, Any]], verdict: str) -> str:
    """The first gate that a verdict comes of, in figures; empty where it needs no reason."""
    for gate in gates:
        if gate["verdict"] == verdict != "pass" and gate["level"] == "fail":
            why = gate["why"].get("verdict") or gate["why"].get("value")
            value = gate["why"].get("value") if gate["value"] is None else f"{gate['value']:.4g}"
            told = f"{gate['metric']} {value}, {gate['op']} {gate['limit']:g} asked"
            return told if verdict == "fail" or not why else f"{gate['metric']}: {why}"
    return ""
