"""cotenant: will voice and video survive on a shared GPU?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.api import Run, open_run

__version__ = "0.1.0"
__all__ = ["Run", "__version__", "open_run"]


def __getattr__(name: str) -> Any:
    """`open_run` and `Run` are imported when they are first asked for: the command line has to start fast."""
    if name in ("Run", "open_run"):
        from cotenant import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
