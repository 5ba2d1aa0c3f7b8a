"""Where the files that ship with the package are: in an installed wheel, or in a checkout."""

from pathlib import Path
from typing import Final

DATA_NAMES: Final = ("scenarios", "fixtures", "dashboards")
_PACKAGE: Final = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """The folder `scenarios`, `fixtures` or `dashboards`.

    Raises KeyError for another name, FileNotFoundError where the installation is broken.
    """
    if name not in DATA_NAMES:
        raise KeyError(name)
    for candidate in (_PACKAGE / "data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the folder {name!r} that ships with cotenant is missing; install it again")
