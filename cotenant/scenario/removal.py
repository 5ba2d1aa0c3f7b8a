"""What goes with a tenant or load that is removed (null): its loads, and their places in stages. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.scenario.yaml_text import Path

_SECTIONS: Final = ("tenants", "load")


def names(data: object) -> frozenset[Path]:
    """The paths of all tenants and loads of plain data."""
    if not isinstance(data, Mapping):
        return frozenset()
    sections = ((section, data.get(section)) for section in _SECTIONS)
    return frozenset(
        (section, str(name)) for section, items in sections if isinstance(items, Mapping) for name in items
    )


def take_out(
    data: dict[str, Any], places: dict[Path, str], removed: frozenset[Path], *, stages: bool = True
) -> list[str]:
    """Takes what needs the `removed` tenants and loads out of `data` and `places`, a sentence for each.

    A load goes with its tenant, faces with the voices that they follow. A stage loses the loads that are
    gone; it is dropped where none is left, or where it is then what an earlier stage is. `stages`: False
    leaves them as they are.
    """
    tenants, gone = ({str(path[1]) for path in removed if path[0] == section} for section in _SECTIONS)
    notes = _take_loads(data.get("load"), places, tenants, gone)
    if stages and gone and isinstance(data.get("stages"), list):
        notes += _take_from_stages(data, places, gone)
    return notes


def _take_loads(loads: object, places: dict[Path, str], tenants: set[str], gone: set[str]) -> list[str]:
    """Removes the loads of `tenants` and the faces that follow these; adds their names to `gone`."""
    notes: list[str] = []
    if not isinstance(loads, dict):
        return notes
    for key, what in (("tenant", tenants), ("follows", gone)):
        for name, load in list(loads.items()):
            needed = load.get(key) if isinstance(load, Mapping) else None
            if isinstance(needed, str) and needed in what:
                del loads[name]
                gone.add(name)
                for place in [place for place in places if place[:2] == ("load", name)]:
                    del places[place]
                owner = f"its tenant {needed}" if key == "tenant" else f"{needed}, which it follows"
                notes.append(f"the load {name} is removed with {owner}")
    return notes


def _take_from_stages(data: dict[str, Any], places: dict[Path, str], gone: set[str]) -> list[str]:
    kept: list[Any] = []
    moved: dict[int, int] = {}
    notes = []
    for index, stage in enumerate(data["stages"]):
        left = _left(stage, gone)
        if left is not None:
            without = f"without {', '.join(name for name in stage['load'] if name not in left)}"
            same = next((one for one in kept if _loads(one) == frozenset(map(str, left))), None)
            if not left:
                notes.append(f"the stage {stage.get('name')} is dropped: nothing is left of its load")
                continue
            if same is not None:
                if stage.get("baseline") is True:
                    same["baseline"] = True
                why = f"{without} it is the same as {same.get('name')}"
                notes.append(f"the stage {stage.get('name')} is dropped: {why}")
                continue
            notes.append(f"the stage {stage.get('name')} runs {without}")
            stage["load"] = left
        moved[index] = len(kept)
        kept.append(stage)
    data["stages"] = kept
    _renumber(places, moved)
    return notes


def _left(stage: object, gone: set[str]) -> list[Any] | None:
    """What is left of a stage's loads; None where nothing is taken from it."""
    loads = stage.get("load") if isinstance(stage, dict) else None
    if not isinstance(loads, list):
        return None
    left = [name for name in loads if not isinstance(name, str) or name not in gone]
    return left if len(left) < len(loads) else None


def _loads(stage: object) -> frozenset[str]:
    loads = stage.get("load") if isinstance(stage, dict) else None
    return frozenset(map(str, loads)) if isinstance(loads, list) else frozenset()


def _renumber(places: dict[Path, str], moved: Mapping[int, int]) -> None:
    """The places of stages by their new numbers. Those inside a stage's load are left to the stage's own."""
    old = {path: place for path, place in places.items() if path[:1] == ("stages",) and len(path) > 1}
    for path in old:
        del places[path]
    for path, place in old.items():
        if path[1] in moved and len(path) < 4:
            places["stages", moved[int(path[1])], *path[2:]] = place
