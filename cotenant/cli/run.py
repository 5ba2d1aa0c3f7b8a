"""`cotenant run`: the ladder of a scenario, from the tenants' start to the verdict."""

import os
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cotenant.cli import options as flags
from cotenant.errors import ExitCode
from cotenant.verdict.options import JudgeOptions, scenario_overrides

if TYPE_CHECKING:
    from cotenant.conductor.feed import Feed
    from cotenant.conductor.run import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One run. `scenario` is a packaged name or a path, `overrides` are `path=value` texts, applied in order.

    The judging flags are in `overrides` too, so that the recorded player and the manifest are those that
    judge. `mqtt` is the address of a broker that the run is published on.
    """

    scenario: str
    overrides: tuple[str, ...]
    out: Path
    quick: bool
    judging: JudgeOptions
    json: bool
    mqtt: str | None = None


def command(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A name (see `cotenant list`) or a YAML file.")
    ],
    lookahead: flags.LookaheadFlag = None,
    start: flags.StartFlag = None,
    after_underrun: flags.AfterUnderrunFlag = None,
    quantum: flags.QuantumFlag = None,
    gate: flags.GateFlag = None,
    decision: flags.DecisionFlag = None,
    inconclusive: flags.InconclusiveFlag = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Changes the scenario, as in load.voices.listeners=4; null removes. See `cotenant list "
            "--fields`.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The run directory is made in it.")
    ] = Path("runs"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Measures half as long and decides by point estimates.")
    ] = False,
    mqtt: Annotated[
        str | None,
        typer.Option(
            "--mqtt",
            metavar="URL",
            help="Publishes the run as it goes on: mqtt://HOST:1883/PREFIX, mqtts:// for TLS; user, "
            "password and CA file in COTENANT_MQTT_USER, _PASSWORD, _CA.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Prints summary.json on stdout.")] = False,
) -> int:
    """Puts the services on one device, stage by stage, and says which stage breaks the playback."""
    judging = flags.judge_options(
        lookahead=lookahead,
        start=start,
        after_underrun=after_underrun,
        quantum=quantum,
        gate=gate,
        decision=decision,
        inconclusive=inconclusive,
    )
    return run(
        RunOptions(
            scenario=scenario,
            overrides=(*(override or ()), *scenario_overrides(judging)),
            out=out,
            quick=quick,
            judging=judging,
            json=json,
            mqtt=mqtt,
        )
    )


def run(options: RunOptions) -> int:
    """Records the run, judges what was recorded, writes summary.json, prints both; the exit code.

    Ctrl-C before there is a verdict ends with 130; after that the code is the verdict's, and only the page is
    left out. Raises UserError and CouldNotRun.
    """
    from cotenant.conductor import busy

    before = busy.read()
    from cotenant.cli import output
    from cotenant.conductor.prepare import prepare
    from cotenant.conductor.run import record
    from cotenant.live.progress import progress_for

    feed = _feed(options.mqtt)
    scenario, device = prepare(options.scenario, options.overrides, quick=options.quick, tell=output.tell)
    console = output.stderr_console()
    others = busy.warning(before, busy.read(), os.cpu_count() or 1)
    for note in filter(None, (device.note, others)):
        output.tell(note)
    # From here on an interruption is one of the run's, which stops what it started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = "failed"
    try:
        recorded = record(
            scenario,
            device=device,
            out=options.out,
            make_progress=lambda: progress_for(console),
            on_begin=feed.begin if feed is not None else lambda _run: None,
        )
        status = recorded.status
        if recorded.exit_code is not None:
            output.tell(
                f"{recorded.why}; what was recorded stays: cotenant gate {shlex.quote(str(recorded.run_dir))}"
            )
            return recorded.exit_code
        try:
            return _judge(recorded, options, feed)
        except KeyboardInterrupt:
            again = f"cotenant gate {shlex.quote(str(recorded.run_dir))}"
            output.tell(f"interrupted before the verdict; what was recorded stays: {again}")
            return ExitCode.INTERRUPTED
    finally:
        if feed is not None:
            feed.end(status)


def _feed(url: str | None) -> "Feed | None":
    """What publishes the run, where that is asked for. Raises UserError for an address that cannot be."""
    if url is None:
        return None
    from cotenant.cli import output
    from cotenant.conductor.feed import Feed
    from cotenant.live.broker import PASSWORD_ENV, broker_from

    broker = broker_from(url, os.environ)
    os.environ.pop(PASSWORD_ENV, None)  # no service under test inherits it
    return Feed(broker, output.tell)


def _judge(recorded: "Recorded", options: RunOptions, feed: "Feed | None") -> int:
    from cotenant.cli import interrupts, output
    from cotenant.cli.page_file import write_page_of_run
    from cotenant.report.text import run_word
    from cotenant.run_dir.reader import read
    from cotenant.run_dir.summary_file import write_summary
    from cotenant.verdict.summary import exit_code, judge, to_json

    recording = read(recorded.run_dir)
    summary = judge(recording, options.judging)
    interrupted = interrupts.hold()
    write_summary(recorded.run_dir, to_json(summary))
    code = exit_code(summary, options.judging.inconclusive)
    if feed is not None:
        feed.verdict(summary, run_word(summary), code)
    output.show_summary(summary, recording.manifest)
    if recorded.why is not None:
        output.tell(f"stopped: {recorded.why}")
    output.tell(f"run    {recorded.run_dir}")
    if options.json:
        output.print_summary_json(summary)
    write_page_of_run(recorded.run_dir, recording, summary, options.judging, skip=bool(interrupted))
    return code
