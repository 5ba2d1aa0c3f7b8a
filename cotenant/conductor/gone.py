"""Services that are gone: which windows cannot be run without them, and what is said of that.

A process that this run started and that has ended is gone for good: nobody starts it again. An attached
service may come back at any time, and so may one behind a launched program that still runs. It is taken for
gone where it refused every connection at the end of a settle limit, a stage has been measured so and has
failed or is INVALID, and it still refuses before the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.conductor.plan import Window
from cotenant.records import SOLO_PREFIX
from cotenant.scenario.schema import Faces, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A service that was lost in the window `stage`.

    `process`: the one that ended (`tts@1` of a tenant with replicas) and `how`; `tail`: the end of its log.
    None where none ended, and nothing listens: `missed_in` is then the last stage that was measured without
    it, and `judged` whether that stage failed or is INVALID.
    """

    tenant: str
    stage: str
    process: str | None = None
    how: str = ""
    tail: str = ""
    missed_in: str | None = None
    judged: bool = False

    @property
    def for_good(self) -> bool:
        return self.process is not None

    @property
    def sentence(self) -> str:
        if self.process is None:
            return f"the tenant {self.tenant!r} refused every connection from {self.stage} on"
        return f"the tenant {self.process!r} ended ({self.how}) in {self.stage}"

    @property
    def why(self) -> str:
        """Why a window that needs the tenant is not run."""
        if self.process is None:
            return (
                f"it needs {self.tenant}, which refused every connection from {self.stage} on: nothing "
                "listened there"
            )
        ended = f"ended ({self.how}) in {self.stage}; see logs/{self.process}.log"
        if self.process == self.tenant:
            return f"it needs {self.tenant}, which {ended}"
        return f"it needs every replica of {self.tenant}, and {self.process} {ended}"


def needed(scenario: Scenario, loads: Iterable[str]) -> tuple[str, ...]:
    """The tenants that these loads talk to."""
    return tuple(dict.fromkeys(scenario.load[load].tenant for load in loads))


def needed_by(scenario: Scenario, load: str, loads: Sequence[str]) -> tuple[str, ...]:
    """The tenants without which a load of a window with these `loads` has no output: a face draws what it
    hears, where the voice speaks in that window too."""
    written = scenario.load[load]
    follows = [written.follows] if isinstance(written, Faces) and written.follows in loads else []
    return needed(scenario, [load, *follows])


def lacking(scenario: Scenario, window: Window, gone: Mapping[str, Gone]) -> Gone | None:
    """Whose loss keeps a window from being run; None where nobody's does.

    One that may come back is missed in a stage first, and that has to fail: a run must not end better because
    a service was not asked any more. Solo windows are not judged.
    """
    for tenant in needed(scenario, window.loads):
        found = gone.get(tenant)
        if found is not None and (found.for_good or found.judged or window.stage.startswith(SOLO_PREFIX)):
            return found
    return None


def ended_by(gone: Sequence[Gone], not_run: Sequence[Window]) -> str:
    """The sentence by which a run ends that lost services: who, and which windows were not run without."""
    said = "; ".join(one.sentence for one in gone)
    if not_run:
        names = list(dict.fromkeys(window.stage for window in not_run))
        said += f"; not run without {'it' if len(gone) == 1 else 'them'}: {_listed(names)}"
    return said + "".join(one.tail for one in gone)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
