"""How long an utterance is silent at its beginning."""

import numpy as np
import pytest

from cotenant.playback.energy import leading_silence_ns

RATE_HZ = 24_000
MS = 1_000_000


def tone(ms: int, peak: int = 8_000) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    samples = np.arange(ms * RATE_HZ // 1000)
    return (peak * np.sin(2 * np.pi * 220 * samples / RATE_HZ)).astype(np.int16)


def test_silence_up_to_the_first_sound() -> None:
    silence = np.zeros(200 * RATE_HZ // 1000, np.int16)
    assert leading_silence_ns(tone(100), RATE_HZ) == 0
    assert leading_silence_ns(np.concatenate((silence, tone(100))), RATE_HZ) == 200 * MS
    # A breath far below the voice is no voice.
    assert leading_silence_ns(np.concatenate((tone(200, 300), tone(100))), RATE_HZ) == 200 * MS
    # The window in which it begins counts from its start.
    assert leading_silence_ns(np.concatenate((silence[:-100], tone(100))), RATE_HZ) == 180 * MS


def test_nothing_that_sounds() -> None:
    assert leading_silence_ns(np.zeros(5_000, np.int16), RATE_HZ) is None
    assert leading_silence_ns(np.zeros(0, np.int16), RATE_HZ) is None
    assert leading_silence_ns(np.array([-32_768], np.int16), 1) == 0
    with pytest.raises(ValueError, match="sample rate"):
        leading_silence_ns(tone(5), 0)
