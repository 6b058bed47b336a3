"""The life of a store: opening, places, topics that go and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError, StoreLockedError
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus

from .world import bodies_of, config_of, crash, open_store, put, put_ok


def test_a_second_store_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    with pytest.raises(StoreLockedError, match="storePathRootDir"):
        open_store(tmp_path)
    put_ok(store)
    store.close()
    open_store(tmp_path).close()


def test_a_second_store_on_the_same_commit_log_is_refused(tmp_path: Path) -> None:
    """Each of them would write over what the other one has acknowledged."""
    store = open_store(tmp_path / "one")
    put_ok(store)
    log = str(tmp_path / "one/commitlog")
    with pytest.raises(StoreLockedError, match="storePathCommitLog"):
        open_store(tmp_path / "another", store_path_commit_log=log)
    put_ok(store)
    store.close()
    store = open_store(tmp_path / "one")
    assert store.max_offset("T", 0) == 2
    store.close()
    open_store(tmp_path / "another", store_path_commit_log=log).close()


def test_a_log_whose_folder_was_moved_goes_on_nowhere_else(tmp_path: Path) -> None:
    """What would be acknowledged in a new folder, on whatever disk lies below a mount that is gone,
    the next start would not find."""
    folder = tmp_path / "log"
    store = open_store(tmp_path / "store", store_path_commit_log=str(folder))
    put_ok(store)
    folder.rename(tmp_path / "elsewhere")
    taken = 1
    while (result := put(store, body=bytes(3000))).status is PutStatus.PUT_OK:
        taken += 1
        assert taken < 100
    assert result.status is PutStatus.CREATE_MAPEDFILE_FAILED
    assert not folder.exists()
    (tmp_path / "elsewhere").rename(folder)
    put_ok(store, body=bytes(3000))
    crash(store)
    store = open_store(tmp_path / "store", store_path_commit_log=str(folder))
    assert store.max_offset("T", 0) == taken + 1
    store.close()


def test_the_abort_file_exists_while_the_store_is_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert (tmp_path / "abort").read_bytes() == b""
    assert (tmp_path / "lock").read_bytes() == b"lock"
    store.close()
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("commitlog/00000000000000016384", bytes(8192), "00000000000000008192: is missing between"),
        (
            "commitlog/00000000000000008192",
            bytes(100),
            "100 bytes long but the configured file size is 8192",
        ),
        ("commitlog/00000000000000008191", bytes(8192), "not a multiple of the file size"),
        ("commitlog/notes.txt", b"x", "not a file of the store"),
        ("commitlog/00000000000000000000/x", b"x", "not a file of the store"),
        ("consumequeue/T/0/x", b"x", "not a file of the store"),
        ("consumequeue/notes.txt", b"x", "not a folder of a topic"),
    ],
)
def test_a_directory_that_is_not_in_order_is_refused_and_left_alone(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    if not name.startswith("commitlog/00000000000000000000"):
        store = open_store(tmp_path)
        put_ok(store)
        store.close()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    before = sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock")
    with pytest.raises(StoreFileError) as caught:
        open_store(tmp_path)
    assert problem in str(caught.value)
    assert sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock") == before
    assert path.read_bytes() == content


def test_a_missing_commit_log_does_not_take_the_queues_with_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    store.close()
    (tmp_path / "commitlog").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreFileError, match="is the disk mounted"):
        open_store(tmp_path)
    (tmp_path / "commitlog").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "commitlog")
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"body"]
    store.close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFileError, match="cannot be made"):
        open_store(tmp_path / "file" / "store")


def test_another_place_for_the_commit_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    store = open_store(tmp_path / "store", store_path_commit_log=str(log))
    put_ok(store)
    store.close()
    assert [path.name for path in log.iterdir()] == ["0" * 20]
    assert not (tmp_path / "store/commitlog").exists()


def test_queue_file_sizes_are_rounded_up_to_units(tmp_path: Path) -> None:
    assert config_of(tmp_path, mapped_file_size_consume_queue=41).consume_queue_file_size == 60


def test_disk_ratios(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ratios = store.disk_ratios()
    assert set(ratios) == {"commit_log", "consume_queue"}
    assert all(
        0 <= ratio <= 1 and round(ratio * 100) == pytest.approx(ratio * 100)
        for ratio in ratios.values()
    )
    store.close()


# -- topics that are gone


def test_one_queue_goes_in_a_slice_and_what_is_made_meanwhile_stays(tmp_path: Path) -> None:
    """A disk that is busy takes milliseconds for each."""
    store = open_store(tmp_path)
    for queue_id in range(4):
        put_ok(store, queue_id=queue_id, body=b"old")
    left = []
    for _ in store.delete_topic_in_slices("T"):
        left.append([queue_id for queue_id in range(4) if store.max_offset("T", queue_id)])
        if len(left) == 2:
            assert put_ok(store, queue_id=0, body=b"new").queue_offset == 0
    assert left == [[1, 2, 3], [2, 3], [0, 3], [0]]
    assert bodies_of(store) == [b"new"]
    store.close()
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"new"]
    assert [store.max_offset("T", queue_id) for queue_id in range(4)] == [1, 0, 0, 0]
    store.close()


def test_a_topic_that_is_made_again_starts_at_0(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(25):
        put_ok(store, body=b"old")
    put_ok(store, "Kept")
    assert at_once(store.delete_topic_in_slices("T"))
    assert not at_once(store.delete_topic_in_slices("T"))
    assert not (tmp_path / "consumequeue/T").exists()
    assert store.get("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert put_ok(store, body=b"new").queue_offset == 0
    for end in (crash, MessageStore.close):
        end(store)
        store = open_store(tmp_path)
        assert bodies_of(store) == [b"new"]
        assert bodies_of(store, "Kept") == [b"body"]
    (tmp_path / "checkpoint").unlink()
    crash(store)
    store = open_store(tmp_path)  # everything is read again: 0..24, then 0
    assert bodies_of(store) == [b"new"]
    assert put_ok(store).queue_offset == 1
    store.close()


def test_topics_may_be_deleted_but_not_those_of_the_system(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = {
        "A",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",  # a table that was lost, or is its master's, may lack it
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "%LMQ%x",
    }
    for topic in (*sorted(kept), "B"):
        put_ok(store, topic)
    assert store.deletable_topics() == ["A", "B"]
    store.close()
