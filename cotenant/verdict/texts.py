"""Which text an utterance says, so that utterances of the same text can be compared."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cotenant.scenario.schema import Scenario, Voices
from cotenant.verdict.columns import Ints, Streams

# The last texts of a list are kept for settling; a list too short to be split serves both.
SETTLING_TEXTS: Final = 6
BUILTIN_TEXTS: Final = 26
_STEP: Final = 7


def measured_texts(text: str | Sequence[str]) -> int:
    """How many different texts the measured utterances of such a load say in turn."""
    count = BUILTIN_TEXTS if isinstance(text, str) else sum(1 for line in text if line.strip())
    return count - SETTLING_TEXTS if count > SETTLING_TEXTS else count


def text_numbers(scenario: Scenario, streams: Streams) -> Ints:
    """For each stream the number of its text, the same for the same text of a load and different for all
    others; -1 where that is not known (settling, no utterance, no voice)."""
    numbers = np.full(len(streams), -1, dtype=np.int64)
    first = 0
    for name, load in scenario.load.items():
        if not isinstance(load, Voices) or not (count := measured_texts(load.text)):
            continue
        counted = (streams.load == name) & (streams.listener >= 0) & (streams.utterance >= 0)
        numbers[counted] = first + (streams.listener[counted] * _STEP + streams.utterance[counted]) % count
        first += count
    return numbers
