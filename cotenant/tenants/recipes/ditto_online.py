"""Ditto's online pipeline, for `serve face --from`. Not tried with released weights, nor on a GPU.

Tried on a CPU: the code of commit e9191cf from audio to picture, its torch networks narrow and of random
weights; those that it has as ONNX alone were constants, HuBERT one convolution (`tests/tenants/real_models`).
`DITTO_HOME` is its checkout, with `checkpoints` in it. `DITTO_DATA` (the engines' folder), `DITTO_CFG` and
`DITTO_PORTRAIT` name others than the ones that it ships.
"""

import functools
import importlib
import inspect
import logging
import os
import queue
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import CouldNotRun
from cotenant.tenants.builtin.telling import first_line, log_failure

log = logging.getLogger("cotenant.source")

COMMIT: Final = "e9191cf"
FPS: Final = 25  # it makes no other
# In frames of 40 ms: what a window of audio has before the frames it is for, those, what it has behind.
CHUNK: Final = (3, 5, 2)
FRAME_SAMPLES: Final = 640
STEP_SAMPLES: Final = CHUNK[1] * FRAME_SAMPLES
WINDOW_SAMPLES: Final = sum(CHUNK) * FRAME_SAMPLES + 80
_POLL_S: Final = 0.2


class _Head:
    """One pipeline, which takes one client at a time, so it is served by one worker."""

    def __init__(self) -> None:
        home = _home()
        checkpoints = home / "checkpoints"
        config = os.environ.get("DITTO_CFG", f"{checkpoints}/ditto_cfg/v0.4_hubert_cfg_trt_online.pkl")
        data = os.environ.get("DITTO_DATA", f"{checkpoints}/ditto_trt_Ampere_Plus")
        self._portrait = os.environ.get("DITTO_PORTRAIT", f"{home}/example/image.png")
        self._sdk = _sdk(home, config, data)
        # The face is found in the portrait once, not for each client. It changes what it gets: a copy.
        register = functools.cache(self._sdk.avatar_registrar)
        self._sdk.avatar_registrar = lambda *args, **more: dict(register(*args, **more))
        # The last of its threads would write a film: `_frames` takes that queue in its place.
        self._sdk.writer_worker = _nothing
        self._try(config)

    def __call__(self, audio: Iterable[NDArray[np.int16]], fps: int) -> Iterator[NDArray[np.uint8]]:
        """RGB frames, shape (height, width, 3), as they come: one for each 40 ms of audio at 16 kHz."""
        if fps != FPS:
            raise ValueError(f"Ditto makes {FPS} frames a second; ask for fps: {FPS}")
        sdk, counted = self._sdk, _Counted(audio)
        self._begin()
        with ThreadPoolExecutor(1, "ditto-audio") as thread:
            fed = thread.submit(_feed, sdk, counted)
            try:
                for number, frame in enumerate(_frames(sdk)):
                    if counted.ends_before(number):
                        break
                    yield frame
                    if counted.ends_before(number + 1):
                        break  # what the filled-up last clip has more is not waited for
            finally:
                _end(sdk)
            fed.result()
        if sdk.worker_exception is not None:
            raise sdk.worker_exception

    def _begin(self) -> None:
        self._sdk.setup(self._portrait, f"{tempfile.gettempdir()}/no-film")
        self._sdk.writer.close()

    def _try(self, config: str) -> None:
        """Begins a clip and ends it: else what is wrong would be told to each client, and to none before.

        Raises CouldNotRun.
        """
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 - it may raise anything
            log_failure(log, f"beginning with {self._portrait} failed", error)
            raise CouldNotRun(
                f"Ditto does not begin with {self._portrait}: {first_line(error)}; DITTO_PORTRAIT names "
                "another picture, one of a face"
            ) from None
        _end(self._sdk)
        if not self._sdk.online_mode:
            raise CouldNotRun(
                f"{config} is a configuration of Ditto's offline pipeline; DITTO_CFG names an online one"
            )


class _Counted:
    """The audio, counted on its way."""

    def __init__(self, audio: Iterable[NDArray[np.int16]]) -> None:
        self._audio, self._samples, self._over = audio, 0, False

    def __iter__(self) -> Iterator[NDArray[np.int16]]:
        for piece in self._audio:
            self._samples += len(piece)
            yield piece
        self._over = True

    def ends_before(self, frame: int) -> bool:
        """Whether it is over, and the frame behind its end."""
        return self._over and frame * FRAME_SAMPLES >= self._samples


def _feed(sdk: Any, audio: Iterable[NDArray[np.int16]]) -> None:
    """Hands all audio over, in a thread of its own: frames come out meanwhile."""
    try:
        for window in windows(audio, sdk.audio2motion.valid_clip_len):
            sdk.run_chunk(window, CHUNK)
            if sdk.stop_event.is_set():
                return
        sdk.audio2motion_queue.put(None)
    except BaseException:
        sdk.stop_event.set()  # the rest of its frames will not come
        raise


def windows(audio: Iterable[NDArray[np.int16]], least_frames: int) -> Iterator[NDArray[np.float32]]:
    """The windows of audio that `run_chunk` takes, shape (WINDOW_SAMPLES,), each as soon as it is whole.

    One for each STEP_SAMPLES; silence stands before the first, and behind the last until every sample and at
    least `least_frames` frames have theirs: below a clip's length Ditto shows nothing.
    """
    held = np.zeros(CHUNK[0] * FRAME_SAMPLES, np.float32)
    samples = given = 0
    for piece in audio:
        samples += len(piece)
        held = np.concatenate([held, piece.astype(np.float32) / np.float32(32768)])
        while len(held) >= WINDOW_SAMPLES:
            yield held[:WINDOW_SAMPLES]
            held, given = held[STEP_SAMPLES:], given + STEP_SAMPLES
    while given < max(samples, least_frames * FRAME_SAMPLES):
        yield np.pad(held, (0, max(0, WINDOW_SAMPLES - len(held))))[:WINDOW_SAMPLES]
        held, given = held[STEP_SAMPLES:], given + STEP_SAMPLES


def _frames(sdk: Any) -> Iterator[NDArray[np.uint8]]:
    """What was for its writer, until it has shown everything, or one of its threads has failed."""
    while not sdk.stop_event.is_set():
        try:
            frame = sdk.writer_queue.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if frame is None:
            return
        yield frame


def _end(sdk: Any) -> None:
    """Ends its threads. What waits is thrown away: one that waits at a full queue would not see the end."""
    sdk.stop_event.set()
    lines = [value for value in vars(sdk).values() if isinstance(value, queue.Queue)]
    while True:
        for line in lines:
            with suppress(queue.Empty):
                line.get_nowait()
        running = [thread for thread in sdk.thread_list if thread.is_alive()]
        if not running:
            break
        running[0].join(0.01)
    sdk.writer_pbar.close()


def _nothing() -> None:
    """In the place of its writer's thread."""


def _home() -> Path:
    return Path(os.environ.get("DITTO_HOME", "ditto-talkinghead")).expanduser().absolute()


def _pipeline() -> Any:
    """Its module. Raises CouldNotRun with what is missing."""
    home = _home()
    if not (home / "stream_pipeline_online.py").is_file():
        raise CouldNotRun(
            f"Ditto is not in {home}: git clone https://github.com/antgroup/ditto-talkinghead, pip install "
            "what its README lists, add its checkpoints, and set DITTO_HOME to it"
        )
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    try:
        return importlib.import_module("stream_pipeline_online")
    except ModuleNotFoundError as error:
        raise CouldNotRun(
            f"Ditto needs {error.name!r}, which is not there; {sys.executable} -m pip install gets it, and "
            "the others that Ditto's README lists"
        ) from None
    except Exception as error:  # noqa: BLE001 - it may raise anything
        log_failure(log, f"importing Ditto of {home} failed", error)
        raise _another(home, error) from None


def _sdk(home: Path, config: str, data: str) -> Any:
    """Its pipeline, with all that is called of it. Raises CouldNotRun."""
    try:
        sdk = _pipeline().StreamSDK(config, data)
        inspect.signature(sdk.setup).bind("portrait", "film")
        inspect.signature(sdk.run_chunk).bind(np.zeros(WINDOW_SAMPLES, np.float32), CHUNK)
        for name in ("avatar_registrar", "writer_worker"):
            getattr(sdk, name)
    except CouldNotRun:
        raise
    except (ImportError, AttributeError, TypeError) as error:
        log_failure(log, f"making Ditto of {home} ready failed", error)
        raise _another(home, error) from None
    except Exception as error:  # noqa: BLE001 - it may raise anything
        log_failure(log, f"loading Ditto's {config} and {data} failed", error)
        raise CouldNotRun(
            f"Ditto does not load {config} with {data}: {first_line(error)}; DITTO_CFG and DITTO_DATA name "
            "others"
        ) from None
    return sdk


def _another(home: Path, error: Exception) -> CouldNotRun:
    return CouldNotRun(
        f"this recipe is for Ditto's commit {COMMIT}, and what is in {home} is another, or lacks what it "
        f"needs ({first_line(error)}); git -C {home} checkout {COMMIT}, and pip install what its README lists"
    )


def __getattr__(name: str) -> Any:
    """`Head`. Ditto is looked for here: any Python can import this module, and what is missing is told in a
    sentence (CouldNotRun), without a traceback.
    """
    if name != "Head":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _pipeline()
    return _Head
