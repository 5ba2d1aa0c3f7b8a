"""One clip of a face, against a head that does as told."""

import time
from typing import Any, Final

from cotenant.load.face import show
from cotenant.load.face_audio import FaceFeed
from cotenant.testing.truth_face import TruthFace, truth_face
from tests.load.rig import KeptRows, desk_for, faces, new_stage, settings, tenant

SECOND: Final = bytes(48_000)


async def shown(face: TruthFace, *, audio: bool = True, stall_ns: int = 10**10, **load: Any) -> KeptRows:
    """One clip with a second of audio in two pieces."""
    async with truth_face(face):
        one = faces(**load)
        told = settings([tenant(face.url, "head")], [one], stall_limit_ns=stall_ns)
        async with desk_for(told) as (desk, rows):
            stage = new_stage()
            feed = FaceFeed(one, lambda: 4)
            due_ns = time.monotonic_ns()
            ticket = stage.plan(due_ns, followed=True)
            if audio:
                feed.feed(SECOND[:24_000], 24_000, "s16")
                feed.feed(SECOND[24_000:], 24_000, "s16")
            feed.end()
            await show(desk, stage, feed, 0, due_ns, ticket)
            assert not stage.tickets
            return rows
