"""The playing clocks of many voices at once: when each position of their media is heard."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cotenant.playback.arrivals import BoolArray, Int64Array
from cotenant.playback.blocks import Arrivals, Block, blocks_of, records_of
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import delayed, play

_Pieces = list[tuple[Int64Array, Int64Array, Int64Array]]
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoiceClocks:
    """CSR steps of each voice's clock: from `wall_ns` on, media is heard from `media_ns` at rate 1.

    `end_ns`: when each voice ends; `audio_ns`: its media. As `Playback.clock_*`, `end_ns` and `audio_ns`.
    """

    offsets: Int64Array
    media_ns: Int64Array
    wall_ns: Int64Array
    end_ns: Int64Array
    audio_ns: Int64Array

    def wall_of(self, positions_ns: Int64Array, voice: Int64Array) -> Int64Array:
        """W(v) of each position in its voice (an index); past its end at rate 1."""
        lift = np.cumsum(self.audio_ns + 2) - self.audio_ns - 2
        steps = np.repeat(lift, np.diff(self.offsets)) + self.media_ns
        wanted = np.clip(positions_ns, 0, self.audio_ns[voice]) + lift[voice]
        step = np.searchsorted(steps, wanted, side="right") - 1
        return np.asarray(self.wall_ns[step] + positions_ns - self.media_ns[step], np.int64)


def voice_clocks(arrivals: Arrivals, start_ns: Int64Array, options: PlayerOptions) -> VoiceClocks:
    """The clocks of voices that are made to wait until `start_ns`, which is not before they could begin.

    Every stream must have begun playing; the same steps as those of `delayed(play(...), start_ns)`.
    """
    end, audio = np.zeros((2, arrivals.streams), np.int64)
    pieces: _Pieces = [(np.arange(arrivals.streams), np.zeros(arrivals.streams, np.int64), start_ns)]
    for block in blocks_of(arrivals):
        delay = start_ns[block.stream] - block.first_ns
        tallest = np.maximum(block.required_ns, delay)
        audio[block.stream] = block.audio_ns
        end[block.stream] = block.first_ns + tallest + block.audio_ns
        alone = np.zeros(block.stream.size, np.bool_)
        if options.quantum_ns:
            alone[:] = True
        elif options.after_underrun != "resume":
            # Until its first stall every player does the same.
            alone = block.required_ns > delay
        pieces.append(_stalls(block, delay, alone))
        silent = block.truncated & (block.limit_ns > end[block.stream]) & ~alone
        cut = block.stream[silent]
        end[cut] = block.limit_ns[silent]
        pieces.append((cut, block.audio_ns[silent], block.limit_ns[silent]))
        for index in block.stream[alone].tolist():
            pieces.append(_one(arrivals, index, int(start_ns[index]), options, end))
    return _joined(pieces, arrivals.streams, end, audio)


def _stalls(block: Block, delay: Int64Array, alone: BoolArray) -> tuple[Int64Array, Int64Array, Int64Array]:
    """A step at each chunk that a player which resumes at once had to wait for."""
    records = records_of(block)
    late = (records.height > delay[records.owner]) & ~alone[records.owner]
    row, owner = records.row[late], records.owner[late]
    position = block.ends[row] - block.media[row] - block.base[owner]
    return block.stream[owner], position, block.arrival[row]


def _one(
    arrivals: Arrivals, index: int, start_ns: int, options: PlayerOptions, end: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The steps after the first of one voice, played by itself; its end goes to `end`."""
    rows = slice(arrivals.offsets[index], arrivals.offsets[index + 1])
    ended = bool(arrivals.ended[index])
    playback = play(
        arrivals.arrival_ns[rows],
        arrivals.media_ns[rows],
        options,
        done_ns=int(arrivals.done_ns[index]) if ended else None,
        give_up_ns=int(arrivals.give_up_ns[index]),
    )
    playback = delayed(playback, start_ns)
    assert playback.end_ns is not None
    end[index] = playback.end_ns
    media, wall = playback.clock_media_ns[1:], playback.clock_wall_ns[1:]
    return np.full(media.size, index, np.int64), media, wall


def _joined(pieces: _Pieces, streams: int, end: Int64Array, audio: Int64Array) -> VoiceClocks:
    voice, media, wall = (np.concatenate([_NONE, *parts]) for parts in zip(*pieces, strict=True))
    # Steps of one voice stand in order of their media in `pieces`, which a stable sort keeps.
    order = np.argsort(voice, kind="stable")
    counts = np.bincount(voice, minlength=streams)
    return VoiceClocks(
        offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        media_ns=media[order],
        wall_ns=wall[order],
        end_ns=end,
        audio_ns=audio,
    )
