"""`cotenant listen`: plays one voice of a run as it was heard, or writes it as WAV."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotenant.cli import options as flags
from cotenant.cli.sound_card import SoundCard
from cotenant.errors import CouldNotRun, UserError
from cotenant.verdict.options import JudgeOptions

if TYPE_CHECKING:
    from cotenant.records import Recording
    from cotenant.report.audio import AsHeard

WORST = "worst"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Which voice of which run, and through which player."""

    run: Path
    stream: str
    judging: JudgeOptions
    wav: Path | None
    wait: bool


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="A stream's number, STAGE/LISTENER/UTTERANCE, or 'worst'."),
    ],
    wav: Annotated[
        Path | None, typer.Option("--wav", metavar="FILE", help="Writes a WAV file and plays nothing.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Begins with the silence until playback started.")
    ] = False,
    lookahead: flags.LookaheadFlag = None,
    start: flags.StartFlag = None,
    after_underrun: flags.AfterUnderrunFlag = None,
    quantum: flags.QuantumFlag = None,
) -> int:
    """Plays one voice of a run as it was heard, with the silences in it."""
    judging = flags.judge_options(
        lookahead=lookahead, start=start, after_underrun=after_underrun, quantum=quantum
    )
    return listen(ListenOptions(run=run, stream=stream, judging=judging, wav=wav, wait=wait))


def listen(options: ListenOptions) -> int:
    """Finds the voice, plays or writes it, says on stderr what it was.

    Raises UserError where there is no such voice or its audio was not kept, CouldNotRun without a sound
    card.
    """
    from cotenant.cli import files, output
    from cotenant.report.audio import wav_bytes
    from cotenant.run_dir.reader import read

    recording = read(options.run)
    heard, name = _find(recording, options)
    output.tell(f"{name}: {_described(heard)}")
    if options.wav is not None:
        files.write_whole("--wav", options.wav, wav_bytes(heard.samples, heard.rate_hz))
        output.tell(f"written: {options.wav}")
        return 0
    device = _sound_device()
    # From here on an interruption ends the sound, and what was counted is still told.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    player = SoundCard(heard.samples)
    try:
        player.play(device, heard.rate_hz)
    finally:
        if player.played:
            output.tell(_counted(player, heard))
    return 0


def _sound_device() -> Any:
    try:
        import sounddevice
    except OSError:
        raise CouldNotRun(
            "PortAudio, which plays sound, is not installed: apt install libportaudio2 "
            "(--wav FILE writes the sound without it)"
        ) from None
    return sounddevice


def _find(recording: "Recording", options: ListenOptions) -> "tuple[AsHeard, str]":
    from cotenant.report.audio import AsHeard, sound_of
    from cotenant.run_dir.reader import read_audio
    from cotenant.verdict.judging import player_options
    from cotenant.verdict.plan import read_plan

    player = player_options(read_plan(recording), options.judging)
    worst = options.stream == WORST
    rows = _by_headroom(recording, options.judging) if worst else [_named(recording, options.stream)]
    why = "nothing was measured"
    for row in rows:
        found = sound_of(
            recording,
            row["stream"],
            player,
            lambda stream: read_audio(options.run, recording, stream),
            with_wait=options.wait,
        )
        if isinstance(found, AsHeard):
            return found, _name(row)
        why = found.why
    if worst:
        raise UserError(f"there is no voice with sound in this run; of the last one looked at: {why}")
    raise UserError(f"there is no sound of {_name(rows[0])}: {why}")


def _named(recording: "Recording", text: str) -> dict[str, Any]:
    """The row of the voice that the text names. Raises UserError that says what there is."""
    from cotenant.report.audio import voices

    rows = voices(recording)
    if not rows:
        raise UserError("there is no voice in this run")
    if text.isascii() and text.isdigit():
        found = [row for row in rows if row["stream"] == int(text)]
    else:
        found = [row for row in rows if text == f"{row['stage']}/{row['listener']}/{row['utterance']}"]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{row['stream']} ({row['load']}, round {row['round']})" for row in found[:8])
        raise UserError(f"{text!r} is said {len(found)} times; name one by its number: {several}")
    example = rows[len(rows) // 2]
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    raise UserError(
        f"there is no voice {text!r} in this run: give a stream's number (as {example['stream']}), "
        f"STAGE/LISTENER/UTTERANCE (as {example['stage']}/{example['listener']}/{example['utterance']}) or "
        f"'{WORST}'; the stages are {', '.join(map(str, stages))}"
    )


def _by_headroom(recording: "Recording", judging: JudgeOptions) -> list[dict[str, Any]]:
    """The rows of the voices that are judged, those with the least headroom first."""
    import numpy as np

    from cotenant.report.audio import voices
    from cotenant.verdict.facts import read_facts
    from cotenant.verdict.judging import player_options
    from cotenant.verdict.plan import read_plan
    from cotenant.verdict.stats import TAIL

    plan = read_plan(recording)
    facts = read_facts(recording, plan, player_options(plan, judging), TAIL)
    rows = {row["stream"]: row for row in voices(recording)}
    every = [*plan.stages, *([plan.again] if plan.again else [])]
    judged = np.concatenate([np.zeros(0, np.int64), *(facts.voice_rows[stage.name] for stage in every)])
    streams, headroom_ns = facts.voices.streams.stream[judged], facts.voices.played.headroom_ns[judged]
    order = np.argsort(headroom_ns, kind="stable")
    return [rows[int(stream)] for stream in streams[order] if int(stream) in rows]


def _name(row: dict[str, Any]) -> str:
    return f"{row['stage']}/{row['listener']}/{row['utterance']} (stream {row['stream']})"


def _described(heard: "AsHeard") -> str:
    from cotenant.units import NS_PER_S, format_ms, ms_from_ns

    playback = heard.playback
    seconds = playback.heard_ns / NS_PER_S
    stall = format_ms(ms_from_ns(playback.stall_total_ns or 0))
    return (
        f"{seconds:.2f} s of speech at {heard.rate_hz} Hz, {_times('underrun', playback.underruns or 0)}, "
        f"{stall} of silence in it"
    )


def _counted(player: SoundCard, heard: "AsHeard") -> str:
    part = (
        "" if player.played == len(heard.samples) else f"stopped at {player.played / heard.rate_hz:.2f} s; "
    )
    return (
        f"{part}this sound card ran dry {_times('time', player.underflows)} while playing; "
        f"the recording's own underruns: {heard.playback.underruns}"
    )


def _times(what: str, count: int) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
