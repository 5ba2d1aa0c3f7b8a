"""What might mend a stage and was not tried in this run: named so that a person knows what to run next."""

from typing import Final

from cotenant.scenario.schema import Tenant
from cotenant.verdict.plan import Plan, StagePlan

_PROMPTS: Final = "fewer or shorter prompts of the LLM"


def untried(plan: Plan, stage: StagePlan) -> list[str]:
    """One phrase for each, with the settings to try it with where a scenario has them.

    Nothing here is a promise: only a recording proves a cure.
    """
    if not plan.has_gpu:
        return [_PROMPTS] if plan.of_kind(stage, "completions") else []
    found = []
    if len(stage.loads) > 1:
        found += [
            f"the voices batched in one server (--set tenants.{name}.replicas=1)"
            for name, tenant in _tenants(plan, stage, "voices").items()
            if tenant.engine == "builtin" and tenant.replicas > 1
        ]
    for name, tenant in _tenants(plan, stage, "completions").items():
        found += _sharing(plan, name, tenant)
    return [*found, _PROMPTS] if plan.of_kind(stage, "completions") else found


def _sharing(plan: Plan, name: str, tenant: Tenant) -> list[str]:
    limit = f"--set tenants.{name}.mps.thread_percentage=50"
    priority = f"--set tenants.{name}.mps.priority=1"
    if any(one.engine == "attach" for one in plan.scenario.tenants.values()):
        return []  # MPS is for servers that a run starts
    if plan.scenario.sharing != "mps":
        mps = "--set sharing=mps"
        return [f"MPS with a limit for the LLM ({mps} {limit}), or low priority ({priority})"]
    ways = []
    if tenant.mps is None or tenant.mps.thread_percentage is None:
        ways.append(f"a limit for the LLM ({limit})")
    else:
        ways.append(f"a limit for the LLM below {tenant.mps.thread_percentage} % of the GPU's threads")
    if tenant.mps is None or not tenant.mps.priority:
        ways.append(f"low priority for the LLM ({priority})")
    return ways


def _tenants(plan: Plan, stage: StagePlan, kind: str) -> dict[str, Tenant]:
    names = {plan.scenario.load[load.name].tenant for load in plan.of_kind(stage, kind)}
    return {name: plan.scenario.tenants[name] for name in sorted(names)}
