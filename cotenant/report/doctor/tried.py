"""What one request to a service showed, as numbers and as findings. Pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from cotenant.errors import HINTS
from cotenant.playback.arrivals import Int64Array
from cotenant.playback.options import PlayerOptions
from cotenant.playback.player import play
from cotenant.report.doctor.facts import Failed, Numbers, Tried
from cotenant.report.doctor.finding import Finding, Word, told
from cotenant.secret_forms import by_form
from cotenant.units import NS_PER_MS, NS_PER_S, counted, format_ms

_GOOD_RTF: Final = 1.0
_KEEPS_UP: Final = 0.98


def failed(kind: str | None, text: str | None) -> Failed:
    """With the hint for its kind, and without what is a secret by its form."""
    known = kind or "protocol"
    return Failed(kind=known, text=by_form(text) if text else "no answer", hint=HINTS.get(known, ""))


def voice_numbers(
    row: Mapping[str, Any], arrival_ns: Int64Array, media_ns: Int64Array, sizes: Sequence[int]
) -> dict[str, Any]:
    """Of a whole utterance: `row` of `streams`, its chunks in order of arrival.

    TTFA is from the sending to the first sample; RTF the time from sending to end by the audio's length.
    """
    audio_ns = int(media_ns.sum())
    sounding = [at for at, media in zip(arrival_ns.tolist(), media_ns.tolist(), strict=True) if media]
    took_ns = row["done"] - row["sent"]
    playback = play(arrival_ns, media_ns, PlayerOptions(lookahead_ns=0), done_ns=row["done"])
    required_ns = playback.required_lookahead_ns
    return {
        "rate_hz": row["rate_hz"],
        "sample_format": row["sample_format"],
        "connect_ms": _ms(row["connected"], row["due"]),
        "ttfa_ms": (sounding[0] - row["sent"]) / NS_PER_MS,
        "audio_s": audio_ns / NS_PER_S,
        "took_s": took_ns / NS_PER_S,
        "rtf": took_ns / audio_ns,
        "chunks": len(sizes),
        "first_chunk_bytes": sizes[0],
        "first_chunk_ms": int(media_ns[0]) / NS_PER_MS,
        "chunk_bytes": _numbers(sizes),
        "chunk_audio_ms": _numbers([media / NS_PER_MS for media in media_ns.tolist()]),
        "gap_ms": _numbers(_gaps_ms(arrival_ns.tolist())),
        "required_lookahead_ms": None if required_ns is None else required_ns / NS_PER_MS,
        "stamp": row["stamp"],
    }


def face_numbers(
    row: Mapping[str, Any], arrival_ns: Sequence[int], media_ns: Sequence[int], sizes: Sequence[int], fps: int
) -> dict[str, Any]:
    """Of a whole clip; `fps` is what was asked for."""
    spread_ns = arrival_ns[-1] - arrival_ns[0]
    steps = [after - before for before, after in pairwise(media_ns) if after > before]
    return {
        "asked_fps": fps,
        "frames": len(arrival_ns),
        "first_frame_ms": (arrival_ns[0] - row["sent"]) / NS_PER_MS if row["sent"] is not None else None,
        "took_s": (row["done"] - row["due"]) / NS_PER_S,
        "arrived_fps": (len(arrival_ns) - 1) * NS_PER_S / spread_ns if spread_ns > 0 else None,
        "media_fps": NS_PER_S / statistics.median(steps) if steps else None,
        "frame_bytes": _numbers(sizes),
        "gap_ms": _numbers(_gaps_ms(arrival_ns)),
    }


def llm_numbers(
    row: Mapping[str, Any], arrival_ns: Sequence[int], tokens: Sequence[int], asked_tokens: int
) -> dict[str, Any]:
    """Of a whole answer; TTFT is from the sending, tokens/s from the first to the last of them."""
    spread_ns = arrival_ns[-1] - arrival_ns[0]
    count = sum(tokens)
    return {
        "prompt_tokens": row["prompt_tokens"],
        "asked_tokens": asked_tokens,
        "output_tokens": row["output_tokens"] if row["output_tokens"] is not None else count,
        "ttft_ms": (arrival_ns[0] - row["sent"]) / NS_PER_MS,
        "took_s": (row["done"] - row["sent"]) / NS_PER_S,
        "tokens_per_s": (count - tokens[0]) * NS_PER_S / spread_ns if spread_ns > 0 else None,
        "tokens_per_message": _numbers(tokens),
        "gap_ms": _numbers(_gaps_ms(arrival_ns)),
        "stamp": row["stamp"],
    }


def service_findings(tried: Tried) -> Iterator[Finding]:
    """What is printed of one service."""
    for sentence in tried.told:
        yield Finding(topic=tried.tenant, word="ok", text=sentence)
    if tried.failed is not None:
        text = f"{tried.failed.kind}: {tried.failed.text}"
        yield Finding(topic=tried.tenant, word="missing", text=text, advice=tried.failed.hint)
        return
    lines = {"speech": _voice_lines, "face": _face_lines, "completions": _llm_lines}[tried.kind]
    for finding_word, text in lines(tried):
        yield Finding(topic=tried.tenant, word=finding_word, text=text)
    for note in tried.notes:
        yield told(tried.tenant, "note", note)
    for lacking in tried.missing:
        yield told(tried.tenant, "missing", lacking)


def summary_line(tried: Tried) -> str:
    """The main numbers of a service on a line, as for a comment."""
    found = tried.measured
    if tried.kind == "speech":
        numbers = f"TTFA {_shown_ms(found['ttfa_ms'])}, RTF {found['rtf']:.2f}, {found['rate_hz']} Hz"
    elif tried.kind == "face":
        numbers = f"{counted(found['frames'], 'frame')}, first after {_shown_ms(found['first_frame_ms'])}"
    else:
        numbers = f"TTFT {_shown_ms(found['ttft_ms'])}, {_rate(found['tokens_per_s'])} tokens/s"
    return f"{tried.tenant}: {numbers}"


def _voice_lines(tried: Tried) -> Iterator[tuple[Word, str]]:
    found = tried.measured
    beside = f"beside one request to {' and '.join(tried.beside)}" if tried.beside else ""
    yield "ok", f"{found['rate_hz']} Hz, {found['sample_format']}, mono"
    slow = ""
    if found["rtf"] > _GOOD_RTF:
        alone = f"{beside}; `cotenant doctor --tts URL` tries it alone" if beside else "even alone"
        slow = f": slower than real time, {alone}"
    yield (
        "note" if slow else "ok",
        f"TTFA {_shown_ms(found['ttfa_ms'])}; RTF {found['rtf']:.2f} ({found['audio_s']:.2f} s of audio in "
        f"{found['took_s']:.2f} s){slow}",
    )
    many = found["chunks"] > 1
    yield (
        "ok" if many else "note",
        f"first chunk {found['first_chunk_bytes']} bytes, {_shown_ms(found['first_chunk_ms'])} of audio; "
        + (
            f"{found['chunks']} chunks of {_range(found['chunk_bytes'])} bytes, "
            f"{_range(found['chunk_audio_ms'])} ms of audio each"
            if many
            else "it is the only one: nothing streams"
        ),
    )
    if many:
        need = found["required_lookahead_ms"]
        tail = (
            "" if need is None else f"; {beside or 'alone'} it needs a lookahead of {max(0.0, need):.0f} ms"
        )
        yield "ok", f"gaps between chunks {_range(found['gap_ms'])} ms{tail}"


def _face_lines(tried: Tried) -> Iterator[tuple[Word, str]]:
    found = tried.measured
    sizes = f"{_range(found['frame_bytes'])} bytes each"
    yield (
        "ok",
        f"{counted(found['frames'], 'frame')} of {sizes}; "
        f"the first after {_shown_ms(found['first_frame_ms'])}",
    )
    media, arrived, asked = found["media_fps"], found["arrived_fps"], found["asked_fps"]
    # A head that keeps real time arrives at its own clock's 24.9 or 25.1.
    slow = arrived is not None and arrived < _KEEPS_UP * asked
    yield (
        "note" if slow else "ok",
        f"{_rate(media)} frames to a second of audio ({asked} asked), {_rate(arrived)} arrived a second"
        + (": fewer than are shown" if slow else ""),
    )


def _llm_lines(tried: Tried) -> Iterator[tuple[Word, str]]:
    found = tried.measured
    prompt = "not told" if found["prompt_tokens"] is None else str(found["prompt_tokens"])
    yield (
        "ok" if found["output_tokens"] == found["asked_tokens"] else "note",
        f"prompt {prompt} tokens, answer {found['output_tokens']} of {found['asked_tokens']} asked",
    )
    yield (
        "ok",
        f"TTFT {_shown_ms(found['ttft_ms'])}; {_rate(found['tokens_per_s'])} tokens/s, "
        f"{_range(found['tokens_per_message'])} a message, gaps {_range(found['gap_ms'])} ms",
    )


def _numbers(values: Sequence[float]) -> Numbers | None:
    if not values:
        return None
    return Numbers(least=min(values), median=statistics.median(values), most=max(values))


def _gaps_ms(times_ns: Sequence[int]) -> list[float]:
    return [(after - before) / NS_PER_MS for before, after in pairwise(times_ns)]


def _ms(end_ns: int | None, start_ns: int | None) -> float | None:
    return None if end_ns is None or start_ns is None else (end_ns - start_ns) / NS_PER_MS


def _shown_ms(value_ms: float | None) -> str:
    return "not known" if value_ms is None else format_ms(value_ms)


def _rate(value: float | None) -> str:
    return "an unknown number of" if value is None else f"{value:.1f}"


def _range(numbers: Numbers | None) -> str:
    if numbers is None:
        return "-"
    least, median, most = (f"{value:.1f}".removesuffix(".0") for value in
                           (numbers.least, numbers.median, numbers.most))  # fmt: skip
    return least if least == most else f"{least} to {most} (median {median})"
