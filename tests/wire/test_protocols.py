"""The tables of heads' and LLM servers' protocols: every name of a scenario, and how it was tried."""

from typing import get_args

import pytest

from cotenant.scenario.schema import PROTOCOLS
from cotenant.wire.protocols import FACES, LLMS, ServiceProtocol, Tested, protocol_fact
from cotenant.wire.speech_servers import SERVERS, SpeechServer

TABLES = {"face": FACES, "completions": LLMS}


@pytest.mark.parametrize("kind", TABLES)
def test_the_scenario_knows_every_row_and_no_other(kind: str) -> None:
    # A row may be a way to use it.
    assert PROTOCOLS[kind] == tuple(dict.fromkeys(name.partition(",")[0] for name in TABLES[kind]))


def test_what_met_neither_its_server_nor_bytes_of_it_is_experimental() -> None:
    rows: list[ServiceProtocol | SpeechServer] = [*FACES.values(), *LLMS.values(), *SERVERS.values()]
    assert {row.tested for row in rows} == set(get_args(Tested))
    for row in rows:
        assert row.how_tested
        assert row.experimental == (row.tested == "server of our tests")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, rows in TABLES.items() for name in rows])
def test_what_a_run_records_of_one(kind: str, name: str) -> None:
    row = TABLES[kind][name]
    protocol, _, watched = name.partition(", ")
    assert protocol_fact(kind, protocol, "none" if watched else "binary") == {
        "name": protocol, "title": row.title, "tested": row.tested, "how_tested": row.how_tested,
        "experimental": row.experimental,
    }  # fmt: skip


def test_mjpeg_is_tried_where_it_is_watched_alone() -> None:
    assert [protocol_fact("face", "mjpeg", send)["experimental"] for send in (None, "binary", "none")] == [
        True, True, False,
    ]  # fmt: skip
