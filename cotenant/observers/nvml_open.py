"""NVML initialised, or why it is not: no library, another version, no GPU. pynvml is imported here alone."""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from cotenant.observers.nvml import Nvml


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlTrouble:
    """Why NVML or a GPU cannot be used, and what would mend it.

    `kind`: no_binding, no_library, no_driver, mismatch, no_permission, no_device, failed.
    """

    kind: str
    message: str
    advice: str

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}"


_TROUBLES: Final[dict[int, tuple[str, str, str]]] = {
    4: (
        "no_permission",
        "the NVIDIA driver refuses this user",
        "start as a user who may open /dev/nvidiactl, or start the container with its GPUs",
    ),
    9: ("no_driver", "the NVIDIA driver is not loaded", "load it (modprobe nvidia) or install it"),
    12: (
        "no_library",
        "libnvidia-ml.so.1 was not found",
        "install the NVIDIA driver, or start the container with its GPUs (docker run --gpus all)",
    ),
    18: (
        "mismatch",
        "libnvidia-ml and the NVIDIA kernel driver are of different versions",
        "restart the machine, or reload the driver, after its upgrade",
    ),
}


def open_nvml(binding_name: str = "pynvml") -> Nvml | NvmlTrouble:
    """NVML, initialised, or why not."""
    try:
        binding = importlib.import_module(binding_name)
    except Exception as error:  # noqa: BLE001  other packages install a module of the same name, some broken
        return NvmlTrouble(
            kind="no_binding",
            message=f"the module {binding_name} cannot be imported ({error})",
            advice="install nvidia-ml-py",
        )
    if not hasattr(binding, "nvmlInit") or not hasattr(binding, "NVMLError"):
        return NvmlTrouble(
            kind="no_binding",
            message=f"the module {binding_name} is not NVIDIA's binding",
            advice="uninstall pynvml and nvidia-ml-py3, then install nvidia-ml-py",
        )
    try:
        binding.nvmlInit()
    except Exception as error:  # noqa: BLE001
        return _trouble(error, binding)
    nvml = Nvml(binding)
    count, status = nvml.call("nvmlDeviceGetCount")
    if status == "ok" and count > 0:
        return nvml
    nvml.close()
    return NvmlTrouble(
        kind="no_device",
        message="the NVIDIA driver shows no GPU" if status == "ok" else "the NVIDIA driver counts no GPUs",
        advice="check `nvidia-smi -L`, and that the container was started with its GPUs",
    )


def _trouble(error: Exception, binding: ModuleType) -> NvmlTrouble:
    code = getattr(error, "value", None) if isinstance(error, binding.NVMLError) else None
    if code in _TROUBLES:
        kind, message, advice = _TROUBLES[code]
        return NvmlTrouble(kind=kind, message=message, advice=advice)
    if type(error).__name__ in ("NVMLLibraryMismatchError", "NVMLError_FunctionNotFound"):
        return NvmlTrouble(
            kind="mismatch",
            message=f"nvidia-ml-py and libnvidia-ml are of different versions ({error})",
            advice="install a newer driver, or the nvidia-ml-py of its release",
        )
    return NvmlTrouble(
        kind="failed",
        message=f"NVML cannot be initialised ({_text_of(error)})",
        advice="check that `nvidia-smi` works and see `dmesg | grep -i nvrm`",
    )


def _text_of(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  the text of an NVML error is asked of the library, which may be gone
        return type(error).__name__
