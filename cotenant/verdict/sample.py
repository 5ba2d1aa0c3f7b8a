"""What a metric was computed from, kept so that a gate can put an interval on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from cotenant.units import NS_PER_MS
from cotenant.verdict.bootstrap import nearest_rank, nearest_ranks
from cotenant.verdict.columns import Bools, Floats, Ints
from cotenant.verdict.effective_size import effective_size
from cotenant.verdict.stats import TAIL, Rare

# Independent observations that bound a quantile from both sides at 95 %: 59 for p95 and p5, 299 for p99.
ENOUGH: Final = {"p50": 5, "p95": 59, "p5": 59, "p99": 299}
# Where no stall (no dropped picture) was seen, one is taken to cost a tenth of its utterance (of its clip):
# with 59 independent ones without any, the share lost is under 0.5 % in 95 of 100 cases.
UNSEEN_SHARE: Final = 0.1
LEVELS: Final = {"p5": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99}
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """One value per unit (utterance, frame, window), in the unit of the metric, and the time block of each.

    `weights` where the quantile is one of time. `independent` is how many of the units can be independent at
    most (sliding windows overlap), `None` for all.
    """

    values: Floats
    blocks: Ints
    weights: Floats | None = None
    independent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One yes or no per unit."""

    good: Bools
    blocks: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Sum of `numerators` over sum of `denominators`, one pair per unit.

    `rare` where most numerators are zero.
    """

    numerators: Floats
    denominators: Floats
    blocks: Ints
    rare: Rare | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A count, a sum or an extreme of what was recorded: nothing was sampled."""

    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Pairs whose values were compared; the bounds are in the entry, those of a ratio widened by a factor."""

    blocks: int
    widened_by: float = 1.0


Sample = Quantiles | Share | Ratio | Exact | Compared

# Where `Doubted.worst` holds its metric.
WORST: Final = "worst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubted:
    """Why a metric may look better than it is.

    `worst`: the same metric, at `WORST`, with all that is not known taken for bad; None where nothing bounds
    it.
    """

    reason: str
    worst: "Part | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """What a metric that is not known is at least: the same metric at `path` of a part of its own."""

    part: "Part"
    path: str


@dataclass(slots=True, kw_only=True)
class Part:
    """One part of a stage's entry under construction.

    `samples` and `why` are keyed by the path below the part, as are `doubts`: a gate over such a metric
    passes only where the worst that it can be passes too. `least`, keyed as they are, of nulls: a gate fails
    where even that does.
    """

    entry: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    doubts: dict[str, Doubted] = field(default_factory=dict)
    least: dict[str, Least] = field(default_factory=dict)

    def add(self, prefix: str, other: "Part") -> None:
        """Takes over a part under a key of this one."""
        self.entry[prefix] = other.entry
        self.why.update(_below(prefix, other.why))
        self.samples.update(_below(prefix, other.samples))
        self.doubts.update(_below(prefix, other.doubts))
        self.least.update(_below(prefix, other.least))


_T = TypeVar("_T")


def _below(prefix: str, values: Mapping[str, _T]) -> dict[str, _T]:
    return {f"{prefix}.{path}" if path else prefix: value for path, value in values.items()}


def milliseconds(values_ns: Ints | Floats) -> Floats:
    """ns -> ms; infinities stay."""
    return np.asarray(values_ns, dtype=np.float64) / NS_PER_MS


def put(part: Part, path: str, value: float | int | None, reason: str, digits: int = 6) -> None:
    """Puts a number at a dotted path; None and infinities become null with their reason in `why`."""
    *parents, leaf = path.split(".")
    place = part.entry
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is None or (isinstance(value, float) and np.isnan(value)):
        place[leaf] = None
        part.why[path] = reason
    elif np.isinf(value):
        place[leaf] = None
        part.why[path] = "+inf" if value > 0 else "-inf"
    else:
        place[leaf] = value if isinstance(value, int) else _tidy(float(value), digits)


def put_quantiles(
    part: Part,
    path: str,
    sample: Quantiles,
    names: Iterable[str],
    reason: str,
    *,
    count: bool = False,
    enough: Iterable[str] = (),
) -> None:
    """Nearest-rank quantiles under `path`, with `n` and `enough` where asked; registers the sample."""
    part.samples[path] = sample
    names = tuple(names)
    values: list[float | None] = [None] * len(names)
    if len(sample.values):
        values = [*nearest_ranks(sample.values, [LEVELS[name] for name in names], sample.weights)]
    for name, value in zip(names, values, strict=True):
        put(part, f"{path}.{name}", value, reason, digits=3)
    if count:
        part.entry[path]["n"] = len(sample.values)
    flags = {name: enough_for(sample, name) for name in enough}
    if flags:
        part.entry[path]["enough"] = flags


def enough_for(sample: Quantiles, name: str) -> bool:
    """Whether the independent observations suffice to bound this quantile from both sides."""
    size = len(sample.values)
    if not size:
        return False
    limit = nearest_rank(sample.values, LEVELS[name], sample.weights)
    n_eff = effective_size(sample.values <= limit, sample.blocks, TAIL, sample.independent)
    return n_eff >= ENOUGH[name]


def put_share(part: Part, path: str, sample: Share, reason: str) -> None:
    """The share of units that are good."""
    part.samples[path] = sample
    size = len(sample.good)
    put(part, path, float(np.count_nonzero(sample.good)) / size if size else None, reason)


def put_ratio(part: Part, path: str, sample: Ratio, reason: str, digits: int = 6) -> None:
    """A ratio of sums; null where the denominators sum to nothing."""
    part.samples[path] = sample
    total = float(sample.denominators.sum())
    put(part, path, float(sample.numerators.sum()) / total if total > 0 else None, reason, digits)


def put_exact(part: Part, path: str, value: float | int | None, n: int, reason: str) -> None:
    """A number that no interval belongs to; without a single unit it is null."""
    part.samples[path] = Exact(n=n)
    put(part, path, value if n else None, reason, digits=3)


def number_of(part: Part, path: str) -> tuple[float | None, str]:
    """`look_up` in a part under construction."""
    return look_up({**part.entry, "why": part.why}, path)


def look_up(entry: Mapping[str, Any], path: str) -> tuple[float | None, str]:
    """The number at a dotted path of a stage's entry, infinities restored from `why`, and the reason of a
    null. A name in the entry may hold dots itself."""
    place: Any = _walk(entry, path.split("."))
    if place is _NOTHING:
        return None, "there is nothing of that name in this stage"
    reason = _reason(entry.get("why", {}), path)
    if place is None:
        return {"+inf": np.inf, "-inf": -np.inf}.get(reason), reason
    if isinstance(place, bool | int | float):
        return float(place), ""
    return None, "this is no number"


def _walk(place: Any, steps: Sequence[str]) -> Any:
    """What lies at these steps; a key may take up several of them."""
    if not steps:
        return place
    for length in range(1, len(steps) + 1):
        key = ".".join(steps[:length])
        if isinstance(place, Mapping) and key in place:
            found = _walk(place[key], steps[length:])
            if found is not _NOTHING:
                return found
    return _NOTHING


def _reason(why: Mapping[str, str], path: str) -> str:
    """The reason for a path or for the closest part of the entry that holds it."""
    steps = path.split(".")
    for length in range(len(steps), 0, -1):
        if (found := why.get(".".join(steps[:length]))) is not None:
            return found
    return "no data"


def _tidy(value: float, digits: int) -> float:
    """Rounded, without a negative zero."""
    return round(value, digits) + 0.0
