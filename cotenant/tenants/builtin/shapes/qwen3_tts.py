"""The parts of a Qwen3-TTS-like voice: talker, code predictor and codec decoder, for any sizes.

Order and structure follow the released model's code (12.5 frames a second, 16 codes a frame); weights are
random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from cotenant.tenants.builtin.shapes.blocks import Decoder, DecoderSizes, sample_top_k
from cotenant.tenants.builtin.shapes.codec import CodecSizes
from cotenant.tenants.builtin.shapes.kv_cache import KvCache, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerSizes:
    """Sizes of the model that makes code 0 of each frame."""

    decoder: DecoderSizes
    codec_vocabulary: int
    text_vocabulary: int
    text_hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSizes:
    """Sizes of the model that makes codes 1 and on of a frame; `groups` counts all codes of a frame."""

    decoder: DecoderSizes
    vocabulary: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsSizes:
    """A whole voice. `slots` utterances step together, each of at most `frames` tokens and frames.

    `context_frames` are decoded again to the left of each packet; None has the decoder remember, so that
    each frame is decoded once. `role_tokens` open each prompt.

    `step_overhead_ns` is host time that a step spends besides with recorded graphs, so that a frame takes
    what is published of the model: a real engine's work in Python between its launches. It is one a step,
    however many utterances step together; servers of their own (replicas) each spend theirs.
    """

    talker: TalkerSizes
    predictor: PredictorSizes
    codec: CodecSizes
    slots: int
    frames: int
    context_frames: int | None
    role_tokens: int = 8
    top_k: int = 50
    temperature: float = 0.9
    cpu_threads: int = 1
    step_overhead_ns: int = 0


class Talker(nn.Module):
    """One step a frame: (rows, hidden) of summed embeddings -> (rows, hidden), over a growing cache."""

    def __init__(self, sizes: TalkerSizes, positions: int) -> None:
        super().__init__()
        hidden = sizes.decoder.hidden
        self.text_embedding = nn.Embedding(sizes.text_vocabulary, sizes.text_hidden)
        self.text_up = nn.Linear(sizes.text_hidden, sizes.text_hidden)
        self.text_down = nn.Linear(sizes.text_hidden, hidden)
        self.code_embedding = nn.Embedding(sizes.codec_vocabulary, hidden)
        self.decoder = Decoder(sizes.decoder, positions)
        self.head = nn.Linear(hidden, sizes.codec_vocabulary, bias=False)

    def embed_text(self, tokens: Tensor) -> Tensor:
        """(n,) text tokens -> (n, hidden)."""
        out: Tensor = self.text_down(fn.silu(self.text_up(self.text_embedding(tokens))))
        return out

    def forward(self, x: Tensor, plan: Plan, cache: KvCache) -> Tensor:
        out: Tensor = self.decoder(x, plan, cache)
        return out


class CodePredictor(nn.Module):
    """The dependent passes that make a frame's further codes: each has its own head, draw and embedding."""

    def __init__(self, sizes: PredictorSizes, talker_hidden: int, slots: int) -> None:
        super().__init__()
        self.sizes = sizes
        hidden, passes = sizes.decoder.hidden, sizes.groups - 1
        self.embeddings = nn.ModuleList(nn.Embedding(sizes.vocabulary, talker_hidden) for _ in range(passes))
        self.project = nn.Linear(talker_hidden, hidden) if talker_hidden != hidden else nn.Identity()
        self.decoder = Decoder(sizes.decoder, sizes.groups + 1)
        self.heads = nn.ModuleList(nn.Linear(hidden, sizes.vocabulary, bias=False) for _ in range(passes))
        self._slots = slots
        self._cache: KvCache | None = None
        self._plans: dict[tuple[int, int], Plan] = {}

    def _plan(self, cache: KvCache, rows: int, number: int) -> Plan:
        """Every frame's passes are alike, so each plan is made once."""
        key = (rows, number)
        if key not in self._plans:
            self._plans[key] = cache.plan([(slot, 2 if number == 0 else 1) for slot in range(rows)])
        return self._plans[key]

    def forward(
        self, hidden: Tensor, code0_embedding: Tensor, top_k: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Two (rows, talker_hidden) -> codes (rows, groups - 1) and the sum of their embeddings.

        Pass 1 sees the talker's output and code 0, each later pass the code drawn just before.
        """
        cache = self._cache = self._cache or self.decoder.new_cache(self._slots)
        cache.reset()
        rows = hidden.shape[0]
        x = self.project(torch.stack((hidden, code0_embedding), dim=1).flatten(0, 1))
        codes: list[Tensor] = []
        total = torch.zeros_like(code0_embedding)
        for number, (head, embedding) in enumerate(zip(self.heads, self.embeddings, strict=True)):
            width = 2 if number == 0 else 1
            out = self.decoder(x, self._plan(cache, rows, number), cache)
            drawn = sample_top_k(head(out[width - 1 :: width]), top_k, temperature)
            codes.append(drawn)
            embedded = embedding(drawn)
            total = total + embedded
            x = self.project(embedded)
        return torch.stack(codes, dim=1), total


def text_tokens(text: str, vocabulary: int) -> Sequence[int]:
    """A stand-in tokeniser: about four characters a token, each token a number that depends on them alone."""
    data = text.encode()
    return [int.from_bytes(data[at : at + 4], "little") % vocabulary for at in range(0, len(data), 4)]
