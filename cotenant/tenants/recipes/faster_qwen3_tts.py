"""Qwen3-TTS by faster-qwen3-tts, for `serve speech --from`. Not tried with released weights, nor on a GPU.

Tried on a CPU: the code of 0.5.4 and of its qwen-tts-hf 0.1.1.post1, from loading a checkpoint of small sizes
and random weights on, CUDA graphs replayed eagerly (`tests/tenants/real_models`).
`QWEN3_TTS_MODEL` is a CustomVoice model's name or folder, `QWEN3_TTS_CHUNK` the frames of 80 ms in a piece.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from cotenant.errors import CouldNotRun, UserError
from cotenant.tenants.builtin.telling import first_line, log_failure

log = logging.getLogger("cotenant.source")

PACKAGE: Final = "faster-qwen3-tts==0.5.4"
# Its own limit is 6, and with 5.17 and later the codec of its qwen-tts-hf does not load.
TRANSFORMERS: Final = "transformers<5.17"
_GET: Final = f'-m pip install {PACKAGE} "{TRANSFORMERS}"'
_SPEAKS: Final = "custom_voice"


class _Voice:
    """One model: its recorded graphs hold one utterance at a time, so it is served by one worker."""

    def __init__(self) -> None:
        name = os.environ.get("QWEN3_TTS_MODEL", "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice")
        self._chunk = _chunk(
            os.environ.get("QWEN3_TTS_CHUNK", "8")
        )  # as it is benchmarked; its default is 12
        try:
            self._model: Any = importlib.import_module("faster_qwen3_tts").FasterQwen3TTS.from_pretrained(
                name
            )
            speaks = inspect.signature(self._model.generate_custom_voice_streaming)
            speaks.bind(text="", speaker="", language="", chunk_size=1)
            _check_kind(self._model, name)
            self._model.warmup()
            self.rate = self._model.sample_rate
        except CouldNotRun:
            raise
        except (ImportError, AttributeError, TypeError) as error:
            log_failure(log, "making faster-qwen3-tts ready failed", error)
            raise CouldNotRun(
                f"this recipe is for {PACKAGE} with {TRANSFORMERS}, and {_found()} is not that, or not whole "
                f"({first_line(error)}); {sys.executable} {_GET} gets it"
            ) from None
        except Exception as error:  # noqa: BLE001 - a model may raise anything
            log_failure(log, f"loading {name} failed", error)
            if "CUDA" in str(error) and (blind := _without_gpu()) is not None:
                raise CouldNotRun(f"{PACKAGE} needs an NVIDIA GPU, and {blind}") from None
            raise CouldNotRun(
                f"{PACKAGE} does not load {name}: {first_line(error)}; QWEN3_TTS_MODEL names another model, "
                "or a folder of one"
            ) from None

    def __call__(self, text: str, voice: str | None) -> Iterator[tuple[Any, int]]:
        """Float samples, shape (n,), with their rate in Hz; a speaker that it does not know raises there."""
        pieces = self._model.generate_custom_voice_streaming(
            text=text, speaker=voice or "aiden", language="Auto", chunk_size=self._chunk
        )
        for samples, rate_hz, _timing in pieces:
            yield samples, rate_hz


def _chunk(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1_000:
        raise UserError(f"QWEN3_TTS_CHUNK is {text[:40]!r}; it is a number of frames, as 8")
    return int(text)


def _check_kind(model: Any, name: str) -> None:
    """Raises CouldNotRun for a model that clones or designs voices: it would refuse each request."""
    with suppress(AttributeError):
        kind = model.model.model.tts_model_type
        if kind != _SPEAKS:
            raise CouldNotRun(
                f"{name} is a {kind} model, and this recipe speaks with a CustomVoice one; "
                "QWEN3_TTS_MODEL names another"
            )


def _without_gpu() -> str | None:
    """What torch says of CUDA where it finds none."""
    torch = sys.modules.get("torch")
    if torch is None or torch.cuda.is_available():
        return None
    return f"the torch {torch.__version__} of {sys.prefix} finds none that it can use"


def _found() -> str:
    """What stands in the package's place."""
    with suppress(importlib.metadata.PackageNotFoundError):
        found = f"the installed {importlib.metadata.version('faster-qwen3-tts')}"
        with suppress(importlib.metadata.PackageNotFoundError):
            found += f" with transformers {importlib.metadata.version('transformers')}"
        return found
    module = sys.modules.get("faster_qwen3_tts")
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ()), sys.prefix]
    return f"the one in {next(filter(None, places))}"


def __getattr__(name: str) -> Any:
    """`Voice`. Its package is looked for here: any Python can import this module, and a missing one is told
    in a sentence (CouldNotRun), without a traceback.
    """
    if name != "Voice":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec("faster_qwen3_tts") is None:
        raise CouldNotRun(f"there is no faster-qwen3-tts in {sys.prefix}; {sys.executable} {_GET} gets it")
    return _Voice
