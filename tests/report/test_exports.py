"""Exports: nothing lost on the way, the same figures as the verdict, and no formula from outside."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cotenant.playback.options import PlayerOptions
from cotenant.records import TABLES, Recording
from cotenant.report.exports import csv_files, export_tables, parquet_files
from cotenant.run_dir.reader import read, read_audio
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import judge
from tests.report.sounds import write_voice_run
from tests.verdict.recordings import MS, Builder, S, good_run

NAMES = [*TABLES, "utterances", "underruns"]


def options(lookahead_ms: int = 400) -> PlayerOptions:
    return PlayerOptions(lookahead_ns=lookahead_ms * MS)


@pytest.fixture(scope="module")
def crowd() -> Recording:
    """Half of the crowd's utterances stall; one fails, one has no audio, one settles before the window."""
    builder = good_run(late_ms=1300.0, share=0.5, utterances=6, seconds=30)
    builder.voice(
        "crowd", 55 * S, [200.0, 300.0], [100.0, 100.0], end="truncated", done_ms=5000.0, utterance=90
    )
    builder.voice("crowd", 56 * S, [], [], end="error", utterance=91)
    builder.voice("crowd", 49 * S, [200.0], [100.0], utterance=92)
    return builder.build()


def frame(recording: Recording, name: str, lookahead_ms: int = 400) -> pd.DataFrame:
    table: pd.DataFrame = dict(export_tables(recording, options(lookahead_ms)))[name].to_pandas()
    return table


def test_every_table_is_there_with_every_row_and_a_unit_in_its_times(crowd: Recording) -> None:
    tables = dict(export_tables(crowd, options()))
    assert list(tables) == NAMES
    for name in TABLES:
        recorded = crowd.tables[name]
        assert tables[name].num_rows == recorded.num_rows
        assert [column.to_pylist() for column in tables[name].columns] == [
            column.to_pylist() for column in recorded.columns
        ]
    times = {field.name for table in tables.values() for field in table.schema if field.name.endswith("_ns")}
    assert times >= {"due_ns", "sent_ns", "arrival_ns", "media_ns", "t_ns", "t0_ns", "latency_ns", "start_ns"}
    assert all(
        field.type == pa.int64() for table in tables.values() for field in table.schema if field.name in times
    )
    without = {"due", "sent", "arrival", "media", "t", "t0", "latency", "bytes", "done", "delayed"}
    assert not without & {field.name for table in tables.values() for field in table.schema}


@pytest.mark.parametrize("lookahead_ms", [400, 1500])
def test_the_utterances_give_the_figures_of_the_verdict(crowd: Recording, lookahead_ms: int) -> None:
    voices = frame(crowd, "utterances", lookahead_ms)
    stalls = frame(crowd, "underruns", lookahead_ms)
    summary = judge(crowd, JudgeOptions(lookahead_ns=lookahead_ms * MS, gates=("voice",)))
    assert len(voices) == sum(kind == "voices" for kind in crowd.tables["streams"]["kind"].to_pylist())
    for stage in summary["stages"]:
        speech = stage["speech"]
        own = voices[voices["measured"] & (voices["stage"] == stage["name"])]
        assert len(own) == speech["streams"]
        assert own["clean"].mean() == pytest.approx(speech["clean_share"], abs=1e-4)
        assert own["underruns"].sum() == speech["underruns"]
        assert (stalls["measured"] & (stalls["stage"] == stage["name"])).sum() == speech["underruns"]
        assert own["stall_total_ns"].sum() / MS == pytest.approx(speech["stall_ms"]["total"])
        assert own["stall_longest_ns"].max() / MS == pytest.approx(speech["stall_ms"]["longest"])
        heard = own["heard_ns"].sum()
        stall = own["stall_total_ns"].sum()
        assert stall / (stall + heard) == pytest.approx(speech["stall_ratio"], abs=1e-4)
        for name, scale in (("ttfa", MS), ("time_to_playback", MS), ("chunk_gap_max", MS), ("rtf", 1)):
            column = name if name == "rtf" else f"{name}_ns"
            path = name if name == "rtf" else f"{name}_ms"
            # Nearest rank; what never came counts as infinite.
            values = sorted((own[column] / scale).dropna())
            lacking = int(own["chunks"].eq(0).sum()) if name in ("ttfa", "time_to_playback") else 0
            rank = -(-(len(values) + lacking) // 2) - 1
            assert values[rank] == pytest.approx(speech[path]["p50"], abs=1e-3)
    assert set(voices.loc[~voices["measured"], "utterance"]) == {92}


def test_what_never_came_is_null_and_not_zero(crowd: Recording) -> None:
    voices = frame(crowd, "utterances").set_index("utterance")
    silent, cut = voices.loc[91], voices.loc[90]
    assert (silent["chunks"], silent["clean"]) == (0, False)
    lacking = ["ttfa_ns", "playback_start_ns", "stall_total_ns", "headroom_ns", "rtf", "c100", "underruns"]
    assert all(pd.isna(silent[name]) for name in lacking)
    assert not cut["clean"]
    assert pd.isna(cut["playback_start_ns"])  # 200 ms of audio never filled the buffer
    assert cut["required_lookahead_ns"] > 0
    first = voices.iloc[0]
    assert bool(first["headroom_unlimited"]) == pd.isna(first["headroom_ns"])


def test_underruns_name_their_voice_and_what_they_cut(tmp_path: Path) -> None:
    write_voice_run(tmp_path / "run", [[(100.0, 2400), (300.0, 2400), (500.0, 2400)], [(100.0, 2400)]])
    recording = read(tmp_path / "run")
    tables = dict(
        export_tables(recording, options(0), lambda stream: read_audio(tmp_path / "run", recording, stream))
    )
    rows = tables["underruns"].to_pylist()
    assert [(row["stream"], row["number"], row["duration_ns"] // MS) for row in rows] == [
        (1_000_001, 0, 100),
        (1_000_001, 1, 100),
    ]
    assert [row["in_speech"] for row in rows] == [True, True]
    assert [row["since_previous_ns"] for row in rows] == [None, 100 * MS]
    plain = dict(export_tables(recording, options(0)))["underruns"].to_pylist()
    assert [row["in_speech"] for row in plain] == [None, None]


def test_parquet_gives_the_same_tables_back(crowd: Recording) -> None:
    files = dict(parquet_files(crowd, options()))
    assert list(files) == [f"{name}.parquet" for name in NAMES]
    assert files == dict(parquet_files(crowd, options()))
    for name, table in export_tables(crowd, options()):
        back = pyarrow.parquet.read_table(io.BytesIO(files[f"{name}.parquet"]))
        assert back.schema.metadata[b"cotenant.lookahead_ms"] == b"400.0"
        assert back.replace_schema_metadata(None).equals(table)


def test_csv_gives_the_same_values_back(crowd: Recording) -> None:
    files = dict(csv_files(crowd, options()))
    assert list(files) == [f"{name}.csv" for name in NAMES]
    for name, table in export_tables(crowd, options()):
        back = pyarrow.csv.read_csv(
            io.BytesIO(files[f"{name}.csv"]),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={field.name: field.type for field in table.schema},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        assert back.equals(table), name


FORMULAS = ['=cmd|"/C calc"!A0', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_formula_from_outside_reaches_a_spreadsheet(text: str) -> None:
    builder = Builder()
    builder.voice("alone", 0, [0.0, 500.0], [100.0, 100.0], error=text)
    for row in builder.rows["streams"]:
        row["stage"] = text
    builder.rows["host"].append({"t": 0, "source": text, "metric": "x", "value": -1.5})
    recording = builder.build()
    files = dict(csv_files(recording, options(0)))
    read_back = {
        name: pd.read_csv(io.BytesIO(files[f"{name}.csv"]))
        for name in ("streams", "host", "utterances", "underruns")
    }
    for name, column in (
        ("streams", "error"),
        ("utterances", "stage"),
        ("underruns", "stage"),
        ("host", "source"),
    ):
        assert read_back[name][column].tolist() == ["'" + text], name
    assert read_back["host"]["value"].tolist() == [-1.5]
    table = dict(export_tables(recording, options(0)))["streams"]
    assert table["error"].to_pylist() == [text]


def test_text_that_is_harmless_stays() -> None:
    builder = Builder()
    texts: list[Any] = ["", None, 'a "b", c\nd', "1-2=3", "héllo \u202e", "'=1"]
    for text in texts:
        builder.voice("alone", 0, [0.0], [100.0], error=text)
    data = dict(csv_files(builder.build(), options()))["streams.csv"]
    back = pyarrow.csv.read_csv(
        io.BytesIO(data),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={"error": pa.string()}, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert back["error"].to_pylist() == texts


def test_a_run_of_nothing_has_empty_tables_with_headers() -> None:
    files = dict(csv_files(Builder().build(), options()))
    assert list(files) == [f"{name}.csv" for name in NAMES]
    for data in files.values():
        assert data.count(b"\n") == 1
    assert all(
        pyarrow.parquet.read_table(io.BytesIO(data)).num_rows == 0
        for _, data in parquet_files(Builder().build(), options())
    )
