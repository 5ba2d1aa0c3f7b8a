"""What is watched beside the load, and can be switched off: to measure what the watching itself costs."""

from pydantic import BaseModel, ConfigDict, StrictBool


class Observe(BaseModel):
    """Which observers run. `gpu`: NVML and GPM; `canary`: the tiny kernel every 5 ms; `host`: CPU time,
    memory and sleeps; `engine`: the LLM servers' /metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu: StrictBool = True
    canary: StrictBool = True
    host: StrictBool = True
    engine: StrictBool = True
