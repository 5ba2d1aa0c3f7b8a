"""report.html: a recorded run made into the page, and written whole or not at all."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant.cli.files import as_argument, write_whole
from cotenant.errors import UserError

if TYPE_CHECKING:
    from cotenant.records import Recording
    from cotenant.report.page.base import Base
    from cotenant.report.page.html import Template
    from cotenant.verdict.options import JudgeOptions

PAGE_NAME: Final = "report.html"
# Sound in the page: of so many utterances at most, so many bytes of WAV together.
WORST_SOUNDS: Final = 8
SOUND_BYTES: Final = 1_500_000


def write_page(
    run_dir: Path,
    recording: "Recording",
    summary: Mapping[str, Any],
    options: "JudgeOptions",
    to: Path,
    flag: str | None,
) -> None:
    """Writes the page of a judged run; `flag` named the file, None: nobody did. Raises UserError where the
    file cannot be written."""
    from cotenant.report.page.base import read_base
    from cotenant.report.page.data import page_data
    from cotenant.report.page.fallback import render as render_fallback
    from cotenant.report.page.html import render
    from cotenant.report.page.utterances import Extras

    base = read_base(recording, options)
    extras = Extras(
        audio=_sounds(run_dir, recording, base), texts=_texts(recording, base), run=_run_argument(run_dir)
    )
    data = page_data(recording, options, summary, base, extras)
    title = f"{data['console']['verdict_word']}: {data['run']['scenario']} on {data['run']['device']}"
    text = render(
        read_template("page.html"),
        title=title,
        fallback=render_fallback(summary, data["console"]),
        data=data,
    )
    # A run directory may come from somebody else: a link in it must not lead to a file of whoever reads it.
    try:
        write_whole(flag, to, text.encode("utf-8"), follow=to != run_dir / PAGE_NAME)
    except UserError as error:
        raise UserError(error if flag else f"{error}; --html FILE writes it elsewhere") from None


def write_compare_page(comparison: Mapping[str, Any], runs: "tuple[Recording, Recording]", to: Path) -> None:
    """Writes the page of two compared runs. Raises UserError where the file cannot be written."""
    from cotenant.report.page.base import read_base
    from cotenant.report.page.compare import compare_data, fallback
    from cotenant.report.page.html import render
    from cotenant.verdict.options import JudgeOptions
    from cotenant.verdict.summary import judge

    options = JudgeOptions()
    a, b = ((read_base(run, options), judge(run, options)) for run in runs)
    data = compare_data(comparison, a, b)
    title = f"{data['verdict_sentence'].split()[0]}: {comparison['a']['run_id']}, {comparison['b']['run_id']}"
    text = render(read_template("compare.html"), title=title, fallback=fallback(data), data=data)
    write_whole("--html", to, text.encode("utf-8"))


def write_page_of_run(
    run_dir: Path,
    recording: "Recording",
    summary: Mapping[str, Any],
    options: "JudgeOptions",
    *,
    skip: bool = False,
) -> None:
    """Writes the page into the run directory and tells where, or why not: the verdict stands without it.
    `skip`: it was interrupted already."""
    from cotenant.cli import interrupts, output

    page = run_dir / PAGE_NAME
    again = f"cotenant report {shlex.quote(str(run_dir))} writes it"
    try:
        if skip:
            raise KeyboardInterrupt
        with interrupts.raised():
            write_page(run_dir, recording, summary, options, page, "page")
    except KeyboardInterrupt:
        output.tell(f"note   the page was not written: interrupted; {again}")
        return
    except UserError as error:
        output.tell(f"note   the page was not written: {str(error).removeprefix('page: ')}; {again}")
        return
    except Exception as error:  # noqa: BLE001 -- hours of measuring must not end in a fault of the page
        output.tell(f"note   the page could not be written: {type(error).__name__}: {error}")
        return
    output.tell(f"page   {page}")


def read_template(name: str) -> "Template":
    """The head that all pages have and the body of that name, the files beside them, and plotly's script."""
    import importlib.resources

    from cotenant.report.page.html import Template
    from cotenant.resources import data_dir

    folder = data_dir("dashboards") / "drilldown"
    files = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir())
        if file.suffix in (".css", ".js")
    }
    # Not plotly.offline, whose import takes a second: the same file.
    script = importlib.resources.files("plotly").joinpath("package_data", "plotly.min.js")
    return Template(
        page="".join((folder / part).read_text(encoding="utf-8") for part in ("head.html", name)),
        files=files,
        plotly=script.read_text(encoding="utf-8"),
    )


def _run_argument(run_dir: Path) -> str:
    """The run in the commands that the page names: they work where this one did."""
    named = run_dir if run_dir.name not in ("", "..") else run_dir.absolute()
    word = as_argument(named)
    return word if word.isprintable() else "RUN"


def _sounds(run_dir: Path, recording: "Recording", base: "Base") -> dict[int, tuple[str | None, str]]:
    """The worst utterances as heard, as data URIs, until their room is used up."""
    import base64

    from cotenant.report.audio import NoSound, sound_of, wav_bytes
    from cotenant.report.page.utterances import worst_first
    from cotenant.run_dir.reader import read_audio

    found: dict[int, tuple[str | None, str]] = {}
    room = SOUND_BYTES
    read: Callable[[int], bytes | None] = lambda stream: read_audio(run_dir, recording, stream)  # noqa: E731
    for row in worst_first(base)[:WORST_SOUNDS]:
        stream = int(base.facts.voices.streams.stream[row.voice])
        sound = sound_of(recording, stream, base.facts.player, read)
        if isinstance(sound, NoSound):
            found[stream] = None, sound.why
            continue
        wav = wav_bytes(sound.samples, sound.rate_hz)
        if len(wav) > room:
            continue
        room -= len(wav)
        found[stream] = "data:audio/wav;base64," + base64.b64encode(wav).decode(), ""
    return found


def _texts(recording: "Recording", base: "Base") -> dict[str, Sequence[str]]:
    """Load -> its measured texts."""
    from cotenant.conductor.load_spec import split_texts
    from cotenant.scenario.schema import Voices

    long = base.facts.plan.has_gpu
    return {
        name: split_texts(load.text, long=long)["measured"]
        for name, load in base.facts.plan.scenario.load.items()
        if isinstance(load, Voices)
    }
