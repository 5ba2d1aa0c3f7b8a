"""How long judging takes.

    python -m tests.bench.bench_judge [ten-minutes | hour]

`ten-minutes`: 16 voices, 4 faces, 64 LLM streams. `hour`: 256 voices, 64 faces, 13 million rows.
"""

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cotenant.records import TABLES, Recording
from cotenant.verdict.summary import JudgeOptions, judge, to_json
from tests.verdict.recordings import MS, SCENARIO, S

Ints = NDArray[np.int64]
Columns = dict[str, list[Any]]


def recording(
    *, minutes: int, voices: int, faces: int, llm: int, chunk_ms: int = 160, seed: int = 1
) -> Recording:
    """Two stages and the closing baseline share the time, all loads run in each of them; utterances of about
    5 s every 6 s."""
    generator = np.random.default_rng(seed)
    parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    length = minutes * 60 * S // 3
    next_id = [1_000_000, 2_000_000]
    for number, stage in enumerate(("alone", "crowd", "alone/again")):
        start = S + number * (length + 30 * S)
        parts["marks"].append(_marks(stage, start, start + length))
        streams, chunks = _speech(generator, stage, start, length, voices, chunk_ms, next_id)
        parts["streams"].append(streams)
        parts["chunks"].append(chunks)
        if faces:
            rows, frames = _faces(stage, streams, faces, next_id)
            parts["streams"].append(rows)
            parts["frames"].append(frames)
        if llm:
            rows, tokens = _llm(stage, start, length, llm, next_id)
            parts["streams"].append(rows)
            parts["tokens"].append(tokens)
    seconds = np.arange(0, minutes * 60 + 200, dtype=np.int64) * S
    for source in ("listeners", "askers"):
        for metric in ("offset_bracket_ns", "loop_lag_ns"):
            host = {"t": seconds, "source": source, "metric": metric, "value": np.full(len(seconds), 2e4)}
            parts["host"].append(_table("host", len(seconds), host))
    tables = {
        name: pa.concat_tables([TABLES[name].empty_table(), *rows]).combine_chunks()
        for name, rows in parts.items()
    }
    # As a run directory is read: which process wrote each row.
    writer = pa.repeat(pa.scalar("listeners"), tables["chunks"].num_rows).dictionary_encode()
    tables["chunks"] = tables["chunks"].append_column("writer", writer)
    scenario = {**SCENARIO, "gate": ["voice", "face"]}
    scenario["load"] = {**scenario["load"], "decode": {**scenario["load"]["decode"], "streams": max(1, llm)}}
    scenario["stages"] = [{**stage, "load": ["voices", "faces", "decode"]} for stage in SCENARIO["stages"]]
    manifest = {"run_id": "bench", "status": "complete", "scenario": scenario, "device": {"kind": "gpu"}}
    return Recording(manifest=manifest, tables=tables)


def _table(name: str, size: int, columns: Mapping[str, Any]) -> pa.Table:
    arrays = []
    for field in TABLES[name]:
        value = columns.get(field.name)
        if isinstance(value, np.ndarray):
            arrays.append(pa.array(value).cast(field.type))
        elif value is None:
            arrays.append(pa.nulls(size, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), size))
    return pa.table(arrays, schema=TABLES[name])


def _marks(stage: str, start: int, end: int) -> pa.Table:
    rows = [
        {"t": t, "what": what, "name": stage, "edge": edge}
        for t, what, edge in (
            (start - S, "stage", "start"),
            (start, "measure", "start"),
            (end, "measure", "end"),
            (end + S, "stage", "end"),
        )
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["marks"])


def _speech(
    generator: np.random.Generator,
    stage: str,
    start: int,
    length: int,
    voices: int,
    chunk_ms: int,
    ids: list[int],
) -> tuple[pa.Table, pa.Table]:
    turns = length // (6 * S)
    listener = np.repeat(np.arange(voices), turns)
    utterance = np.tile(np.arange(turns), voices)
    size = len(listener)
    stream = ids[0] + np.arange(size)
    ids[0] += size
    due = start + utterance * 6 * S + (listener * 37 * MS) % (5 * S)
    count = 5000 // chunk_ms
    seq = np.tile(np.arange(count), size)
    owner = np.repeat(np.arange(size), count)
    late = np.zeros(size * count, dtype=np.int64)
    if stage == "crowd":
        hit = generator.random(size) < 0.1
        late = np.where(hit[owner] & (seq >= count // 2), 900 * MS, 0)
    jitter = generator.integers(0, 20 * MS, size * count)
    arrival = due[owner] + 200 * MS + seq * chunk_ms * MS * 3 // 5 + jitter + late
    rows = {
        "stream": stream,
        "tenant": "tts",
        "load": "voices",
        "kind": "voices",
        "stage": stage,
        "round": np.zeros(size, dtype=np.int32),
        "listener": listener,
        "utterance": utterance,
        "due": due,
        "connected": due - 50 * MS,
        "sent": due + 20_000,
        "first_byte": due + 200 * MS,
        "done": arrival.reshape(size, count).max(axis=1) + MS,
        "delayed": np.zeros(size, dtype=np.int64),
        "end": "eos",
        "stamp": "kernel",
    }
    chunks = {
        "stream": stream[owner],
        "seq": seq,
        "arrival": arrival,
        "bytes": np.full(size * count, chunk_ms * 48),
        "media": np.full(size * count, chunk_ms * MS),
        "shared_read": np.zeros(size * count, dtype=np.bool_),
    }
    return _table("streams", size, rows), _table("chunks", size * count, chunks)


def _faces(stage: str, voices: pa.Table, faces: int, ids: list[int]) -> tuple[pa.Table, pa.Table]:
    listener = voices["listener"].to_numpy()
    keep = np.flatnonzero(listener < faces)
    due, utterance = voices["due"].to_numpy()[keep], voices["utterance"].to_numpy()[keep]
    size, count = len(keep), 125
    stream = ids[0] + np.arange(size)
    ids[0] += size
    seq, owner = np.tile(np.arange(count), size), np.repeat(np.arange(size), count)
    arrival = due[owner] + 400 * MS + seq * 38 * MS
    rows = {
        "stream": stream,
        "tenant": "head",
        "load": "faces",
        "kind": "faces",
        "stage": stage,
        "round": np.zeros(size, dtype=np.int32),
        "listener": listener[keep],
        "utterance": utterance,
        "due": due,
        "connected": due - 50 * MS,
        "sent": due + 20_000,
        "done": due + 6 * S,
        "end": "eos",
        "stamp": "user",
    }
    frames = {
        "stream": stream[owner],
        "seq": seq,
        "arrival": arrival,
        "media_time": seq * 40 * MS,
        "audio_handed": arrival - 150 * MS,
        "bytes": np.full(size * count, 4000),
        "shared_read": np.zeros(size * count, dtype=np.bool_),
    }
    return _table("streams", size, rows), _table("frames", size * count, frames)


def _llm(stage: str, start: int, length: int, streams: int, ids: list[int]) -> tuple[pa.Table, pa.Table]:
    """Each stream asks again and again for 400 tokens, 20 a second."""
    turns = length // (20 * S) + 1
    size, count = streams * turns, 400
    due = np.tile(start - S + np.arange(turns) * 20 * S, streams)
    stream = ids[1] + np.arange(size)
    ids[1] += size
    seq, owner = np.tile(np.arange(count), size), np.repeat(np.arange(size), count)
    rows = {
        "stream": stream,
        "tenant": "llm",
        "load": "decode",
        "kind": "completions",
        "stage": stage,
        "round": np.zeros(size, dtype=np.int32),
        "due": due,
        "connected": due - MS,
        "sent": due,
        "done": due + 20 * S,
        "end": "eos",
        "stamp": "kernel",
        "prompt_tokens": np.full(size, 128),
    }
    tokens = {
        "stream": stream[owner],
        "seq": seq,
        "arrival": due[owner] + 30 * MS + seq * 49 * MS,
        "tokens": np.ones(size * count, dtype=np.int32),
        "shared_read": np.zeros(size * count, dtype=np.bool_),
    }
    return _table("streams", size, rows), _table("tokens", size * count, tokens)


def time_judge(name: str, **sizes: int) -> None:
    """Prints rows, seconds and the peak of memory."""
    run = recording(**sizes)
    rows = sum(table.num_rows for table in run.tables.values())
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decisions: tuple[Literal["point", "interval"], ...] = ("point", "interval")
    for decision in decisions:
        begin, used = time.perf_counter(), time.process_time()
        summary = judge(run, JudgeOptions(decision=decision))
        took, used = time.perf_counter() - begin, time.process_time() - used
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{name}, {decision}: {rows:,} rows judged in {took:.2f} s ({used:.2f} s of CPU); "
            f"peak {peak_kib / 2**20:.2f} GiB ({before_kib / 2**20:.2f} before), "
            f"summary {len(to_json(summary)):,} bytes, {summary['verdict']}"
        )


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "ten-minutes"
    if what == "hour":
        time_judge(what, minutes=60, voices=256, faces=64, llm=16, chunk_ms=100)
    else:
        time_judge(what, minutes=10, voices=16, faces=4, llm=64)


if __name__ == "__main__":
    main()
