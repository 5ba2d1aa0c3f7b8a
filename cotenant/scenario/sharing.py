"""What a scenario says of sharing the GPU: contradictions, and what is allowed but seldom meant. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.scenario.schema import Scenario, Tenant
from cotenant.scenario.yaml_text import Path

Found = tuple[Path, str]

# https://docs.nvidia.com/deploy/mps/: by these a program finds its daemon.
_DAEMON_VARIABLES: Final = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


def run_checks(data: Mapping[str, Any]) -> Iterator[Found]:
    """Of the scenario as a whole, as (path, message)."""
    if data.get("sharing") == "mps" and data.get("device") == "cpu":
        yield ("sharing",), "mps shares an NVIDIA GPU, and device is cpu; remove sharing, or device"


def tenant_checks(tenant: Mapping[str, Any], sharing: object) -> Iterator[Found]:
    """Of one tenant, as (path in the tenant, message)."""
    if sharing == "mps" and tenant.get("engine") == "attach":
        yield (
            ("engine",),
            "sharing: mps acts on servers started here; use builtin or launch, or sharing: time-slice",
        )
    limits = tenant.get("mps")
    if limits and sharing != "mps":
        yield ("mps",), "this needs sharing: mps at the top of the scenario; set that, or remove mps"
    elif limits and tenant.get("device") == "cpu":
        yield ("mps",), "MPS limits act on a GPU, and this tenant's device is cpu; remove mps, or device"
    variables = tenant.get("env")
    if sharing == "mps" and isinstance(variables, Mapping):
        for name in _DAEMON_VARIABLES:
            if name in variables:
                yield (
                    ("env", name),
                    "this would take the service away from the run's own MPS daemon; remove it, or use "
                    "sharing: time-slice",
                )


def warnings(scenario: Scenario) -> list[dict[str, str]]:
    """What is allowed and seldom meant: kind, text and advice of each."""
    if scenario.sharing != "mps":
        return []
    llms = {name: one for name, one in scenario.tenants.items() if one.kind == "completions"}
    free = [name for name, one in llms.items() if _on_gpu(one) and not _limited(one)]
    others = [name for name, tenant in scenario.tenants.items() if tenant.kind != "completions"]
    if not free or not others:
        return []
    return [
        {
            "kind": "mps-without-limit",
            "text": f"sharing: mps without a limit for {', '.join(free)}: kernels run side by side, and "
            f"those of an LLM can crowd out those of {', '.join(others)}",
            "advice": f"try tenants.{free[0]}.mps: {{thread_percentage: 50}}, or {{priority: 1}}",
        }
    ]


def _on_gpu(tenant: Tenant) -> bool:
    return tenant.engine != "attach" and tenant.device != "cpu"


def _limited(tenant: Tenant) -> bool:
    limits = tenant.mps
    return limits is not None and ((limits.thread_percentage or 100) < 100 or bool(limits.priority))
