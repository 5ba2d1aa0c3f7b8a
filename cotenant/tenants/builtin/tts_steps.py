"""The voice's forwards as its engine asks for them: launched anew each time, or recorded and replayed."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.codec import CodecDecoder
from cotenant.tenants.builtin.shapes.graphs import Recorder, bucket, buckets
from cotenant.tenants.builtin.shapes.kv_cache import KvCache
from cotenant.tenants.builtin.shapes.qwen3_tts import CodePredictor, Talker, TtsSizes

_SHORTEST_KV = 256  # tokens; the fixed key lengths are this, doubled up to the longest utterance


class TtsModel(nn.Module):
    """The voice's three parts."""

    def __init__(self, sizes: TtsSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.talker = Talker(sizes.talker, sizes.frames)
        self.predictor = CodePredictor(sizes.predictor, sizes.talker.decoder.hidden, sizes.slots)
        self.decoder = CodecDecoder(sizes.codec)
        self.pad = nn.Parameter(torch.zeros(sizes.talker.decoder.hidden))


class Steps:
    """Every kernel is launched by the host, with tensors as long as the utterances are."""

    def __init__(self, model: TtsModel, cache: KvCache) -> None:
        self.model, self.cache = model, cache
        self.device = model.pad.device
        if model.sizes.context_frames is None:
            self.memory = model.decoder.remember(model.sizes.slots)

    def talk(self, inputs: Tensor, slots: Sequence[int]) -> tuple[Tensor, Tensor]:
        """One token for each slot: (rows, hidden) -> the talker's output and the logits of code 0."""
        talker = self.model.talker
        hidden = talker(inputs, self.cache.plan([(slot, 1) for slot in slots]), self.cache)
        return hidden, talker.head(hidden)

    def predict(self, hidden: Tensor, code0_embedding: Tensor) -> tuple[Tensor, Tensor]:
        """A frame's further codes and the sum of their embeddings, as `CodePredictor` gives them."""
        sizes, predictor = self.model.sizes, self.model.predictor
        further, total = predictor(hidden, code0_embedding, sizes.top_k, sizes.temperature)
        return further, total

    def begin(self, slot: int) -> None:
        """A new utterance takes this slot."""
        if self.model.sizes.context_frames is None:
            self.memory.clear(slot)

    def decode_next(self, codes: Tensor, slots: Sequence[int], positions: Sequence[int]) -> Tensor:
        """(rows, frames, codes) that follow what the slots have had decoded -> (rows, samples)."""
        at = torch.tensor([slots, positions], device=self.device)
        return self.model.decoder.next(codes, at[0], at[1])


class RecordedSteps(Steps):
    """Fixed shapes, recorded: the talker's step and the whole frame of the predictor are one replay each.

    Row i of the talker is slot i; a step computes the smallest recorded number of rows that reaches every
    running slot, and reads keys up to the smallest recorded length. Rows without an utterance compute what
    nobody reads. Packets of the lengths in `packet_frames` are recorded too; others (the last of an
    utterance) are launched.
    """

    def __init__(self, model: TtsModel, cache: KvCache, packet_frames: Iterable[int]) -> None:
        super().__init__(model, cache)
        sizes = model.sizes
        self._rows = buckets(sizes.slots)
        self._lengths = buckets(cache.capacity, _SHORTEST_KV)
        width = sizes.talker.decoder.hidden
        with torch.inference_mode(), self.device:
            like = model.pad
            self._inputs, self._hidden, self._code0 = (like.new_zeros(sizes.slots, width) for _ in range(3))
            self._positions = torch.zeros(sizes.slots, dtype=torch.int64)
            recorder = Recorder(self.device)
            self._talkers = {
                (rows, length): recorder.record(self._talker_call(rows, length))
                for rows in reversed(self._rows)
                for length in reversed(self._lengths)
            }
            self._predictors = {
                rows: recorder.record(self._predictor_call(rows)) for rows in reversed(self._rows)
            }
            self._codecs: dict[tuple[int, int], Callable[[], Tensor]] = {}
            if sizes.context_frames is None:
                self._record_codec(recorder, sorted(set(packet_frames), reverse=True))

    def _talker_call(self, rows: int, length: int) -> Callable[[], tuple[Tensor, Tensor]]:
        talker, inputs, positions = self.model.talker, self._inputs[:rows], self._positions[:rows]

        def call() -> tuple[Tensor, Tensor]:
            hidden = talker(inputs, self.cache.fixed_plan(positions, length), self.cache)
            return hidden, talker.head(hidden)

        return call

    def _predictor_call(self, rows: int) -> Callable[[], tuple[Tensor, Tensor]]:
        hidden, code0 = self._hidden[:rows], self._code0[:rows]
        return lambda: Steps.predict(self, hidden, code0)

    def _record_codec(self, recorder: Recorder, packet_frames: list[int]) -> None:
        slots, groups = self.model.sizes.slots, self.model.sizes.predictor.groups
        self._codes = {
            frames: torch.zeros(slots, frames, groups, dtype=torch.int64) for frames in packet_frames
        }
        # Rows that a packet does not need go on with the spare slot.
        self._codec_at = torch.zeros(2, slots, dtype=torch.int64)
        self._codec_at[0] = self.memory.spare
        for frames in packet_frames:
            for rows in reversed(self._rows):
                self._codecs[rows, frames] = recorder.record(self._codec_call(rows, frames))

    def _codec_call(self, rows: int, frames: int) -> Callable[[], Tensor]:
        codes, at = self._codes[frames][:rows], self._codec_at
        return lambda: self.model.decoder.next(codes, at[0, :rows], at[1, :rows])

    def talk(self, inputs: Tensor, slots: Sequence[int]) -> tuple[Tensor, Tensor]:
        rows = bucket(self._rows, max(slots) + 1)
        lengths = self.cache.lengths
        if max(lengths[slot] for slot in slots) >= self.cache.capacity:
            raise ValueError(f"a slot would hold more than {self.cache.capacity} tokens")
        length = bucket(self._lengths, max(lengths[slot] for slot in slots) + 1)
        self._positions.copy_(torch.tensor(lengths))
        taken = slice(len(slots)) if list(slots) == list(range(len(slots))) else self._index(slots)
        self._inputs[taken] = inputs
        hidden, logits = self._talkers[rows, length]()
        self.cache.grow(slots)
        return hidden[taken], logits[taken]

    def _index(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(slots, device=self.device)

    def predict(self, hidden: Tensor, code0_embedding: Tensor) -> tuple[Tensor, Tensor]:
        count = len(hidden)
        self._hidden[:count].copy_(hidden)
        self._code0[:count].copy_(code0_embedding)
        further, total = self._predictors[bucket(self._rows, count)]()
        return further[:count], total[:count]

    def decode_next(self, codes: Tensor, slots: Sequence[int], positions: Sequence[int]) -> Tensor:
        count, frames = codes.shape[:2]
        rows = bucket(self._rows, count)
        if (rows, frames) not in self._codecs:
            return super().decode_next(codes, slots, positions)
        spare = [self.memory.spare] * (rows - count)
        self._codec_at[:, :rows].copy_(torch.tensor([[*slots, *spare], [*positions, *([0] * len(spare))]]))
        self._codes[frames][:count].copy_(codes)
        return self._codecs[rows, frames]()[:count]
