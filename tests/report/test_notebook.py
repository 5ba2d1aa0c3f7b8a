"""The example notebook: its cells run, one after another, on a run with audio and on one without."""

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile

from cotenant.resources import data_dir
from tests.by_hand import write_run
from tests.report.sounds import write_voice_run
from tests.verdict.recordings import S, good_run

NOTEBOOK = data_dir("dashboards") / "notebooks" / "drilldown.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == kind
    ]


def executed(run: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All code cells in one namespace, in the folder of the run's parent."""
    monkeypatch.setenv("COTENANT_RUN", str(run))
    monkeypatch.chdir(run.parent)
    names: dict[str, Any] = {}
    for cell in cells("code"):
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return names


def test_it_is_stored_without_outputs() -> None:
    assert len(cells("code")) >= 6
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))
    assert json.loads(NOTEBOOK.read_text(encoding="utf-8"))["nbformat"] == 4


def test_it_shows_the_figures_of_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = good_run(late_ms=1300.0, share=0.5, utterances=4, seconds=20, faces=False)
    builder.scenario["stages"][1:] = [{"name": "crowd", "load": ["voices", "decode"]}]
    names = executed(write_run(builder, tmp_path / "run"), monkeypatch)
    shown = names["stages"].set_index("stage")
    crowd = names["run"].stage("crowd").speech
    assert shown.loc["crowd", "clean share"] == crowd.clean_share == 0.5
    assert shown.loc["crowd", "underruns"] == crowd.underruns == 4
    assert names["worst"].stage == "crowd"
    clean = names["what_if"].query("stage == 'crowd'").set_index("lookahead ms")["clean share"]
    assert (clean[400], clean[1600]) == (0.5, 1.0)
    arrived, played = names["stream"].data
    assert len(arrived.x) == 20
    # Start, the stall's two ends, the end.
    assert len(played.x) == 4
    assert max(played.y) == pytest.approx(3200)
    assert {trace.name for trace in names["headroom"].data} == {"alone", "crowd", "alone/again"}
    assert "no audio was kept" in names["sound"].why
    assert not (tmp_path / "worst.wav").exists()


def test_it_writes_the_sound_where_it_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    voices = [[(100.0, 2400), (200.0, 2400)], [(100.0, 12_000), (1000.0, 2400)]]
    write_voice_run(tmp_path / "run", voices, window=(0, 60 * S))
    names = executed(tmp_path / "run", monkeypatch)
    assert names["worst"].stream == 1_000_002
    # 500 ms of audio at 100 ms, the rest at 1000 ms: 400 ms of silence between.
    assert soundfile.info(tmp_path / "worst.wav").frames == 14_400 + 9600
