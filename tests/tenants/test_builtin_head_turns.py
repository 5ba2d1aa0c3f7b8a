"""How the head's work follows on itself: motion in pieces, pictures between, frames written beside."""

import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from cotenant.tenants.builtin import talking_head
from cotenant.tenants.builtin.frame_writer import FrameWriter
from cotenant.tenants.builtin.head_steps import HeadModel, Motion, Steps
from cotenant.tenants.builtin.runtime import Runtime
from cotenant.tenants.builtin.shapes import released, tiny
from cotenant.tenants.builtin.shapes.lmdm import Lmdm, LmdmSizes

LONG = dataclasses.replace(tiny.HEAD, clip_chunks=2, motion=dataclasses.replace(tiny.HEAD.motion, steps=50))
CPU = torch.device("cpu")
PICTURE = torch.zeros(8, 8, 3, dtype=torch.uint8)


@pytest.fixture
def writer() -> Iterator[FrameWriter]:
    made = FrameWriter(CPU, 8, 90, limit=2)
    yield made
    made.close()


def test_a_clip_is_cut_into_equal_pieces_of_few_steps() -> None:
    assert released.DITTO.motion.pieces == 10
    assert tiny.HEAD.motion.pieces == 1
    assert dataclasses.replace(tiny.HEAD.motion, steps=7).pieces == 7


def test_pictures_come_between_the_pieces_of_the_next_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = talking_head.build(LONG, Runtime(threads=1))
    done: list[str] = []
    advance, picture = engine.steps.advance, engine.steps.picture

    def advanced(motion: Motion) -> None:
        done.append("m")
        advance(motion)

    def pictured(driving: torch.Tensor) -> torch.Tensor:
        done.append("p")
        return picture(driving)

    monkeypatch.setattr(engine.steps, "advance", advanced)
    monkeypatch.setattr(engine.steps, "picture", pictured)
    session = talking_head.Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(3 * 6_400, np.int16))
    engine.end(session)
    while engine.step():
        pass
    engine.close()
    assert done.count("m") == 3 * 10
    assert done.count("p") == 3 * 10
    # Once there is one clip to show, no two pieces come without a picture until the pictures run out.
    between = "".join(done).removeprefix("m" * 10)
    # Two runs of the encoder have their picture each too; then a piece and a picture follow in turns.
    assert between.startswith("pp" + "mp" * 8 + "mm"), between


class LateSteps(Steps):
    """Steps whose pieces are under way until two more pictures are made, or until they are waited for."""

    def __init__(self, model: HeadModel) -> None:
        super().__init__(model)
        self.left: list[int] = []
        self.most, self.waits = 0, 0

    def advance(self, motion: Motion) -> None:
        super().advance(motion)
        self.left.append(2)
        self.most = max(self.most, len(self.left))

    @property
    def under_way(self) -> int:
        return len(self.left)

    def wait(self) -> None:
        self.waits += 1
        self.left.pop(0)

    def picture(self, driving: torch.Tensor) -> torch.Tensor:
        if self.left:
            self.left[0] -= 1
            if not self.left[0]:
                self.left.pop(0)
        return super().picture(driving)

    def moved(self, motion: Motion) -> tuple[torch.Tensor, torch.Tensor]:
        assert not self.left, "a motion was read before it was made"
        return super().moved(motion)


def test_pictures_do_not_wait_for_motion_that_is_under_way() -> None:
    engine = talking_head.build(LONG, Runtime(threads=1))
    steps = engine.steps = LateSteps(engine.model)
    sent: list[Any] = []
    session = talking_head.Session(fps=25, send=sent.append)
    engine.add(session)
    engine.feed(session, np.zeros(3 * 6_400, np.int16))
    engine.end(session)
    while engine.step():
        if session.due:
            before = steps.waits
            assert engine.step()
            assert steps.waits == before
    engine.close()
    assert [getattr(item, "index", item) for item in sent] == [*range(30), 30]
    assert steps.most == 2
    assert steps.waits > 0


def test_motion_is_no_more_than_a_clip_ahead_of_what_is_shown() -> None:
    engine = talking_head.build(tiny.HEAD, Runtime(threads=1))
    session = talking_head.Session(fps=25, send=lambda item: None)
    engine.add(session)
    engine.feed(session, np.zeros(20 * 3_200, np.int16))
    most = 0
    while engine.step():
        most = max(most, len(session.due) + 1)  # one was shown in the step
    engine.close()
    assert 5 < most <= 10


def test_a_clip_that_is_dropped_in_the_middle_of_its_motion_leaves_nothing() -> None:
    engine = talking_head.build(LONG, Runtime(threads=1))
    sent: list[Any] = []
    gone, stays = (talking_head.Session(fps=25, send=sent.append) for _ in range(2))
    for session in (gone, stays):
        engine.add(session)
        engine.feed(session, np.zeros(6_400, np.int16))
        engine.end(session)
    engine.step()
    engine.step()
    gone.cancelled = True
    while engine.step():
        pass
    engine.close()
    assert [getattr(item, "index", item) for item in sent] == [*range(10), 10]
    assert engine.active == 0


def test_a_clip_s_overhead_holds_its_own_pictures_back() -> None:
    engine = talking_head.build(tiny.HEAD, Runtime(threads=1, step_overhead_ns=30_000_000))
    arrived: list[int] = []
    session = talking_head.Session(fps=25, send=lambda item: arrived.append(time.monotonic_ns()))
    engine.add(session)
    engine.feed(session, np.zeros(3_200, np.int16))
    engine.end(session)
    began_ns = time.monotonic_ns()
    while engine.step():
        pass
    engine.close()
    assert arrived[0] - began_ns >= 30_000_000


def test_two_guided_rows_at_once_are_two_forwards() -> None:
    torch.manual_seed(2)
    sizes = LmdmSizes(**dataclasses.asdict(tiny.HEAD.motion), extra=3)
    model = Lmdm(sizes, 16).eval()
    features, shown = torch.randn(sizes.window, 16), torch.randn(sizes.window - 5, sizes.motion)
    with torch.inference_mode():
        run, _ = model.begin(features, shown)
        x, level = run.x.clone(), torch.ones(1, 1, 1)
        model.step(run)
        kept = x.clone()
        audio, without = (
            model.denoise(kept, condition, level)
            for condition in (model.conditioned(features), model.no_condition)
        )
        clean = (without + sizes.guidance * (audio - without)).tanh()
        right = clean + (x - clean) * (sizes.steps - 1) / sizes.steps
    torch.testing.assert_close(run.x, right, atol=1e-5, rtol=1e-4)


def test_frames_are_written_in_order_and_in_another_thread(writer: FrameWriter) -> None:
    got: list[tuple[int, int]] = []
    for number in range(9):

        def deliver(jpeg: bytes, number: int = number) -> None:
            got.append((number, threading.get_ident()))

        writer.put(PICTURE, lambda: True, deliver)
    writer.then(lambda: got.append((-1, 0)))
    while writer.wait():
        pass
    assert [number for number, _ in got] == [*range(9), -1]
    assert {thread for _, thread in got[:-1]} - {threading.get_ident()} == {got[0][1]}


def test_no_more_pictures_are_under_way_than_there_are_places(writer: FrameWriter) -> None:
    go, begun = threading.Event(), threading.Event()

    def deliver(jpeg: bytes) -> None:
        begun.set()
        assert go.wait(10)

    writer.put(PICTURE, lambda: True, deliver)
    assert begun.wait(10)
    assert not writer.full
    writer.put(PICTURE, lambda: True, lambda jpeg: None)
    assert writer.full
    assert writer.active
    go.set()
    while writer.wait():
        pass
    assert not writer.full
    assert not writer.active


def test_a_picture_that_nobody_wants_any_more_is_not_written(writer: FrameWriter) -> None:
    got: list[bytes] = []
    writer.put(PICTURE, lambda: False, got.append)
    writer.put(PICTURE, lambda: True, got.append)
    while writer.wait():
        pass
    assert len(got) == 1


def test_what_the_writer_raises_comes_to_the_engine(writer: FrameWriter) -> None:
    def deliver(jpeg: bytes) -> None:
        raise ValueError("nobody can take this")

    writer.put(PICTURE, lambda: True, deliver)
    with pytest.raises(ValueError, match="nobody can take this"):
        writer.wait()


def test_a_closed_writer_leaves_no_thread() -> None:
    before = threading.active_count()
    made = FrameWriter(CPU, 8, 90)
    made.put(PICTURE, lambda: True, lambda jpeg: None)
    made.close()
    assert threading.active_count() == before
