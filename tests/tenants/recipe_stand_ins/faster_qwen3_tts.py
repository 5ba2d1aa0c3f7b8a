"""Stands in for faster-qwen3-tts 0.5.4: the signatures of its source, and tones in place of its model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRAME_SAMPLES = 1_920


class FasterQwen3TTS:
    """Says one frame for each character, of its code."""

    def __init__(self, model_name: str) -> None:
        self.sample_rate = 24_000
        self.model_name = model_name
        self.warm = False

    @classmethod
    def from_pretrained(
        cls,
        model_name: str,
        device: str = "cuda",
        dtype: Any = None,
        attn_implementation: str = "sdpa",
        max_seq_len: int = 2048,
        backend: str = "torch",
    ) -> "FasterQwen3TTS":
        """No weights."""
        return cls(model_name)

    def warmup(self, prefill_len: int = 100) -> None:
        """Notes it."""
        self.warm = True

    def generate_custom_voice_streaming(
        self,
        text: str,
        speaker: str,
        language: str,
        instruct: str | None = None,
        non_streaming_mode: bool | None = None,
        max_new_tokens: int = 2048,
        min_new_tokens: int = 2,
        temperature: float = 0.9,
        top_k: int = 50,
        top_p: float = 1.0,
        do_sample: bool = True,
        repetition_penalty: float = 1.05,
        chunk_size: int = 12,
    ) -> Iterator[tuple[NDArray[np.float32], int, dict[str, Any]]]:
        """Triples: float samples, their rate, what it took."""
        assert self.warm
        if speaker not in ("aiden", "vivian") or language != "Auto":
            raise ValueError(f"Unsupported speakers: {speaker}")
        for start in range(0, len(text), chunk_size):
            codes = [ord(letter) for letter in text[start : start + chunk_size]]
            yield (
                np.repeat(np.array(codes, np.float32) / 256, FRAME_SAMPLES),
                self.sample_rate,
                {"chunk_steps": 1},
            )
