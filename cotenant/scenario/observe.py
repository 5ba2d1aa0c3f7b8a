"""What is watched beside the load, and can be switched off: to measure what the watching itself costs."""

from pydantic import Field, StrictBool

from cotenant.scenario.model import Model


class Observe(Model):
    """Which observers run."""

    gpu: StrictBool = Field(True, description="The GPU's own readings, by NVML and GPM.")
    canary: StrictBool = Field(True, description="A tiny kernel on the GPU every 5 ms.")
    host: StrictBool = Field(True, description="The tenants' CPU time and memory, and late wake-ups.")
    engine: StrictBool = Field(True, description="The LLM servers' /metrics.")
