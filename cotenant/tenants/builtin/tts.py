"""The voice's engine: utterances step together, a codec frame (80 ms) each, and go out in packets."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor, nn

from cotenant.tenants.builtin.packets import PacketPolicy
from cotenant.tenants.builtin.recordings import Samples
from cotenant.tenants.builtin.runtime import Runtime, prepare
from cotenant.tenants.builtin.shapes.blocks import sample_top_k
from cotenant.tenants.builtin.shapes.codec import CodecDecoder
from cotenant.tenants.builtin.shapes.qwen3_tts import CodePredictor, Talker, TtsSizes, text_tokens


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


class TtsModel(nn.Module):
    """The voice's three parts."""

    def __init__(self, sizes: TtsSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.talker = Talker(sizes.talker, sizes.frames)
        self.predictor = CodePredictor(sizes.predictor, sizes.talker.decoder.hidden, sizes.slots)
        self.decoder = CodecDecoder(sizes.codec)
        self.pad = nn.Parameter(torch.zeros(sizes.talker.decoder.hidden))


class TtsEngine:
    """Steps all utterances together. Frames are made as fast as they can be: nothing is paced."""

    def __init__(self, model: TtsModel) -> None:
        self.model, self.sizes = model, model.sizes
        self.samples_per_frame = model.sizes.codec.samples_per_frame
        self._device = model.pad.device
        self._cache = model.talker.decoder.new_cache(self.sizes.slots)
        self._waiting: deque[Utterance] = deque()
        self._running: list[Utterance] = []

    @property
    def active(self) -> int:
        return len(self._waiting) + len(self._running)

    @property
    def frames_limit(self) -> int:
        """The longest utterance that fits beside its prompt."""
        return self.sizes.frames - self.sizes.role_tokens - 1

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
        self._running.append(utterance)
        self._running.sort(key=lambda one: one.slot)

    def _make_frames(self) -> None:
        model, sizes = self.model, self.sizes
        inputs = torch.stack([one.next_input for one in self._running if one.next_input is not None])
        hidden = model.talker(inputs, self._cache.plan([(one.slot, 1) for one in self._running]), self._cache)
        drawn = sample_top_k(model.talker.head(hidden), sizes.top_k, sizes.temperature)
        # The host must see code 0 before it goes on, as an engine must to know whether the utterance ended.
        code0 = torch.tensor(drawn.tolist(), device=self._device)
        embedded = model.talker.code_embedding(code0)
        further, total = model.predictor(hidden, embedded, sizes.top_k, sizes.temperature)
        codes = torch.cat((code0.unsqueeze(1), further), dim=1)
        summed = embedded + total
        for row, one in enumerate(self._running):
            one.codes.append(codes[row])
            one.made += 1
            one.next_input = summed[row] + (one.text_left.popleft() if one.text_left else model.pad)

    def _send_packets(self) -> None:
        """Decodes what is due, packets of one length together, each with its context to the left."""
        due = [one for one in self._running if one.made == one.due]
        groups: dict[int, list[Utterance]] = {}
        for one in due:
            first = max(0, one.sent - self.sizes.context_frames)
            groups.setdefault(one.made - first, []).append(one)
        for length, group in groups.items():
            decoded = self.model.decoder(torch.stack([torch.stack(one.codes[-length:]) for one in group]))
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
                one.codes = list(islice(reversed(one.codes), self.sizes.context_frames))[::-1]


def build(sizes: TtsSizes, runtime: Runtime) -> TtsEngine:
    """A voice with random weights; to be called in the thread that steps it."""
    device, dtype = prepare(runtime, sizes.cpu_threads)
    with device:
        model = TtsModel(sizes)
    return TtsEngine(model.to(device=device, dtype=dtype).eval().requires_grad_(False))
