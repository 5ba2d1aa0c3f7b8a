"""The tables of a run for other tools, as CSV and Parquet: those recorded, and what was heard of the voices.

Times are int64 ns of the host's CLOCK_MONOTONIC (`t_ns`, `due_ns`, ...) or lengths in ns; every name ends in
its unit where it has one. What is not known is null: an empty cell in CSV, where text that is there but
empty is `""`. File names are the tables' names and nothing else.

CSV: a text that a spreadsheet would take for a formula (it begins with = + - @, a tab or a carriage return)
gets an apostrophe before it; numbers, and everything in Parquet, are as recorded.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from cotenant.playback.options import PlayerOptions
from cotenant.records import TABLES, Recording
from cotenant.report.heard_tables import underruns_table, utterances_table
from cotenant.units import ms_from_ns
from cotenant.verdict import columns

ReadAudio = Callable[[int], bytes | None]

_FORMULA: Final = r"^[=+\-@\t\r]"
# Columns as recorded -> their names with the unit.
_NAMES: Final[Mapping[str, str]] = {
    **{
        name: f"{name}_ns"
        for name in (
            "due", "connected", "sent", "first_byte", "done", "delayed", "arrival", "media", "media_time",
            "audio_handed", "t", "t0", "t1", "latency", "leading_silence",
        )
    },
    "bytes": "size_bytes",
    "audio_offset": "audio_offset_bytes",
}  # fmt: skip


def export_tables(
    recording: Recording, options: PlayerOptions, read_audio: ReadAudio | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """(Name, table) of each table of the run, then `utterances` and `underruns` as that player hears them.

    With `read_audio` (stream -> its samples, None if not kept) each underrun says whether it cut into speech.
    """
    for name in TABLES:
        recorded = columns.table(recording, name)
        yield name, recorded.rename_columns([_NAMES.get(column, column) for column in recorded.column_names])
    yield "utterances", utterances_table(recording, options)
    yield "underruns", underruns_table(recording, options, read_audio)


def csv_files(
    recording: Recording, options: PlayerOptions, read_audio: ReadAudio | None = None
) -> Iterator[tuple[str, bytes]]:
    """(File name, content) of each table as CSV: UTF-8, a header, commas, line feeds."""
    for name, table in export_tables(recording, options, read_audio):
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(_plain(table), sink)
        yield f"{name}.csv", sink.getvalue().to_pybytes()


def parquet_files(
    recording: Recording, options: PlayerOptions, read_audio: ReadAudio | None = None
) -> Iterator[tuple[str, bytes]]:
    """(File name, content) of each table as Parquet; the run and the player are in the file's metadata."""
    about = {
        "cotenant.run_id": str(recording.manifest.get("run_id", "")),
        "cotenant.lookahead_ms": str(ms_from_ns(options.lookahead_ns)),
        "cotenant.start": options.start,
        "cotenant.after_underrun": options.after_underrun,
    }
    for name, table in export_tables(recording, options, read_audio):
        sink = pa.BufferOutputStream()
        told = {key: value.encode(errors="backslashreplace") for key, value in about.items()}
        pyarrow.parquet.write_table(table.replace_schema_metadata(told), sink, compression="zstd")
        yield f"{name}.parquet", sink.getvalue().to_pybytes()


def _plain(table: pa.Table) -> pa.Table:
    """Text that a spreadsheet cannot run."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
            text = table.column(place).cast(pa.string())
            harmful: Any = pc.match_substring_regex(text, _FORMULA)
            quoted = pc.binary_join_element_wise("'", text, "")
            table = table.set_column(place, field.name, pc.if_else(harmful, quoted, text))
    return table
