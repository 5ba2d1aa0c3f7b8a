"""Whether a silence cuts into speech or falls where the speaker pauses anyway."""

from typing import Final

import numpy as np
import numpy.typing as npt

_SIDE_NS: Final = 20_000_000
_AUDIBLE: Final = 0.05
_NS_PER_S: Final = 1_000_000_000


def in_speech(pcm: npt.NDArray[np.int16], rate_hz: int, media_ns: int) -> bool | None:
    """Whether speech sounds within 20 ms of this position: an RMS of at least 5 % of the peak on a side.

    `pcm`: the mono samples of the whole utterance. None where the position has no samples on either side,
    or the utterance is pure silence. Raises ValueError on a rate <= 0.
    """
    if rate_hz <= 0:
        raise ValueError(f"{rate_hz} Hz is no sample rate")
    at = round(media_ns * rate_hz / _NS_PER_S)
    side = max(1, round(_SIDE_NS * rate_hz / _NS_PER_S))
    peak = float(np.abs(pcm.astype(np.int32)).max(initial=0))
    sides = [pcm[max(0, at - side) : max(0, at)], pcm[max(0, at) : max(0, at) + side]]
    if peak == 0 or not any(part.size for part in sides):
        return None
    return any(part.size and _rms(part) >= _AUDIBLE * peak for part in sides)


def leading_silence_ns(pcm: npt.NDArray[np.int16], rate_hz: int) -> int | None:
    """How long the beginning of an utterance is silent: up to the first 20 ms with an RMS of at least 5 % of
    the peak. None where all of it is. Raises ValueError on a rate <= 0.

    `pcm`: mono samples, from the first one on.
    """
    if rate_hz <= 0:
        raise ValueError(f"{rate_hz} Hz is no sample rate")
    side = max(1, round(_SIDE_NS * rate_hz / _NS_PER_S))
    peak = float(np.abs(pcm.astype(np.int32)).max(initial=0))
    if peak == 0:
        return None
    whole = np.concatenate((pcm, np.zeros(-len(pcm) % side, np.int16))).astype(np.float64).reshape(-1, side)
    loud = np.flatnonzero((whole**2).mean(axis=1) >= (_AUDIBLE * peak) ** 2)
    return round(int(loud[0]) * side * _NS_PER_S / rate_hz) if len(loud) else None


def _rms(part: npt.NDArray[np.int16]) -> float:
    return float(np.sqrt(np.mean(part.astype(np.float64) ** 2)))
