"""Which text an utterance says: as the load processes choose it."""

import numpy as np
import pytest

from cotenant.conductor.load_spec import split_texts
from cotenant.load.pacing import text_line
from cotenant.scenario.load import parse
from cotenant.verdict.columns import read_streams
from cotenant.verdict.texts import measured_texts, text_numbers
from tests.verdict.recordings import Builder, S

LISTS = ["builtin", ["a"], ["a", "b", "c", "d", "e", "f"], ["a", " ", "b"], [f"t{n}" for n in range(30)]]


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize("long", [False, True])
def test_as_many_texts_as_the_load_says(text: str | list[str], long: bool) -> None:
    assert measured_texts(text) == len(split_texts(text, long=long)["measured"])


def test_numbers_are_those_of_the_lines() -> None:
    builder = Builder()
    builder.scenario["load"]["voices"]["text"] = [f"t{n}" for n in range(17)]
    builder.scenario["load"]["others"] = {**builder.scenario["load"]["voices"], "text": "builtin"}
    builder.scenario["stages"][1]["load"].append("others")
    said = [(listener, utterance) for listener in range(5) for utterance in range(-1, 12)]
    for listener, utterance in said:
        builder.voice("alone", 10 * S, [1], [1], listener=listener, utterance=utterance)
    for row in list(builder.rows["streams"]):
        builder.stream(3_000_000, **{**row, "load": "others", "stream": row["stream"] + 2_000_000})
    streams = read_streams(builder.build())
    numbers = text_numbers(parse(builder.scenario), streams)
    for load, count in (("voices", 11), ("others", 20)):
        own = streams.load == load
        lines = [text_line(v, k, count) if k >= 0 else -1 for v, k in said]
        first = numbers[own].max() - count + 1
        assert (np.where(numbers[own] < 0, -1, numbers[own] - first)).tolist() == lines
    assert not set(numbers[streams.load == "voices"]) & set(numbers[streams.load == "others"]) - {-1}
