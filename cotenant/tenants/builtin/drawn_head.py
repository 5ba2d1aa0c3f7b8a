"""The built-in talking head behind its front: sessions of an engine with random weights."""

from cotenant.tenants.builtin.face_ws import Shown
from cotenant.tenants.builtin.head_session import Samples, Session
from cotenant.tenants.builtin.mailbox import Mailbox
from cotenant.tenants.builtin.step_loop import StepLoop
from cotenant.tenants.builtin.talking_head import HeadEngine


class DrawnHead:
    """Begins a session in the engine for each client."""

    def __init__(self, loop: StepLoop[HeadEngine]) -> None:
        self._loop = loop

    def begin(self, fps: int, out: Mailbox[Shown]) -> "_Clip":
        """A session whose frames go to `out`; the engine begins no further clip of it while that is full."""
        clip = _Clip(self._loop, Session(fps=fps, send=out.put, behind=lambda: out.full))
        # An engine that has nothing else to do waits for a change.
        out.on_room = lambda: self._loop.post(lambda engine: None)
        self._loop.post(lambda engine: engine.add(clip.session))
        return clip


class _Clip:
    def __init__(self, loop: StepLoop[HeadEngine], session: Session) -> None:
        self._loop, self.session = loop, session

    def feed(self, samples: Samples) -> None:
        self._loop.post(lambda engine: engine.feed(self.session, samples))

    def end(self) -> None:
        self._loop.post(lambda engine: engine.end(self.session))

    def drop(self) -> None:
        self._loop.drop(self.session)
