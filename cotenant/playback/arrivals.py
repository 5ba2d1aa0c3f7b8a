"""What a stream's rows become before any player sees them: sorted, checked, without empty rows."""

from typing import Final

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

PLUS_INF_NS: Final = 2**62
MINUS_INF_NS: Final = -(2**62)
# "There is no such value", which is neither zero nor an infinity.
NULL_NS: Final = -(2**63)


def as_int64(values: npt.ArrayLike, name: str) -> Int64Array:
    """`values` as a flat int64 array. Raises ValueError unless they are integers in one dimension."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be a flat array of integers, not {array.dtype} of {array.ndim} dimensions"
        )
    return array.astype(np.int64, copy=False)


def prepare(arrival_ns: npt.ArrayLike, media_ns: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
    """One stream's (arrivals, durations) in order of arrival, without the rows that carry no media.

    The sort is stable, so chunks of one instant keep their order. Raises ValueError on negative durations
    and on arrays that do not match.
    """
    arrival, media = as_int64(arrival_ns, "arrival_ns"), as_int64(media_ns, "media_ns")
    if arrival.shape != media.shape:
        raise ValueError(f"{arrival.size} arrivals but {media.size} durations")
    if media.size and int(media.min()) < 0:
        raise ValueError("a duration is negative")
    if media.size and not media.all():
        kept = media > 0
        arrival, media = arrival[kept], media[kept]
    if was_reordered(arrival):
        order = np.argsort(arrival, kind="stable")
        arrival, media = arrival[order], media[order]
    return arrival, media


def was_reordered(arrival_ns: Int64Array) -> bool:
    """True where the rows of one stream do not stand in order of arrival (worth a warning)."""
    return bool((arrival_ns[1:] < arrival_ns[:-1]).any())


def ceil_to_grid(t_ns: int, origin_ns: int, quantum_ns: int) -> int:
    """The first instant of the grid `origin + k * quantum` not before `t`; `t` itself without a quantum."""
    if quantum_ns == 0:
        return t_ns
    return origin_ns - (origin_ns - t_ns) // quantum_ns * quantum_ns
