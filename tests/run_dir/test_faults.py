"""Torn files, foreign folders and full disks: what can be read is read, the rest is one sentence."""

import errno
import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cotenant.errors import UserError
from cotenant.records import TABLES
from cotenant.run_dir import manifest, reader
from cotenant.run_dir.writer import RunWriter

MANIFEST = {"schema": 1, "tool": "cotenant"}


def stream_file(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def test_a_tail_torn_at_any_byte_loses_only_its_own_batch(tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    writer = RunWriter(tmp_path, "w")
    path = tmp_path / "tables/marks/w.arrows"
    sizes, batch_rows = [0], [(1, "a"), (2, "bb")]
    for t, name in batch_rows:
        writer.append("marks", t=t, name=name)
        writer.flush()
        sizes.append(path.stat().st_size)
    writer.close()
    whole = path.read_bytes()
    assert whole[sizes[2] :] == b"\xff\xff\xff\xff\x00\x00\x00\x00"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        read = reader.read(tmp_path).tables["marks"]
        assert list(zip(read["t"].to_pylist(), read["name"].to_pylist(), strict=True)) == [
            row for row, size in zip(batch_rows, sizes[1:], strict=True) if size <= cut
        ], cut


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 64, b"\xff\xff\xff\xff\x40\0\0\0" + b"\x07" * 300])
def test_a_tail_of_garbage_is_left_out(tmp_path: Path, tail: bytes) -> None:
    manifest.write(tmp_path, MANIFEST)
    writer = RunWriter(tmp_path, "w")
    writer.append("host", t=1, source="x")
    writer.flush()
    with (tmp_path / "tables/host/w.arrows").open("ab") as file:
        file.write(tail)
    assert reader.read(tmp_path).tables["host"]["t"].to_pylist() == [1]
    writer.close()


def test_what_is_not_a_run_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        reader.read(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is not a folder"):
        reader.read(tmp_path / "file")
    with pytest.raises(UserError, match=r"has no manifest\.json"):
        reader.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ('{"schema": 1, "tool": "cote', "damaged"),
        ("\udcff\udcfe{}", "damaged"),
        ("[" * 100_000, "damaged"),
        ("[]", "not recorded by cotenant"),
        ('{"schema": 1}', "not recorded by cotenant"),
        ('{"schema": 1, "tool": "other"}', "not recorded by cotenant"),
        ('{"tool": "cotenant"}', "schema is None"),
        ('{"schema": true, "tool": "cotenant"}', "schema is True"),
        ('{"schema": 0, "tool": "cotenant"}', "schema is 0"),
        ('{"schema": 1, "tool": "cotenant", "cores": [0, 1]}', "its cores is no object"),
        ('{"schema": 1, "tool": "cotenant", "device": "cpu"}', "its device is no object"),
        ('{"schema": 1, "tool": "cotenant", "looks": "two"}', "its looks or not_run are wrong"),
        ('{"schema": 1, "tool": "cotenant", "not_run": "all"}', "its looks or not_run are wrong"),
        ('{"schema": 1, "tool": "cotenant", "not_run": [{"round": [1]}]}', "its looks or not_run are wrong"),
        (
            '{"schema": 1, "tool": "cotenant", "device": {"cpu_count": 1e9}}',
            "device.cpu_count is no number of",
        ),
        (
            '{"schema": 1, "tool": "cotenant", "device": {"machine_cpu_count": 1%s}}' % ("0" * 400),
            "device.machine_cpu_count is no number of cores",
        ),
        ('{"schema": 2, "tool": "cotenant"}', "newer cotenant .schema 2, this one reads up to 1.*upgrade"),
    ],
)
def test_a_manifest_that_is_torn_foreign_or_newer(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        reader.read(tmp_path)


def test_the_manifest_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    run_dir = tmp_path / "new" / "run"
    manifest.write(run_dir, {**MANIFEST, "name": "caf\u00e9"})
    with pytest.raises(ValueError, match="Out of range"):
        manifest.write(run_dir, {**MANIFEST, "x": float("nan")})
    with pytest.raises(TypeError):
        manifest.write(run_dir, {**MANIFEST, "x": object()})
    assert manifest.read(run_dir)["name"] == "caf\u00e9"
    assert [path.name for path in run_dir.iterdir()] == ["manifest.json"]


def test_foreign_tables_are_refused_and_older_ones_filled_with_null(tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    host = TABLES["host"]
    cases = [
        (pa.schema([*host, ("mood", pa.string())]), "column mood"),
        (pa.schema([("t", pa.float64())]), "column t"),
        (pa.schema([host.field("source")]), "no single column t"),
        (pa.schema([host.field("t"), host.field("t")]), "no single column t"),
    ]
    path = tmp_path / "tables/host/w.arrows"
    for schema, message in cases:
        stream_file(path, schema, [])
        with pytest.raises(UserError, match=message):
            reader.read(tmp_path)
        path.unlink()
        path.parent.rmdir()
    stream_file(path, pa.schema([host.field("source"), host.field("t")]), [{"t": 4, "source": "x"}])
    read = reader.read(tmp_path).tables["host"]
    assert read.schema == host
    assert read.to_pylist() == [{"t": 4, "source": "x", "metric": None, "value": None}]
    (tmp_path / "tables/host/other.arrows").write_text("not Arrow at all")
    with pytest.raises(UserError, match="cannot be read as a table"):
        reader.read(tmp_path)


FULL_DISK = """
import errno, sys
from pathlib import Path
from cotenant.run_dir.writer import RunWriter
writer = RunWriter(Path(sys.argv[1]), "w", audio_limit_bytes=int(sys.argv[2]))
flushed = 0
try:
    for t in range(10**6):
        writer.append("host", t=t, source="x" * 100)
        writer.append_audio(bytes(200))
        if t % 10 == 9:
            writer.flush()
            flushed = t + 1
except OSError as error:
    print(errno.errorcode[error.errno], flushed)
try:
    writer.close()
except OSError as error:
    print(errno.errorcode[error.errno], flushed)
"""


@pytest.mark.parametrize("audio_limit_bytes", [0, 10**9])
def test_a_file_that_may_not_grow_ends_with_a_whole_batch(tmp_path: Path, audio_limit_bytes: int) -> None:
    manifest.write(tmp_path, MANIFEST)
    limit_bytes = 50_001

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(audio_limit_bytes)],
        preexec_fn=limit, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    first, second = (line.split() for line in child.stdout.splitlines())
    assert first == second
    assert first[0] == errno.errorcode[errno.EFBIG]
    assert len(reader.read(tmp_path).tables["host"]) == int(first[1]) > 0
    assert all(path.stat().st_size < limit_bytes for path in tmp_path.rglob("*.*") if path.is_file())


def test_a_full_disk_raises_and_leaves_whole_batches(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("only root can mount a small tmpfs here")
    try:
        manifest.write(tmp_path, MANIFEST)
        child = subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(tmp_path), "0"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert [line.split()[0] for line in child.stdout.splitlines()] == ["ENOSPC", "ENOSPC"]
        assert len(reader.read(tmp_path).tables["host"]) == int(child.stdout.split()[1]) > 0
        with pytest.raises(OSError, match="No space left"):
            manifest.write(tmp_path, {**MANIFEST, "filler": "x" * 200_000})
        assert manifest.read(tmp_path) == MANIFEST
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_damaged_bytes_are_left_out_or_refused_and_never_crash(tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    writer = RunWriter(tmp_path, "w")
    for t in range(3):
        writer.append("marks", t=t, what="stage", name="n" * t)
        writer.flush()
    writer.close()
    path = tmp_path / "tables/marks/w.arrows"
    whole = path.read_bytes()
    rng = random.Random(5)
    outcomes = set()
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] = rng.choice([0, 255, rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            outcomes.add(len(reader.read(tmp_path).tables["marks"].to_pylist()))
        except UserError:
            outcomes.add(-1)
    assert {-1, 0, 3} <= outcomes <= {-1, 0, 1, 2, 3}


@pytest.mark.parametrize("kind", ["folder", "loop", "dangling", "pipe", "long"])
def test_a_table_that_is_no_file_is_said_in_a_sentence(kind: str, tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    path = tmp_path / "tables/streams/x.arrows"
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        target = {"loop": path.name, "dangling": "nowhere", "long": "a" * 300}[kind]
        path.symlink_to(target if kind != "long" else "a" * 255 + "/" + "a" * 300)
    with pytest.raises(UserError, match=r"x\.arrows cannot be read as a table of a run"):
        reader.read(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_a_manifest_that_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"manifest\.json is damaged: it is not a file"):
        reader.read(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "device", "gone", "no folder", "offset"])
def test_audio_that_cannot_be_read_is_as_audio_that_was_not_kept(kind: str, tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    writer = RunWriter(tmp_path, "w")
    offset = writer.append_audio(b"aabb")
    chunk = {"stream": 1, "seq": 0, "arrival": 1, "media": 2_000_000, "bytes": 4}
    writer.append("chunks", **chunk, audio_offset=-1 if kind == "offset" else offset)
    writer.append("streams", stream=1, end="eos", rate_hz=1000, sample_format="s16")
    writer.close()
    path = tmp_path / "audio/w.pcm"
    if kind != "offset":
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("loop", "device"):
        path.symlink_to({"loop": path.name, "device": "/dev/zero"}[kind])
    elif kind == "no folder":
        path.parent.rmdir()
        path.parent.touch()
    assert reader.read_audio(tmp_path, reader.read(tmp_path), 1) is None


def test_a_folder_of_tables_that_is_none_is_said_in_a_sentence(tmp_path: Path) -> None:
    manifest.write(tmp_path, MANIFEST)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/host").symlink_to("host")
    with pytest.raises(UserError, match="host cannot be read: Too many"):
        reader.read(tmp_path)


@pytest.mark.parametrize("name", ["a" * 300, "loop", "file/run"])
def test_a_path_that_cannot_be_a_folder_is_said_in_a_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be read"):
        reader.read(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("closed", ["tables/host", "tables/host/w.arrows", "manifest.json", "."])
def test_what_may_not_be_read_is_said_in_a_sentence(closed: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    manifest.write(run, MANIFEST)
    RunWriter(run, "w").close()
    (run / "tables/host").mkdir(parents=True, exist_ok=True)
    (run / "tables/host/w.arrows").touch()
    (run / closed).chmod(0)
    try:
        with pytest.raises(UserError, match="cannot be read"):
            reader.read(run)
    finally:
        (run / closed).chmod(0o700)
