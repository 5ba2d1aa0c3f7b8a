"""The voice's engine: utterances step together, a codec frame (80 ms) each, and go out in packets."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.runtime import Runtime, prepare, spend_host_time, weights
from cotenant.tenants.builtin.shapes.blocks import sample_top_k
from cotenant.tenants.builtin.shapes.qwen3_tts import TtsSizes, text_tokens
from cotenant.tenants.builtin.tts_steps import RecordedSteps, Steps, TtsModel

Samples = NDArray[np.int16]


@dataclass(slots=True, kw_only=True, eq=False)
class Utterance:
    """One request. `send` gets each packet's samples and None at the end, in the engine's thread.

    Setting `cancelled` from any thread drops it at the next step.
    """

    text: str
    samples: Samples
    packets: PacketPolicy
    send: Callable[[Samples | None], None]
    cancelled: bool = False
    slot: int = -1
    frames: int = 0
    made: int = 0
    sent: int = 0
    due: int = 0
    sizes: Iterator[int] = field(default_factory=lambda: iter(()))
    codes: list[Tensor] = field(default_factory=list)
    text_left: deque[Tensor] = field(default_factory=deque)
    next_input: Tensor | None = None


class TtsEngine:
    """Steps all utterances together. Frames are made as fast as they can be: nothing is paced."""

    def __init__(
        self,
        model: TtsModel,
        *,
        recorded: bool = False,
        packet_frames: Iterable[int] = (),
        step_overhead_ns: int = 0,
    ) -> None:
        self.model, self.sizes = model, model.sizes
        self.samples_per_frame = model.sizes.codec.samples_per_frame
        self.step_overhead_ns = step_overhead_ns
        self.frame_ms: float | None = None
        self._device = model.pad.device
        self._cache = model.talker.decoder.new_cache(self.sizes.slots)
        self._steps = (
            RecordedSteps(model, self._cache, packet_frames) if recorded else Steps(model, self._cache)
        )
        self._waiting: deque[Utterance] = deque()
        self._running: list[Utterance] = []

    @property
    def active(self) -> int:
        return len(self._waiting) + len(self._running)

    def close(self) -> None:
        """Nothing: all of the engine is in the thread that steps it."""

    @property
    def frames_limit(self) -> int:
        """The longest utterance that fits beside its prompt."""
        return self.sizes.frames - self.sizes.role_tokens - 1

    def wait_for_device(self) -> None:
        """Returns when all that was launched is done."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def add(self, utterance: Utterance) -> None:
        """Queues an utterance; it starts at the next step that has a free slot."""
        utterance.frames = -(-len(utterance.samples) // self.samples_per_frame)
        utterance.sizes = utterance.packets.sizes()
        utterance.due = min(next(utterance.sizes), utterance.frames)
        self._waiting.append(utterance)

    def step(self) -> bool:
        """One frame for each utterance: talker, code 0, the further codes, then the packets that are due."""
        with torch.inference_mode():
            self._drop_cancelled()
            while self._waiting and self._cache.free_slots:
                self._start(self._waiting.popleft())
            if not self._running:
                return False
            self._make_frames()
            self._send_packets()
        return True

    def _drop_cancelled(self) -> None:
        self._waiting = deque(one for one in self._waiting if not one.cancelled)
        for one in [one for one in self._running if one.cancelled]:
            self._finish(one)

    def _finish(self, utterance: Utterance) -> None:
        self._cache.release(utterance.slot)
        self._running.remove(utterance)

    def _start(self, utterance: Utterance) -> None:
        """The prompt's forward: role tokens, then one text token; the others join the frames one by one."""
        talker = self.model.talker
        tokens = [
            *range(self.sizes.role_tokens),
            *text_tokens(utterance.text, self.sizes.talker.text_vocabulary),
        ]
        embedded = talker.embed_text(torch.tensor(tokens, device=self._device))
        prompt = embedded[: self.sizes.role_tokens + 1]
        utterance.text_left = deque(embedded[self.sizes.role_tokens + 1 :])
        utterance.slot = self._cache.acquire()
        talker(prompt[:-1], self._cache.plan([(utterance.slot, len(prompt) - 1)]), self._cache)
        utterance.next_input = prompt[-1]
        self._steps.begin(utterance.slot)
        self._running.append(utterance)
        self._running.sort(key=lambda one: one.slot)

    def _make_frames(self) -> None:
        model, sizes = self.model, self.sizes
        inputs = torch.stack([one.next_input for one in self._running if one.next_input is not None])
        hidden, logits = self._steps.talk(inputs, [one.slot for one in self._running])
        drawn = sample_top_k(logits, sizes.top_k, sizes.temperature)
        # The host must see code 0 before it goes on, as an engine must to know whether the utterance ended.
        code0 = torch.tensor(drawn.tolist(), device=self._device)
        spend_host_time(self.step_overhead_ns)
        embedded = model.talker.code_embedding(code0)
        further, total = self._steps.predict(hidden, embedded)
        codes = torch.cat((code0.unsqueeze(1), further), dim=1)
        texts = [one.text_left.popleft() if one.text_left else model.pad for one in self._running]
        following = embedded + total + torch.stack(texts)
        for row, one in enumerate(self._running):
            one.codes.append(codes[row])
            one.made += 1
            one.next_input = following[row]

    def _send_packets(self) -> None:
        """Decodes what is due, packets of one length together."""
        due = [one for one in self._running if one.made == one.due]
        context = self.sizes.context_frames
        groups: dict[int, list[Utterance]] = {}
        for one in due:
            first = one.sent if context is None else max(0, one.sent - context)
            groups.setdefault(one.made - first, []).append(one)
        for length, group in groups.items():
            codes = torch.stack([torch.stack(one.codes[-length:]) for one in group])
            if context is None:
                slots, sent = [one.slot for one in group], [one.sent for one in group]
                decoded = self._steps.decode_next(codes, slots, sent)
            else:
                decoded = self.model.decoder(codes)
            decoded.cpu()  # the samples come to the host, as a server's would
        for one in due:
            start, end = one.sent * self.samples_per_frame, one.made * self.samples_per_frame
            one.send(one.samples[start:end])
            one.sent = one.made
            if one.made == one.frames:
                one.send(None)
                self._finish(one)
            else:
                one.due = min(one.made + next(one.sizes), one.frames)
                one.codes = one.codes[-context:] if context else []


def build(sizes: TtsSizes, runtime: Runtime, packets: PacketPolicy | None = None) -> TtsEngine:
    """A voice with random weights; to be called in the thread that steps it.

    `packets` are those that answers will have: where calls are recorded, theirs are too. On a GPU the engine
    is warmed and its `frame_ms` measured.
    """
    device, dtype = prepare(runtime, sizes.cpu_threads)
    with weights(device, dtype):
        model = TtsModel(sizes).eval().requires_grad_(False)
    overhead_ns = runtime.step_overhead_ns
    if overhead_ns is None:
        overhead_ns = sizes.step_overhead_ns if runtime.recorded else 0
    policy = packets or PacketPolicy()
    engine = TtsEngine(
        model,
        recorded=runtime.recorded,
        packet_frames=policy.lengths(),
        step_overhead_ns=overhead_ns,
    )
    if device.type == "cuda":
        speak_once(engine, policy)
        engine.frame_ms = measure_frame_ms(engine)
    return engine


def speak_once(engine: TtsEngine, packets: PacketPolicy) -> None:
    """An utterance with every length of packet twice and one that ends short, so that nothing is cold."""
    frames = 2 * sum(packets.lengths()) + 1
    samples = np.zeros(frames * engine.samples_per_frame, np.int16)
    engine.add(Utterance(text="one, two", samples=samples, packets=packets, send=lambda packet: None))
    while engine.step():
        pass


def measure_frame_ms(engine: TtsEngine, *, utterances: int = 1, warm: int = 4, frames: int = 32) -> float:
    """Mean wall time of a frame's step, in ms: talker, code 0 on the host, predictor, no packets.

    To be called in the engine's thread while it serves nobody. The figure stands beside a published one
    (`published`), so it is of a step and holds no codec.
    """
    total = warm + frames
    samples = np.zeros((total + 1) * engine.samples_per_frame, np.int16)
    never = PacketPolicy(first=total + 1)
    made = [
        Utterance(text="a sentence of ordinary length, said twice", samples=samples, packets=never,
                  send=lambda packet: None)
        for _ in range(utterances)
    ]  # fmt: skip
    for one in made:
        engine.add(one)
    for _ in range(warm):
        engine.step()
    engine.wait_for_device()
    began_ns = time.perf_counter_ns()
    for _ in range(frames):
        engine.step()
    engine.wait_for_device()
    took_ns = time.perf_counter_ns() - began_ns
    for one in made:
        one.cancelled = True
    engine.step()
    return took_ns / frames / 1e6
