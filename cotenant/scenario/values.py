"""The scalar types of a scenario: text with units in YAML, integers with units in their names inside.

Each reads what a user writes and serialises to text that reads back as the same value.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, PlainSerializer, PlainValidator, StrictStr

from cotenant import units
from cotenant.scenario.address import check_url
from cotenant.secret_forms import by_form

Auto = Literal["auto"]
AUTO: Final = "auto"
NAME_RE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
LIMIT_RE: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?\s*(ns|us|ms|s|m|h|%|k|Ki|M|Mi|G|Gi|/ms|/s|/m|/h)?"
)
_DEVICE_RE: Final = re.compile(r"auto|cpu|cuda:[0-9]{1,3}|(GPU|MIG)-[0-9A-Za-z/-]{1,64}")
# Letters and digits, many and unparted: a key in place of the name of its variable.
_KEY_RE: Final = re.compile(r"(?=.*[0-9])[A-Za-z0-9]{20,}")
_ENV_RE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _shown(value: object) -> str:
    text = by_form(repr(value))
    return text if len(text) <= 40 else text[:37] + "..."


def _duration(value: object) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number; write a number and a unit, as in 400ms or 20m")
        raise ValueError(f"{_shown(value)} has no unit; write {value}s or {value}ms")
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a duration; write a number and a unit, as in 400ms or 20m")
    return units.parse_duration_ns(value)


def _size(value: object) -> int:
    if isinstance(value, str):
        value = units.parse_size(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is not a size; write a whole number, as in 400, 32k or 4Ki")
    if not 1 <= value <= 10**9:
        raise ValueError(f"{value} tokens are out of range; write 1 to 1G")
    return value


def _byte_size(value: object) -> int:
    if isinstance(value, str):
        value = units.parse_size(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is not a size; write bytes, as in 20Gi or 512Mi")
    if not 2**20 <= value <= 2**50:
        raise ValueError(f"{value} bytes are out of range; write 1Mi to 1048576Gi, as in 20Gi")
    return value


def _share(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError(f"{_shown(value)} is not a share; write a number above 0 and up to 1, as in 0.6")
    return float(value)


def _rate(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a rate; write events per time, as in 2.5/s or 30/m")
    rate_per_s = units.parse_rate_per_s(value)
    if not 1e-4 <= rate_per_s <= 1e6:
        raise ValueError(f"{value!r} is out of range; write a rate from 0.0001/s to 1000000/s")
    return rate_per_s


def _rate_text(rate_per_s: float | str) -> str:
    return rate_per_s if isinstance(rate_per_s, str) else f"{Decimal(repr(rate_per_s)):f}/s"


def _duration_text(value_ns: int | str) -> str:
    return value_ns if isinstance(value_ns, str) else units.duration_text(value_ns)


@dataclass(frozen=True, slots=True)
class Whole:
    """A reader of whole numbers from `low` to `high`."""

    low: int
    high: int

    def __call__(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(
                f"{_shown(value)} is not a whole number; write one from {self.low} to {self.high}"
            )
        if not self.low <= value <= self.high:
            right = f"write a whole number from {self.low} to {self.high}"
            raise ValueError(f"{value} is out of range; {right}")
        return value


@dataclass(frozen=True, slots=True)
class OrAuto:
    """A reader of the word auto, or of what `read` takes."""

    read: Callable[[object], Any]

    def __call__(self, value: object) -> Any:
        if value == AUTO:
            return AUTO
        try:
            return self.read(value)
        except ValueError as error:
            raise ValueError(f"{error}, or auto") from None


def _positive(value: object) -> int:
    value_ns = _duration(value)
    if value_ns <= 0:
        raise ValueError(f"{_shown(value)} is no time at all; write more than 0ms")
    return value_ns


def _name(value: str) -> str:
    if NAME_RE.fullmatch(value) is None:
        raise ValueError(f"{_shown(value)} is not a name; use 1 to 64 letters, digits, dots, _ and -")
    return value


def _load_name(value: str) -> str:
    if "." in value:
        raise ValueError(
            f"{_shown(value)} has a dot, which separates the parts of a gate's metric; use _ or -"
        )
    return _name(value)


def _stage_name(value: str) -> str:
    if value == "warm" or value.startswith("solo:"):
        raise ValueError(f"{_shown(value)} is a phase of every run; give the stage another name")
    return _name(value)


def _device(value: str) -> str:
    if _DEVICE_RE.fullmatch(value) is None:
        raise ValueError(f"{_shown(value)} is not a device; write auto, cpu, cuda:0 or a uuid (GPU-...)")
    return value


def environment_name(value: str) -> str:
    """A variable's name as it is. Raises ValueError, which does not repeat it, for what may be a key."""
    if _ENV_RE.fullmatch(value) is None or by_form(value) != value or _KEY_RE.fullmatch(value) is not None:
        raise ValueError("this is not a variable's name; write the name, as in TTS_KEY, never the key itself")
    return value


def limit(value: object) -> float | str:
    """A gate's limit, as a number or as text with the unit; the unit's meaning is the metric's affair."""
    right = "write a number, a duration, a share or a rate, as in 0.95, 500ms, 95 % or 20/s"
    if isinstance(value, str):
        if LIMIT_RE.fullmatch(value.strip()) is None:
            raise ValueError(f"{_shown(value)} is not a limit; {right}")
        return value.strip()
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{_shown(value)} is not a limit; {right}")
    return float(value)


def _text(value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{_shown(value)} is no text; write builtin, a file, or [sentence, ...]")
    return list(value)


_DURATION_OUT: Final = PlainSerializer(_duration_text)
_RATE_OUT: Final = PlainSerializer(_rate_text)

DurationNs = Annotated[int, PlainValidator(_duration), _DURATION_OUT]
PositiveNs = Annotated[int, PlainValidator(_positive), _DURATION_OUT]
DurationNsOrAuto = Annotated[int | Auto, PlainValidator(OrAuto(_duration)), _DURATION_OUT]
PositiveNsOrAuto = Annotated[int | Auto, PlainValidator(OrAuto(_positive)), _DURATION_OUT]
Tokens = Annotated[int, PlainValidator(_size)]
TokensOrAuto = Annotated[int | Auto, PlainValidator(OrAuto(_size))]
ByteSize = Annotated[int, PlainValidator(_byte_size)]
Share = Annotated[float, PlainValidator(_share)]
RatePerS = Annotated[float, PlainValidator(_rate), _RATE_OUT]
Count = Annotated[int, PlainValidator(Whole(1, 10_000))]
CountOrAuto = Annotated[int | Auto, PlainValidator(OrAuto(Whole(1, 10_000)))]
Seed = Annotated[int, PlainValidator(Whole(0, 2**31 - 1))]
Name = Annotated[StrictStr, AfterValidator(_name)]
LoadName = Annotated[StrictStr, AfterValidator(_load_name)]
StageName = Annotated[StrictStr, AfterValidator(_stage_name)]
Device = Annotated[StrictStr, AfterValidator(_device)]
Url = Annotated[StrictStr, AfterValidator(check_url)]
EnvName = Annotated[StrictStr, AfterValidator(environment_name)]
Text = Annotated[str | list[str], PlainValidator(_text)]
Limit = Annotated[float | str, PlainValidator(limit)]


def settled(value: int | Auto) -> int:
    """The number of a field that may be `auto`, in a scenario that `auto.resolve` made.

    Raises ValueError on a scenario that was not resolved.
    """
    if isinstance(value, str):
        raise ValueError("this scenario still says auto; resolve it first")
    return value
