"""Stands in for Ditto's online pipeline at e9191cf: its calls, queues and threads, greys for pictures."""

import queue
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLIP = 10
BREAKS = 200  # the grey at which a thread of it fails


class StreamSDK:
    """Shows the mean of each 40 ms of audio as a grey, a clip later, and a clip too much at the end."""

    def __init__(self, cfg_pkl: str, data_root: str, **kwargs: Any) -> None:
        self.online_mode = "online" in cfg_pkl
        self.registered = 0

    def avatar_registrar(self, source_path: str, max_dim: int = 1920) -> dict[str, str]:
        """Finds a face."""
        self.registered += 1
        return {"path": source_path}

    def setup(self, source_path: str, output_path: str, **kwargs: Any) -> None:
        """Begins a clip: new queues, new threads."""
        self.avatar_registrar(source_path, max_dim=1920)["path"] += "!"
        self.audio2motion = SimpleNamespace(valid_clip_len=CLIP)
        self.writer = SimpleNamespace(close=lambda: None)
        self.writer_pbar = SimpleNamespace(close=lambda: None)
        self.worker_exception: Exception | None = None
        self.stop_event = threading.Event()
        self.audio2motion_queue: queue.Queue[Any] = queue.Queue(maxsize=100)
        self.writer_queue: queue.Queue[Any] = queue.Queue(maxsize=100)
        self.thread_list = [
            threading.Thread(target=target) for target in (self.audio2motion_worker, self.writer_worker)
        ]
        for thread in self.thread_list:
            thread.start()

    def run_chunk(
        self, audio_chunk: NDArray[np.float32], chunksize: tuple[int, int, int] = (3, 5, 2)
    ) -> None:
        """Takes a window of audio for the frames in its middle."""
        assert audio_chunk.shape == (6_480,)
        assert audio_chunk.dtype == np.float32
        assert chunksize == (3, 5, 2)
        greys = audio_chunk[3 * 640 : 8 * 640].reshape(5, 640).mean(axis=1) * 32768
        while not self.stop_event.is_set():
            try:
                self.audio2motion_queue.put([round(float(grey)) for grey in greys.clip(0, 255)], timeout=0.1)
                break
            except queue.Full:
                continue

    def audio2motion_worker(self) -> None:
        """All the work."""
        waiting: list[int] = []
        try:
            while not self.stop_event.is_set():
                try:
                    greys = self.audio2motion_queue.get(timeout=0.1)
                except queue.Empty:
                    continue
                waiting += greys or [255] * CLIP
                ready = len(waiting) if greys is None else max(0, len(waiting) - CLIP)
                for grey in waiting[:ready]:
                    if grey == BREAKS:
                        raise RuntimeError("its engine broke")
                    self.writer_queue.put(np.full((8, 16, 3), grey, np.uint8))
                del waiting[:ready]
                if greys is None:
                    self.writer_queue.put(None)
                    return
        except Exception as error:  # noqa: BLE001 - as the real one
            self.worker_exception = error
            self.stop_event.set()

    def writer_worker(self) -> None:
        """Would write a film."""
        raise AssertionError("it writes a film")
