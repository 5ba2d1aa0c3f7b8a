"""A fake GPU as data: what NVML would tell of it, and where it would fail."""

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class FakeGpu:
    """One GPU and its answers. `codes`: C function (or `field:N`, `gpm:N`) -> the code it returns instead."""

    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    name: bytes = b"NVIDIA H200"
    gpm: bool = True
    gpm_values: dict[int, float] = field(
        default_factory=lambda: {2: 40.0, 3: 20.0, 5: 10.0, 10: 14.0, 20: 100.0, 21: 200.0}
    )
    memory_total_bytes: int = 150_000_000_000
    memory_used_bytes: int = 90_000_000_000
    clocks_mhz: dict[int, int] = field(default_factory=lambda: {1: 1980, 2: 3201})
    event_reasons: int = 0x4
    power_mw: int = 690_000
    power_stamp_frozen: bool = False
    throttled_share: float = 0.25
    utilization_percent: int = 39
    energy_mj_per_s: int = 500_000
    processes: list[tuple[int, int]] = field(default_factory=list)
    mps_processes: list[tuple[int, int]] = field(default_factory=list)
    # UUIDs; what each holds and runs is its own, and not the card's.
    mig_slices: list[str] = field(default_factory=list)
    slice_total_bytes: int = 20_000_000_000
    slice_used_bytes: int = 5_000_000_000
    slice_processes: list[tuple[int, int]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    # (calls before it, code): what a function answers from then on.
    fails_after: dict[str, tuple[int, int]] = field(default_factory=dict)
