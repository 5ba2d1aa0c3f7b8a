"""`cotenant simulate`: numbers, reasons, codes and what goes where."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.by_hand import cotenant

# A tiny first chunk, then two seconds at a time: one stall of 540 ms.
TINY_FIRST = "arrival_ms,duration_ms\n0,80\n620,2000\n1520,2000\n2420,2000\n3320,2000\n"
Capture = pytest.CaptureFixture[str]


def simulate(*arguments: str | Path) -> int:
    return cotenant("simulate", *arguments)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(TINY_FIRST, encoding="utf-8")
    return path


def found(capsys: Capture, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    assert simulate(*arguments, "--json") == code
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_keys_and_numbers_of_json(csv: Path, capsys: Capture) -> None:
    result = found(capsys, csv, "--lookahead", "0ms")
    stream = result["streams"][0]
    assert result["schema"] == 1
    assert (result["lookahead_ms"], result["start"], result["after_underrun"]) == (0.0, "prefill", "resume")
    assert result["clean_share"] == 0.0
    wanted = {
        "stream": "0", "chunks": 5, "audio_ms": 8080.0, "first_sound_ms": 0.0, "underruns": 1,
        "stall_ms": {"total": 540.0, "longest": 540.0}, "stall_ratio": 540 / 8620, "headroom_ms": -540.0,
        "required_lookahead_ms": 540.0, "audio_underrun_ms": 540.0, "longest_stall_ms": 540.0, "clean": False,
        "required_prefill_ms": 80.000001, "heard_ms": 8080.0, "lost_ms": 0.0, "why": {},
        "continuity": {"c50": False, "c100": False, "c200": False},
        "gap_time_weighted_ms": {"p50": 900.0, "p95": 900.0, "p99": 900.0},
        "events": [{"at_ms": 80.0, "media_ms": 80.0, "duration_ms": 540.0, "open": False}],
    }  # fmt: skip
    assert {key: stream[key] for key in wanted} == wanted


def test_the_required_prefill_is_the_least_that_is_clean(csv: Path, capsys: Capture) -> None:
    assert found(capsys, csv, "--lookahead", "80000000ns")["streams"][0]["underruns"] == 1
    assert found(capsys, csv, "--lookahead", "80000001ns")["streams"][0]["underruns"] == 0
    delayed = found(capsys, csv, "--start", "delay", "--lookahead", "540ms")["streams"][0]
    assert (delayed["underruns"], delayed["headroom_ms"], delayed["first_sound_ms"]) == (0, 0.0, 540.0)


def test_the_other_players(csv: Path, capsys: Capture) -> None:
    zero = ("--lookahead", "0ms")
    refilled = found(capsys, csv, *zero, "--after-underrun", "refill", "--refill", "2100ms")["streams"][0]
    assert refilled["stall_ms"]["total"] == 1440.0
    dropped = found(capsys, csv, *zero, "--after-underrun", "drop")["streams"][0]
    assert (dropped["lost_ms"], dropped["heard_ms"]) == (540.0, 7540.0)
    synced = found(capsys, csv, *zero, "--after-underrun", "drop", "--resync-after", "0ms")["streams"][0]
    assert (synced["lost_ms"], synced["stall_ms"]["total"]) == (0.0, 540.0)
    coarse = found(capsys, csv, *zero, "--quantum", "100ms")
    assert (coarse["quantum_ms"], coarse["streams"][0]["stall_ms"]["total"]) == (100.0, 620.0)


def test_every_null_has_its_reason(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        "stream,arrival_ms,duration_ms,end\nsilent,3,0,\nsingle,1,500,\ncut,0,80,truncated\n",
        encoding="utf-8",
    )
    result = found(capsys, path, "--give-up", "1s")
    streams = {stream["stream"]: stream for stream in result["streams"]}
    assert list(streams) == ["silent", "single", "cut"]
    for stream in streams.values():
        assert sorted(_nulls(stream)) == sorted(stream["why"])
    silent = streams["silent"]
    assert (silent["why"]["required_lookahead_ms"], silent["why"]["headroom_ms"]) == ("+inf", "-inf")
    assert not silent["clean"]
    assert streams["cut"]["why"]["stall_ms.total"] == "cut off before playback began"
    assert streams["cut"]["required_lookahead_ms"] == 920.0
    # Given up at last: the single one, too, for nothing marks its end.
    assert [streams[name]["truncated"] for name in streams] == [True, True, True]
    assert found(capsys, path)["clean_share"] == 1 / 3


def _nulls(entry: dict[str, Any], prefix: str = "") -> list[str]:
    nulls: list[str] = []
    for key, value in entry.items():
        if isinstance(value, dict) and key != "why":
            nulls += _nulls(value, f"{prefix}{key}.")
        elif value is None:
            nulls.append(prefix + key)
    return nulls


def test_rows_out_of_order_are_sorted_with_a_warning(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "c.csv"
    lines = TINY_FIRST.splitlines()
    path.write_text("\n".join([lines[0], *reversed(lines[1:])]), encoding="utf-8")
    assert simulate(path, "--lookahead", "0ms", "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["streams"][0]["stall_ms"]["total"] == 540.0
    assert "warning: rows out of order" in shown.err


def test_people_get_a_table_and_a_plot_on_stderr(csv: Path, capsys: Capture) -> None:
    assert simulate(csv) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "<- this one" in shown.err
    assert "95 % of the streams clean: 81 ms of lookahead" in shown.err
    assert "1 of 1 stream clean" in shown.err


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("", 2, "is empty"),
        ("arrival_ms,duration_ms\n", 3, "no streams"),
        ("arrival_ms\n1\n", 2, "no column 'duration_ms'"),
        ("arrival_ms,duration_ms\n1,2\n1,x\n", 2, "row 2 (line 3)"),
        ("arrival_ms,duration_ms\n1,NaN\n", 2, "row 1 (line 2)"),
        ("arrival_ms,duration_ms\n1,-3\n", 2, "row 1 (line 2)"),
    ],
)
def test_codes_of_bad_input(
    text: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert simulate("-") == code
    assert told in capsys.readouterr().err


def test_a_header_alone_is_json_too(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "d.csv"
    path.write_text("arrival_ms,duration_ms\n", encoding="utf-8")
    result = found(capsys, path, code=3)
    assert result["streams"] == []
    assert result["clean_share"] is None
    assert result["why"]["clean_share"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--lookahead", "400"), "--lookahead"),
        (("--refill", "1s"), "--after-underrun refill"),
        (("--resync-after", "1s"), "--after-underrun drop"),
        (("--faces", "nope.csv"), "nope.csv: no such file"),
    ],
)
def test_wrong_options(csv: Path, arguments: tuple[str, ...], told: str, capsys: Capture) -> None:
    assert simulate(csv, *arguments) == 2
    assert told in capsys.readouterr().err


def test_faces_beside_their_voice(csv: Path, tmp_path: Path, capsys: Capture) -> None:
    faces = tmp_path / "f.csv"
    frames = "".join(f"{40 * number},{40 * number}\n" for number in range(202))
    faces.write_text("arrival_ms,media_ms\n" + frames, encoding="utf-8")
    face = found(capsys, csv, "--faces", faces, "--lookahead", "400ms")["streams"][0]["face"]
    assert (face["frames"], face["dropped"], face["freezes"], face["fps_min"]) == (202, 0, 0, 25)
    assert face["first_frame_ms"] == 620.0
    assert face["skew_ms"] == {"p5": 0.0, "p50": 0.0, "p95": 0.0}


@pytest.mark.parametrize("number", ["1e308", "1e300", "-1e308"])
def test_a_number_beyond_all_time_is_2_without_a_warning(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"arrival_ms,duration_ms\n0,100\n{number},100\n")
    assert simulate(path) == 2
    assert f"row 2 (line 3): arrival_ms is '{number}'" in capsys.readouterr().err


def test_a_picture_years_after_its_voice_is_shown_soon_after(tmp_path: Path) -> None:
    voice, face = tmp_path / "a.csv", tmp_path / "f.csv"
    voice.write_text("arrival_ms,duration_ms\n0,2000\n")
    face.write_text("arrival_ms,media_ms\n0,0\n40,2e12\n")
    assert simulate(voice, "--faces", face) == 0


@pytest.mark.parametrize(
    ("start", "needs", "enough"), [("prefill", "1141 ms", "1141ms"), ("delay", "1560 ms", "1560ms")]
)
def test_what_a_stream_needs_is_for_the_start_rule_asked(
    start: str, needs: str, enough: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("arrival_ms,duration_ms\n0,80\n620,560\n1500,500\n2700,500\n")
    simulate(path, "--start", start)
    shown = capsys.readouterr()
    assert needs in (shown.out + shown.err).splitlines()[1]
    assert found(capsys, path, "--start", start, "--lookahead", enough)["streams"][0]["underruns"] == 0


def test_a_stream_that_was_cut_off_needs_no_lookahead_for_none_would_do(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "a.csv"
    chunks = "0,400,\n300,400,\n1200,400,truncated\n"
    path.write_text("arrival_ms,duration_ms,end\n" + chunks, encoding="utf-8")
    for start in ("prefill", "delay"):
        assert simulate(path, "--start", start) == 0
        shown = capsys.readouterr().err
        assert shown.splitlines()[1].split()[-2:] == ["-", "cut"]
        needed = "95 % of the streams clean: no lookahead would do, for 1 of 1 stream was cut off"
        assert needed in shown.splitlines()
    path.write_text(path.read_text().replace("truncated", "eos"), encoding="utf-8")
    assert simulate(path) == 0
    shown = capsys.readouterr().err
    assert "cut" not in shown
    assert " 801 ms " in shown


def test_what_the_columns_count_is_said(csv: Path, capsys: Capture) -> None:
    for arguments, rule, early in (
        ((), "--start prefill", False), (("--start", "delay"), "--start delay", False),
        (("--lookahead", "9s"), "--start prefill", True),
    ):  # fmt: skip
        assert simulate(csv, *arguments) == 0
        shown = " ".join(capsys.readouterr().err.split())
        assert "first sound counts from the first chunk's arrival" in shown
        assert f"needs: the least lookahead without any stall ({rule}, " in shown
        assert ("headroom +inf: all of it had arrived before playback began" in shown) is early
        assert (" +inf " in shown.partition("first sound counts")[0]) is early


def test_people_are_told_of_faces_in_lines_of_60_columns(csv: Path, tmp_path: Path, capsys: Capture) -> None:
    faces = tmp_path / "f.csv"
    frames = "".join(f"{40 * number},{40 * number}\n" for number in range(202))
    faces.write_text("arrival_ms,media_ms\n" + frames, encoding="utf-8")
    assert simulate(csv, "--faces", faces) == 0
    assert "\nface 0: fps p5 25, harmonic fps 25, freezes 0, skew p50 0 ms\n" in capsys.readouterr().err
    name = "talking-head-of-somebody"
    csv.write_text(f"stream,arrival_ms,duration_ms,end\n{name},0,500,eos\n", encoding="utf-8")
    faces.write_text(f"stream,arrival_ms,media_ms\n{name},0,0\n{name},40,40\n", encoding="utf-8")
    assert simulate(csv, "--faces", faces) == 0
    lines = capsys.readouterr().err.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"face {name}: "))
    told = lines[first : lines.index("", first)]
    assert len(told) > 1
    assert max(map(len, told)) <= 60
    assert not any(line.endswith("p50") for line in told)
    text = " ".join(" ".join(told).split())
    assert text.startswith(f"face {name}: fps p5 -, harmonic fps ")
    assert text.endswith("(the clip is shorter than 1 s)")
    assert simulate(csv) == 0
    assert "face" not in capsys.readouterr().err
