"""Words of reports: counts with their nouns."""

import pytest

from cotenant.units import counted


@pytest.mark.parametrize(("count", "said"), [(0, "0 faces"), (1, "1 face"), (2, "2 faces")])
def test_only_one_is_no_plural(count: int, said: str) -> None:
    assert counted(count, "face") == said


def test_a_plural_of_its_own() -> None:
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
