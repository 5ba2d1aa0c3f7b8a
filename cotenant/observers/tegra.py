"""The load of a Jetson's GPU from sysfs: NVML shows that GPU by name and tells next to nothing else of it.

The file `load` of the nvgpu driver holds thousandths of the time in which the GPU was busy, as that driver
averages it: not SM use, and no window of ours. It lies below `devices/` at a place of each board's own.
"""

from pathlib import Path
from typing import Final

from cotenant.observers.nvml import NONE, Reading

METRIC: Final = "tegra_gpu_load_percent"
# Where boards without the devfreq class have it (L4T 32 and older, JetPack 5, JetPack 6).
_PLACES: Final = ("devices/gpu.0", "devices/platform/gpu.0", "devices/platform/bus@0/17000000.gpu")
_FULL: Final = 1000


def find_load(sysfs: Path) -> Path | None:
    """The file, below `sysfs` (/sys); None where this is no Jetson."""
    places = [entry / "device" for entry in sorted(sysfs.glob("class/devfreq/*")) if _is_nvidia_gpu(entry)]
    places += [sysfs / place for place in _PLACES]
    return next((place / "load" for place in places if (place / "load").is_file()), None)


def read_load(path: Path) -> Reading:
    """Percent of the time in which the GPU was busy, as the driver last averaged it."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError:
        return Reading(None, "no_permission")
    except OSError:  # the GPU is switched off, or the driver was unloaded
        return Reading(None, "lost")
    if not (text.isascii() and text.isdecimal()) or int(text) > _FULL:
        return NONE
    return Reading(int(text) * 100 / _FULL, "ok")


def _is_nvidia_gpu(entry: Path) -> bool:
    """Whether a devfreq device is NVIDIA's: other makers' boards name theirs `gpu` too."""
    node = entry / "device" / "of_node"
    try:
        names = (node / "compatible").read_bytes().split(b"\0")
        kind = (node / "name").read_bytes().strip(b"\0\n")
    except OSError:
        return False
    return any(name.startswith(b"nvidia,") for name in names) and kind in (
        b"gpu",
        b"gp10b",
        b"gv11b",
        b"ga10b",
    )
