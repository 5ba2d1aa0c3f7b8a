"""The words that stand in the tables of recorded runs are those that `records` names."""

from pathlib import Path

import pytest

from cotenant.records import ENDS, ERROR_KINDS, LOAD_KINDS, MARKS
from cotenant.resources import data_dir
from cotenant.run_dir.reader import read

WORDS = {
    ("streams", "end"): ENDS,
    ("streams", "error_kind"): ERROR_KINDS,
    ("streams", "kind"): LOAD_KINDS,
    ("marks", "what"): MARKS,
}
RUNS = sorted(path.parent for path in data_dir("fixtures").glob("runs/*/manifest.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_no_other_word_is_recorded(run: Path) -> None:
    tables = read(run).tables
    for (table, column), known in WORDS.items():
        found = set(tables[table][column].unique().to_pylist()) - {None}
        assert found <= set(known), f"{table}.{column}"
    assert set(tables["streams"]["kind"].to_pylist()) == set(LOAD_KINDS)
