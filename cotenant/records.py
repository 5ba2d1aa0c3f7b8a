"""The tables of a run directory, their columns and the words that may stand in them.

All times are int64 nanoseconds of this host's CLOCK_MONOTONIC; a column is null where nothing is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cotenant.units import NS_PER_MS

SCHEMA_VERSION: Final = 1

ENDS: Final = ("eos", "truncated", "error", "aborted", "open")
ERROR_KINDS: Final = (
    "dns", "refused", "tls", "timeout", "unauthorized", "forbidden", "not_found", "rate_limited",
    "overloaded", "server_error", "protocol", "in_stream", "truncated", "empty",
)  # fmt: skip
LOAD_KINDS: Final = ("voices", "faces", "completions")
MARKS: Final = ("stage", "settle", "measure", "drain", "tenant", "fault")

WARM_STAGE: Final = "warm"
SOLO_PREFIX: Final = "solo:"
AGAIN_SUFFIX: Final = "/again"
# The fault `not-run:<stage>`: a window that was left out; manifest.json has the reason under `not_run`.
NOT_RUN: Final = "not-run:"

# A stream's id is the index of its load process times this, plus its number there.
STREAMS_PER_PROCESS: Final = 1_000_000
# How often a load process looks at its loop's lag: a shorter stand-still may go unseen.
LAG_PERIOD_NS: Final = 5 * NS_PER_MS


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_I, _F, _S, _B, _N = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.int32()

TABLES: Final[Mapping[str, pa.Schema]] = {
    # One row when the request is sent and one at its end; the last wins. `stream` is unique in the run.
    "streams": _schema(
        stream=_I, tenant=_S, load=_S, kind=_S, stage=_S, round=_N, listener=_N, utterance=_N, due=_I,
        connected=_I, sent=_I, first_byte=_I, done=_I, delayed=_I, end=_S, error_kind=_S, error=_S,
        status=_N, bytes=_I, rate_hz=_N, sample_format=_S, prompt_tokens=_I, output_tokens=_I, stamp=_S,
        leading_silence=_I,
    ),
    # (stream, seq) is unique; should one stand there twice, the last wins (audio kept after the fact).
    "chunks": _schema(stream=_I, seq=_N, arrival=_I, media=_I, bytes=_I, shared_read=_B, audio_offset=_I),
    "frames": _schema(
        stream=_I, seq=_N, arrival=_I, media_time=_I, audio_handed=_I, bytes=_I, shared_read=_B
    ),
    "tokens": _schema(stream=_I, seq=_N, arrival=_I, tokens=_N, shared_read=_B),
    "gpu": _schema(t0=_I, t1=_I, gpu=_S, metric=_S, value=_F, status=_S),
    "canary": _schema(t=_I, latency=_I, device=_S),
    "host": _schema(t=_I, source=_S, metric=_S, value=_F),
    "engine": _schema(t=_I, tenant=_S, metric=_S, value=_F),
    "marks": _schema(t=_I, what=_S, name=_S, edge=_S),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A run as facts: what everything after the measuring is a function of.

    `manifest` is manifest.json; `tables` has every name of TABLES (zero rows where nothing was recorded),
    `streams` with one row a stream and `chunks` with one row a (stream, seq).
    """

    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
