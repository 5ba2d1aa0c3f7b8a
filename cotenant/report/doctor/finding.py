"""A finding: one line of `cotenant doctor`."""

from dataclasses import dataclass
from typing import Literal

from cotenant.report.doctor.facts import Trouble

Word = Literal["ok", "note", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line. `missing`: the scenario cannot run so; `advice`: a command or a sentence that mends it.

    `concerns`: whether a run of the scenario has to do with it.
    """

    topic: str
    word: Word
    text: str
    advice: str = ""
    concerns: bool = True


def told(topic: str, word: Word, trouble: Trouble) -> Finding:
    """A trouble as a finding."""
    return Finding(topic=topic, word=word, text=trouble.text, advice=trouble.advice)
