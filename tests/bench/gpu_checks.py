"""Whether the parts that take another way on a GPU compute there what they compute without it."""

import dataclasses
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Mode, Runtime, prepare, weights
from cotenant.tenants.builtin.shapes import blocks, moe, portrait, tiny

TINY_SPREAD = 0.02  # of the largest value: half precision


def gap(found: Tensor, right: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    found, right = found.double().cpu(), right.double().cpu()
    return float((found - right).abs().max() / right.abs().max())


def causal(device: str) -> float:
    """The flash kernel called by name, with shared key heads and more keys than queries."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q, k, v = (torch.randn(2, heads, rows, 64).to(dtype) for heads, rows in ((8, 96), (2, 160), (2, 160)))
    found = blocks.causal_attention(q.to(device), k.to(device), v.to(device))
    return gap(found, blocks.causal_attention(q, k, v))


def experts(device: str) -> float:
    """A mixture of experts against itself elsewhere, with each token's experts given.

    Left to choose, the devices differ: of these 77 tokens one has two equal scores at the edge of its four
    experts in bfloat16, and the other choice is 0.42 of the largest value away.
    """
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    torch.manual_seed(5)
    made = moe.Experts(256, moe.ExpertSizes(count=16, active=4, intermediate=128)).to(dtype)
    x = torch.randn(77, 256).to(dtype)
    chosen = made.chosen(x)
    right = made.mixed(x, *chosen)
    return gap(made.to(device).mixed(x.to(device), *(part.to(device) for part in chosen)), right)


def choices(device: str) -> dict[str, int]:
    """How many of 77 tokens choose other experts on this device than on a CPU, and how many have ties."""
    torch.manual_seed(5)
    made = moe.Experts(256, moe.ExpertSizes(count=16, active=4, intermediate=128)).to(torch.bfloat16)
    x = torch.randn(77, 256).to(torch.bfloat16)
    scores = made.router(x).float().topk(5, dim=-1).values
    here = made.chosen(x)[0].sort(dim=-1).values
    there = made.to(device).chosen(x.to(device))[0].sort(dim=-1).values.cpu()
    return {
        "tokens": len(x),
        "choose_others": int((here != there).any(dim=1).sum()),
        "ties_at_the_edge": int((scores[:, 3] == scores[:, 4]).sum()),
    }


def grouped(device: str) -> dict[str, Any]:
    """Each group of the grouped product against its own in 64-bit floats: rows and gap, by group.

    Groups of no rows, of one, of odd numbers, beginning anywhere; both layouts that the experts use.
    """
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    torch.manual_seed(6)
    counts = [0, 5, 1, 0, 40, 17, 64, 3, 129, 0, 8, 1, 33, 2, 7, 0]
    ends = torch.tensor(counts).cumsum(0).to(torch.int32)
    row: dict[str, Any] = {"rows": counts}
    for name, (out, inner) in {"gate_up": (256, 256), "down": (256, 128)}.items():
        weights = (torch.rand(len(counts), out, inner) * 2 - 1).to(dtype) * inner**-0.5
        x = torch.randn(int(ends[-1]), inner).to(dtype)
        found = moe.grouped_product(x.to(device), weights.to(device), ends.to(device)).cpu().double()
        gaps: list[float | None] = []
        for number, count in enumerate(counts):
            part = slice(int(ends[number]) - count, int(ends[number]))
            right = x[part].double() @ weights[number].double().T
            gaps.append(round(gap(found[part], right), 5) if count else None)
        row[f"{name}_gaps"] = gaps
        row[f"{name}_largest"] = max(one for one in gaps if one is not None)
    return row


def norm(device: str) -> float:
    """The instance norm that keeps the memory order."""
    x = torch.randn(1, 32, 16, 16) * 3 + 1
    return gap(portrait.instance_norm(x.to(device)), torch.nn.functional.instance_norm(x))


def replays(device: str) -> float:
    """A small voice's samples when its calls are recorded, against the same voice launched anew.

    At a temperature near 0 both draw the same codes, in 32-bit floats almost always.
    """
    return gap(_codes("graphs", device), _codes("eager", device))


def _codes(mode: Mode, device: str) -> Tensor:
    from cotenant.tenants.builtin import tts
    from cotenant.tenants.builtin.tts_steps import TtsModel

    sizes = dataclasses.replace(tiny.TTS, context_frames=None, frames=512, temperature=1e-6)
    where, _ = prepare(Runtime(device=device), 1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with weights(where, torch.float32):
        model = TtsModel(sizes).eval().requires_grad_(False)
    engine = tts.TtsEngine(model, recorded=mode == "graphs", packet_frames=(1, 4))
    kept: list[Tensor] = []
    decode = engine._steps.decode_next

    def keep(codes: Tensor, *where: Any) -> Tensor:
        out = decode(codes, *where)
        kept.append(out.clone())
        return out

    engine._steps.decode_next = keep  # type: ignore[method-assign, assignment]
    for count in (5, 9, 13):
        samples = torch.zeros(1920 * count, dtype=torch.int16).numpy()
        engine.add(
            tts.Utterance(text="one two", samples=samples, packets=PacketPolicy(), send=lambda packet: None)
        )
        engine.step()
    while engine.step():
        pass
    return torch.cat([out.flatten() for out in kept])


def run(device: str) -> dict[str, Any]:
    """Each check's gap, or its traceback; `wrong` names those that are too far off."""
    checks: dict[str, Callable[[str], float]] = {
        "causal": causal, "experts": experts, "norm": norm, "replays": replays
    }  # fmt: skip
    row: dict[str, Any] = {"device": torch.cuda.get_device_name(device) if device != "cpu" else "cpu"}
    row["torch"] = torch.__version__
    for name, check in checks.items():
        try:
            with torch.inference_mode():
                row[name] = check(device)
        except Exception:  # noqa: BLE001 - one run is to tell all that fails
            row[name] = traceback.format_exc()
    for name, told in (("choices", choices), ("grouped", grouped)):
        try:
            with torch.inference_mode():
                row[name] = told(device)
        except Exception:  # noqa: BLE001
            row[name] = traceback.format_exc()
    row["wrong"] = [name for name in checks if not isinstance(row[name], float) or row[name] > TINY_SPREAD]
    return row
