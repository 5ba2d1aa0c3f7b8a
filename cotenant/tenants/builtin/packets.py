"""How many codec frames go into each packet of a speech answer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from cotenant.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketPolicy:
    """Frames (of 80 ms) in the first packet, in those of the ramp after it, and in all later ones."""

    first: int = 1
    steady: int = 4
    ramp: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """The packets' frames, without end."""
        yield self.first
        yield from self.ramp
        while True:
            yield self.steady

    def lengths(self) -> list[int]:
        """Each number of frames that a packet may have, the shorter last ones of an utterance left out."""
        return sorted({self.first, *self.ramp, self.steady})


def parse(text: str) -> PacketPolicy:
    """`{"first": 1, "steady": 4, "ramp": [2, 2]}` -> the policy. Raises UserError that says what is right."""
    right = 'write {"first": 1, "steady": 4, "ramp": [2, 2]} with whole numbers of frames from 1 to 1000'
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"the packet policy is not JSON ({error}); {right}") from error
    if not isinstance(found, dict) or found.keys() - {"first", "steady", "ramp"}:
        raise UserError(f"the packet policy {text[:80]} has other keys; {right}")
    ramp = found.get("ramp") or []
    numbers = [found.get("first", 1), found.get("steady", 4), *(ramp if isinstance(ramp, list) else [None])]
    if not all(type(number) is int and 1 <= number <= 1000 for number in numbers):
        raise UserError(f"the packet policy {text[:80]} has a number that does not fit; {right}")
    return PacketPolicy(first=numbers[0], steady=numbers[1], ramp=tuple(numbers[2:]))
