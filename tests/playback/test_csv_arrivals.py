"""CSV text to streams: exact times, any form of a table, and the right row for what is wrong."""

import numpy as np
import pytest

from cotenant.errors import UserError
from cotenant.playback import csv_columns
from cotenant.playback.csv_arrivals import CsvStreams, read_arrivals, read_frames

HEAD = b"arrival_ms,duration_ms\n"


def read(data: bytes, give_up_ns: int | None = None) -> CsvStreams:
    return read_arrivals(data, give_up_ns=give_up_ns, source="f.csv")


def rows(streams: CsvStreams) -> list[tuple[str, int, int]]:
    arrivals = streams.arrivals
    names = np.repeat(np.array(streams.names, object), np.diff(arrivals.offsets))
    times = (arrivals.arrival_ns + streams.origin_ns).tolist()
    return list(zip(names.tolist(), times, arrivals.media_ns.tolist(), strict=True))


@pytest.mark.parametrize(
    "data",
    [
        b"arrival_ms,duration_ms\n0.1,80\n10,80\n",
        b"\xef\xbb\xbfarrival_ms,duration_ms\r\n0.1,80\r\n10,80",
        b"\n  \narrival_ms, duration_ms\n\n0.1,80\n   \n10,80\n\n",
        b"note,duration_ms,x,arrival_ms\n\xff,80,,0.1\n,8e1,y,10.0000\n",
        b'"arrival_ms","duration_ms"\r0.1,"80"\r10,80\r',
        b"arrival_ms,duration_ms\n 0.1 ,+80\n1e1,80.\n",
    ],
)
def test_every_form_of_one_table(data: bytes) -> None:
    assert rows(read(data)) == [("0", 100_000, 80_000_000), ("0", 10_000_000, 80_000_000)]


def test_decimal_milliseconds_are_exact_nanoseconds() -> None:
    generator = np.random.default_rng(3)
    wanted = generator.integers(0, 2**50, 20_000)
    text = "".join(f"{value // 10**6}.{value % 10**6:06d},1\n" for value in wanted.tolist())
    assert [at for _, at, _ in rows(read(HEAD + text.encode()))] == wanted.tolist()


@pytest.mark.parametrize("value_ns", [2**51 - 1, 2**51, 1_700_000_000_000_123_457, 2**53 + 1])
def test_clocks_that_have_run_for_years_lose_nothing(value_ns: int) -> None:
    text = f"{value_ns // 10**6}.{value_ns % 10**6:06d}"
    assert rows(read(HEAD + f"{text},0.000001\n".encode())) == [("0", value_ns, 1)]
    # Digits below a nanosecond are rounded, not cut.
    assert rows(read(HEAD + f"{text}6,1\n".encode()))[0][1] == value_ns + 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "f.csv is empty"),
        (b" \n\n", "f.csv is empty"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"arrival_ms;duration_ms\n1;2\n", "separated by commas"),
        (b"arrival_ms,stream\n1,2\n", "no column 'duration_ms'"),
        (b"arrival_ms,duration_ms,arrival_ms\n", "'arrival_ms' 2 times"),
        (HEAD + b"1,2\n\nx,2\n", r"row 2 \(line 4\): arrival_ms is 'x'"),
        (HEAD + b"1,2\n1,nan\n", r"row 2 \(line 3\): duration_ms is 'nan'; a finite"),
        (HEAD + b"inf,2\n", r"row 1 \(line 2\): arrival_ms is 'inf'; a finite"),
        (HEAD + b"1,2\n1,-0.5\n", r"row 2 \(line 3\): duration_ms is '-0.5'; a time cannot be negative"),
        (HEAD + b"1,2\n,2\n", r"row 2 \(line 3\): arrival_ms is empty"),
        (HEAD + b"1,2\n3\n", r"row 2 \(line 3\): 1 fields"),
        (HEAD + b"1,5,80\n", r"row 1 \(line 2\): 3 fields"),
        (HEAD + b"1,1e400\n", r"row 1 \(line 2\): duration_ms is '1e400'; more than"),
        (HEAD + b"1_0,1\n", r"row 1 \(line 2\): arrival_ms is '1_0'"),
        (HEAD + b"0x10,1\n", r"row 1 \(line 2\)"),
        (HEAD + "\N{ARABIC-INDIC DIGIT ONE},1\n".encode(), r"row 1 \(line 2\)"),
        (HEAD + b"60000000000000,60000000000000\n" * 1, "more than"),
        (HEAD + b"0,1e12\n" * 3, "durations sum"),
        (b"arrival_ms,duration_ms,stream\n1,2,\n", r"row 1 \(line 2\): stream is empty"),
        (b"arrival_ms,duration_ms,stream\n1,2,\xff\n", r"row 1 \(line 2\): stream"),
        (b"arrival_ms,duration_ms,end\n1,2,eos\n1,2,cut\n", r"row 2 \(line 3\): end is 'cut'; it is one of"),
        (b"arrival_ms,duration_ms,end\n1,2,eos\n1,2,truncated\n", "both eos and truncated"),
        (b"arrival_ms,duration_ms,note\n1,2,\"a\nb\"\n-1,2,\n", r"row 2 \(line 4\)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_row(data: bytes, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read(data)


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("at", [0, 1, 777, 1999])
def test_the_row_is_right_in_any_piece(monkeypatch: pytest.MonkeyPatch, at: int, quote: str) -> None:
    monkeypatch.setattr(csv_columns, "_PIECE_BYTES", 500)
    lines = [f"{number},{quote}80{quote}{number % 3 and ' '}" for number in range(2000)]
    lines[at] = "7,oops"
    blank = ["\n" if number % 5 == 0 else "" for number in range(2000)]
    text = "".join(f"{gap}{line}\n" for gap, line in zip(blank, lines, strict=True))
    line = 2 + at + at // 5 + 1
    with pytest.raises(UserError, match=rf"row {at + 1} \(line {line}\): duration_ms is 'oops'"):
        read(HEAD + text.encode())


def test_streams_in_order_of_appearance_with_their_rows_kept_in_order() -> None:
    data = b"stream,arrival_ms,duration_ms\nb,5,1\na,3,2\n b ,4,3\na,3,4\n"
    streams = read(data)
    assert streams.names == ("b", "a")
    assert [row[1:] for row in rows(streams)] == [
        (5_000_000, 1_000_000), (4_000_000, 3_000_000), (3_000_000, 2_000_000), (3_000_000, 4_000_000),
    ]  # fmt: skip
    assert streams.origin_ns == 3_000_000
    assert streams.arrivals.done_ns.tolist() == [2_000_000, 0]


def test_the_end_of_streams() -> None:
    data = b"stream,arrival_ms,duration_ms,end\na,0,1,\na,9,1,eos\nb,4,1,truncated\nc,2,1,\nc,8,0,\n"
    without, with_time = read(data), read(data, 7_000_000)
    assert without.arrivals.ended.tolist() == [True, False, True]
    assert with_time.arrivals.ended.tolist() == [True, False, False]
    assert with_time.arrivals.give_up_ns.tolist() == [16_000_000, 11_000_000, 9_000_000]
    assert read(HEAD + b"1,2\n", 0).arrivals.ended.tolist() == [False]


def test_a_header_alone_has_no_streams() -> None:
    assert read(HEAD).names == ()
    assert read(b"arrival_ms,duration_ms,stream").arrivals.streams == 0


def test_frames_share_the_clock_of_the_voices() -> None:
    one = read(HEAD + b"100,80\n")
    frames = read_frames(b"media_ms,arrival_ms\n0,150\n40,90\n", one, source="v.csv")
    assert frames["0"].arrival_ns.tolist() == [50_000_000, -10_000_000]
    two = read(b"arrival_ms,duration_ms,stream\n1,1,a\n1,1,b\n")
    with pytest.raises(UserError, match="needs a column 'stream'"):
        read_frames(b"media_ms,arrival_ms\n0,150\n", two, source="v.csv")
    with pytest.raises(UserError, match="'c', which the voices do not have"):
        read_frames(b"media_ms,arrival_ms,stream\n0,150,c\n", two, source="v.csv")
