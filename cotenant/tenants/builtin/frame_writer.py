"""The way of a head's pictures from the device to their JPEGs, in a thread beside the engine's."""

import io
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from PIL import Image
from torch import Tensor


class FrameWriter:
    """Copies pictures to the host and encodes them in order; the engine's thread waits for neither.

    `limit` pictures at most are under way: the engine looks at `full` before it makes the next. What the
    thread raises (a copy that failed, a broken `deliver`) is raised in the engine's by its next call.
    """

    def __init__(self, device: torch.device, pixels: int, quality: int, limit: int = 4) -> None:
        self._cuda, self._quality, self._limit = device.type == "cuda", quality, limit
        self._places = [
            torch.empty(pixels, pixels, 3, dtype=torch.uint8, device="cpu", pin_memory=self._cuda)
            for _ in range(limit)
        ]
        self._next = 0
        self._under_way: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="frames")

    @property
    def active(self) -> bool:
        """Whether anything is under way, to be asked from any thread."""
        return bool(self._under_way)

    @property
    def full(self) -> bool:
        """Whether the next picture would have to wait for an earlier one."""
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result()
        return len(self._under_way) >= self._limit

    def put(self, picture: Tensor, wanted: Callable[[], bool], deliver: Callable[[bytes], None]) -> None:
        """Takes (pixels, pixels, 3) bytes that the current stream makes; it may make others there at once.

        `deliver` gets the JPEG in the writer's thread, unless `wanted` says there that nobody does.
        """
        while self.full:
            self.wait()
        place = self._places[self._next]
        self._next = (self._next + 1) % self._limit
        place.copy_(picture, non_blocking=True)
        copied = None
        if self._cuda:
            copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            copied.record()
        self._under_way.append(self._thread.submit(self._write, place, copied, wanted, deliver))

    def then(self, call: Callable[[], None]) -> None:
        """Has `call` come after the pictures that were put so far, in the writer's thread."""
        self._under_way.append(self._thread.submit(call))

    def wait(self) -> bool:
        """Returns once the oldest that is under way is done; False if there is none."""
        if not self._under_way:
            return False
        self._under_way.popleft().result()
        return True

    def close(self) -> None:
        """Drops what is not begun and ends the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._under_way.clear()

    def _write(
        self,
        place: Tensor,
        copied: torch.cuda.Event | None,
        wanted: Callable[[], bool],
        deliver: Callable[[bytes], None],
    ) -> None:
        if not wanted():
            return
        if copied is not None:
            copied.synchronize()
        out = io.BytesIO()
        Image.fromarray(place.numpy()).save(out, "JPEG", quality=self._quality)
        deliver(out.getvalue())
