"""Staged rows: what is read again is what was written, or an error that says what to do."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from aiorocketmq.client.errors import MessageError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.sink.chunks import Chunk
from aiorocketmq.spark_connector.sink.manifest import Batches, Manifest, placed_chunks
from aiorocketmq.spark_connector.sink.staging import (
    Folder,
    StagedRows,
    StagingError,
    folder_of,
    name_of_rows,
    staged_chunks,
    uri_of,
)

QUEUES = st.none() | st.builds(
    lambda broker, number: (broker, number), st.sampled_from(["a", "b"]), st.integers(0, 3)
)
CHUNKS = st.lists(
    st.tuples(st.sampled_from(["T", "U"]), QUEUES, st.binary(max_size=40), st.integers(1, 9)),
    max_size=8,
)


def chunk(
    body: bytes = b"body",
    rows: int = 1,
    *,
    topic: str = "T",
    queue: tuple[str, int] | None = None,
    properties: str | None = None,
) -> Chunk:
    bound = None if queue is None else MessageQueue(topic, *queue)
    return Chunk(topic, bound, memoryview(body), rows, properties, 3, False)


def stage(location: Path, name: str, *chunks: Chunk) -> StagedRows:
    rows = StagedRows(folder_of(str(location)), "q", name)
    for each in chunks:
        rows.put(each)
    rows.finish()
    return rows


@pytest.mark.skipif(os.name != "posix", reason="there is no way to sync names")
def test_a_decision_is_on_the_disk_with_its_name_and_those_of_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are sent by it: without it a batch would be decided anew, and sent once more."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    batches = Batches(folder_of(str(tmp_path)) / "q")
    assert batches.decide(
        Manifest(batch=7, producer_id="p", begun_ms={}, queues={}, files=[], rows=0)
    )
    folder = tmp_path / "q" / "7"
    paths = [folder / "manifest.json", folder, tmp_path / "q", tmp_path]
    assert synced[: len(paths)] == [path.stat().st_ino for path in paths]


@pytest.mark.skipif(os.name != "posix", reason="there is no way to sync names")
def test_staged_rows_are_on_the_disk_when_the_task_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision that names them is: without them the batch could never be finished."""
    synced: list[tuple[int, int]] = []

    def sync(fd: int) -> None:
        status = os.fstat(fd)
        synced.append((status.st_ino, status.st_size))

    monkeypatch.setattr(os, "fsync", sync)
    rows = StagedRows(folder_of(str(tmp_path)) / "q" / "7", "q", "part-0")
    rows.put(chunk())
    assert synced == []
    rows.finish()
    folder = tmp_path / "q" / "7"
    paths = [folder / "part-0", folder, tmp_path / "q", tmp_path]
    assert synced == [(path.stat().st_ino, path.stat().st_size) for path in paths]


@given(some=CHUNKS)
def test_what_is_staged_is_read_again(
    some: list[tuple[str, tuple[str, int] | None, bytes, int]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        written = [chunk(body, rows, topic=topic, queue=queue) for topic, queue, body, rows in some]
        task = stage(Path(name), "part-0", *written).task
        assert list(staged_chunks(folder_of(name), "part-0")) == written
        assert task.rows == sum(each.rows for each in written)
        assert task.topics == {each.topic for each in written}
        assert set(task.brokers) == {e.queue.broker_name for e in written if e.queue is not None}


def test_a_file_that_was_cut_or_changed_is_noticed(tmp_path: Path) -> None:
    stage(tmp_path, "part-0", chunk(b"one", 2), chunk(b"two", 1, properties="a\x01b"))
    path = tmp_path / "part-0"
    good = path.read_bytes()
    for end in range(len(good)):
        path.write_bytes(good[:end])
        with pytest.raises(StagingError, match="is damaged"):
            list(staged_chunks(folder_of(str(tmp_path)), "part-0"))
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        with pytest.raises(StagingError, match="is damaged"):
            list(staged_chunks(folder_of(str(tmp_path)), "part-0"))


def test_what_cannot_be_stored_once_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    rows = StagedRows(folder_of(str(tmp_path)), "q", "part-0")
    with pytest.raises(MessageError, match="delayLevel"):
        rows.put(chunk(properties="a\x01b\x02DELAY\x013"))
    with pytest.raises(MessageError, match="%RETRY%g"):
        rows.put(chunk(topic="%RETRY%g"))
    rows.give_up()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StagingError, match=r"file/q.*stagingLocation"):
        StagedRows(folder_of(str(tmp_path / "file")) / "q", "q", "part-0")
    for nowhere in ("what://nowhere", "dbfs:/nowhere"):
        with pytest.raises(StagingError, match=f"{nowhere} is no place"):
            folder_of(nowhere)


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("/a/b", None),
        ("a/b", None),
        ("C:/a", None),
        ("file:/a/b", "file:///a/b"),
        ("hdfs:/a", "hdfs:///a"),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("dbfs:/a", "dbfs:///a"),
    ],
)
def test_a_place_is_written_as_spark_writes_it(location: str, uri: str | None) -> None:
    assert uri_of(location) == uri


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_folder_has_many_names(tmp_path: Path, form: str) -> None:
    stage_folder = folder_of(form.format(tmp_path)) / "q" / "0"
    rows = StagedRows(stage_folder, "q", "part-0")
    rows.finish()
    assert (tmp_path / "q" / "0" / "part-0").exists()
    assert stage_folder.names() == ["part-0"]
    assert (stage_folder / "none").names() == []


# --- decisions
# --------------------------------------------------------------------------------------------------


def manifest(batch: int, *files: str, producer_id: str = "p") -> Manifest:
    return Manifest(
        batch=batch,
        producer_id=producer_id,
        begun_ms={"a": 5, "b": 6},
        queues={"T": [("a", 0), ("b", 0)], "U": [("a", 1)]},
        files=list(files),
        rows=0,
    )


def test_places_and_numbers_of_a_batch_are_the_same_each_time(tmp_path: Path) -> None:
    stage(tmp_path, "part-0", chunk(rows=2), chunk(rows=3), chunk(rows=1, topic="U"))
    stage(tmp_path, "part-1", chunk(rows=4, queue=("b", 0)), chunk(rows=5))
    decided = manifest(7, "part-0", "part-1")
    folder = folder_of(str(tmp_path))
    first = list(placed_chunks(folder, decided))
    again = list(placed_chunks(folder, decided))
    assert first == again
    base = 7 << 32
    assert [(each.queue[1:], each.sequence) for each in first] == [
        (("a", 0), ("p", 8, base, 5)),
        (("b", 0), ("p", 8, base, 6)),
        (("a", 1), ("p", 8, base, 5)),
        (("b", 0), ("p", 8, base + 3, 6)),
        (("b", 0), ("p", 8, base + 7, 6)),
    ]


def test_what_was_decided_is_not_written_over_by_a_driver_that_counts_from_0_again(
    tmp_path: Path,
) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    location = tmp_path / "q" / "7"
    first = stage(location, name_of_rows(0, 3), chunk(b"as decided", 2)).task
    batches.decide(manifest(7, first.name))
    stage(location, name_of_rows(0, 3), chunk(b"another order", 5))
    given_up = StagedRows(batches.folder(7), "q", name_of_rows(0, 3))
    given_up.give_up()
    decided = batches.manifest(7)
    assert decided is not None
    found = [each.chunk.body for each in placed_chunks(batches.folder(7), decided)]
    assert found == [b"as decided"]


def test_who_is_second_gets_the_first_decision(tmp_path: Path) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    assert batches.manifest(3) is None
    first, second = manifest(3, "part-0"), manifest(3, "part-9", producer_id="other")
    assert batches.decide(first)
    assert not batches.decide(second)
    assert batches.manifest(3) == first
    assert {path.name for path in (tmp_path / "q" / "3").iterdir()} == {"manifest.json", "place"}


def test_a_batch_that_is_done_leaves_its_decision_and_nothing_before(tmp_path: Path) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    for batch in (1, 2):
        StagedRows(batches.folder(batch), "q", "part-0").finish()
        batches.decide(manifest(batch, "part-0", producer_id=f"p{batch}"))
    assert batches.producer_id() == "p2"
    assert not batches.is_done(2)
    batches.done(2)
    assert batches.is_done(2)
    assert [path.name for path in (tmp_path / "q").iterdir()] == ["2"]
    names = {path.name for path in (tmp_path / "q" / "2").iterdir()}
    assert names == {"manifest.json", "place", "done"}
    batches.done(2)


def test_who_goes_on_from_a_copy_is_another_producer(tmp_path: Path) -> None:
    """With the same times, and also where it is put back."""

    def producer_id(name: str) -> str:
        return Batches(folder_of(str(tmp_path)) / name).producer_id()

    Batches(folder_of(str(tmp_path)) / "q").decide(manifest(3, "part-0"))
    assert producer_id("q") == "p", "a query that is started again is the same"
    shutil.copytree(tmp_path / "q", tmp_path / "copy")
    assert producer_id("copy") != "p"
    assert producer_id("q") == "p"
    shutil.rmtree(tmp_path / "q")
    (tmp_path / "copy").rename(tmp_path / "q")
    assert producer_id("q") != "p"


def test_who_was_killed_before_it_noted_the_place_begins_anew(tmp_path: Path) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    batches.decide(manifest(3, "part-0"))
    batches.folder(3).delete("place")
    assert batches.producer_id() != "p"


def test_ids_of_producers_cannot_be_guessed(tmp_path: Path) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    one, other = batches.producer_id(), batches.producer_id()
    assert one != other
    assert len(one) == 32


def test_half_a_decision_is_none_on_any_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies, or the storage goes away, while it is written."""
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    batches = Batches(Folder(filesystem, "q"))
    writer = Folder.writer

    def breaking(folder: Folder, name: str) -> Any:
        stream = writer(folder, name)
        stream.write(b"{")
        stream.close()
        raise OSError("the storage is gone")

    monkeypatch.setattr(Folder, "writer", breaking)
    with pytest.raises(StagingError, match="the storage is gone"):
        batches.decide(manifest(3, "part-0"))
    assert batches.manifest(3) is None
    monkeypatch.setattr(Folder, "writer", writer)
    assert batches.decide(manifest(3, "part-0"))
    assert not batches.decide(manifest(3, "part-9"))
    assert batches.manifest(3) == manifest(3, "part-0")
    assert batches.producer_id() == "p"


def test_a_decision_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    batches = Batches(folder_of(str(tmp_path)) / "q")
    (tmp_path / "q" / "3").mkdir(parents=True)
    path = tmp_path / "q" / "3" / "manifest.json"
    for text in ("", "{", '{"version":1}'):
        path.write_text(text)
        with pytest.raises(StagingError, match=r"3/manifest\.json cannot be read"):
            batches.manifest(3)
    path.write_text(
        '{"version":9,"batch":1,"producer_id":"p","begun_ms":{},"queues":{},"files":[],"rows":0}'
    )
    with pytest.raises(StagingError, match="version 9"):
        batches.manifest(3)
