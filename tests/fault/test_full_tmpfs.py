"""A store on a full tmpfs: nothing may touch a hole of a file through its mapping (the rule:
``mapped_file``)."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.queues import queue_survey
from aiorocketmq.store.queues.consume_queue_ext import ExtUnit

from ..store.world import NOW, bodies_of, crash, open_store, put, put_ok
from .own_process import done_on_full_tmpfs, on_full_tmpfs

PAGE = 4096
LOG_FILE = 256 * PAGE
FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 200_000,
}
INDEX: dict[str, Any] = {"max_hash_slot_num": 10_000, "max_index_num": 400}
"""Ten pages of slots."""
SHORT_QUEUES = FILES | {"mapped_file_size_consume_queue": 5 * PAGE, "message_index_enable": False}
EXT: dict[str, Any] = {
    "enable_consume_queue_ext": True,
    "mapped_file_size_consume_queue_ext": 64 * PAGE,
}


def punch(path: Path, first_page: int, pages: int) -> None:
    """Zeros in a file, which are a hole in its copy."""
    data = path.read_bytes()
    start, stop = first_page * PAGE, (first_page + pages) * PAGE
    path.write_bytes(data[:start] + bytes(stop - start) + data[stop:])


# -- starts


def start(root: Path) -> None:
    store = open_store(root, **FILES)
    print(len(bodies_of(store)), store.message_by_offset(PAGE * 220), flush=True)
    crash(store)


@pytest.mark.parametrize("stop", ["clean stop", "kill", "kill with a checkpoint", "damaged"])
def test_a_start_touches_no_hole(tmp_path: Path, stop: str) -> None:
    """The log ends with a whole page, and so does its first file, behind which a blank leads on."""
    root = tmp_path / "store"
    store = open_store(root, message_index_enable=False, **FILES)
    head = put_ok(store).size - 4
    for end in (PAGE * 3, PAGE * 200):  # the next record does not fit then
        put_ok(
            store,
            body=bytes([1]) * (end - store.max_phy_offset % LOG_FILE - head),
            store_timestamp=NOW,
        )
    put_ok(store, body=b"x" * (LOG_FILE - PAGE * 150))
    put_ok(store, body=bytes([1]) * (PAGE * 115 - store.max_phy_offset % LOG_FILE - head))
    assert store.max_phy_offset % PAGE == 0
    if stop == "kill with a checkpoint":
        store.flush.save()
    store.close() if stop == "clean stop" else crash(store)
    shutil.rmtree(root / "index", ignore_errors=True)
    if stop == "damaged":
        path = root / "commitlog" / ("0" * 20)
        data = path.read_bytes()
        path.write_bytes(data[:PAGE] + bytes(8) + data[PAGE + 8 :])
        (root / "queueends").unlink(missing_ok=True)
    if stop in ("kill", "damaged"):  # entries of queues have to be written, which takes space
        done = on_full_tmpfs(start, root)
        assert (done.returncode, done.stdout) == (1, "")
        assert "No space left on device" in done.stderr.splitlines()[-1]
    else:
        assert done_on_full_tmpfs(start, root).split() == ["5", "None"]


# -- the index


def look_up(root: Path) -> None:
    store = open_store(root, **FILES | INDEX)
    for number in range(200):
        answer = at_once(store.query.steps("T", f"k{number}", 10, 0, NOW + 1))
        assert bool(answer.records) == (number < 20), number
    crash(store)


def test_a_query_touches_no_hole_of_an_index_file(tmp_path: Path) -> None:
    """The original makes sparse ones."""
    store = open_store(tmp_path / "store", **FILES | INDEX)
    for number in range(20):
        put_ok(store, properties={"KEYS": f"k{number}"})
    store.close()
    done_on_full_tmpfs(look_up, tmp_path / "store")


def test_an_index_file_without_anything_is_one_hole(tmp_path: Path) -> None:
    """As the original leaves it when it is killed early."""
    store = open_store(tmp_path / "store", **FILES | INDEX)
    for number in range(20):
        put_ok(store, properties={"KEYS": f"k{number}"})
    store.close()
    (path,) = (tmp_path / "store" / "index").iterdir()
    path.with_name(str(int(path.name) + 1)).write_bytes(bytes(path.stat().st_size))
    done_on_full_tmpfs(look_up, tmp_path / "store")


# -- the commit log


def filled(root: Path, count: int, body: bytes = b"x" * 20_500, **settings: Any) -> None:
    """Some files of a log. They end with a blank of almost five pages, of which only the first
    eight bytes are written."""
    store = open_store(root, **FILES | {"message_index_enable": False} | settings)
    for _ in range(count):
        put_ok(store, body=body)
    store.close()


def send_all(root: Path) -> None:
    """As a master does: all of it, in any pieces."""
    store = open_store(root, **FILES)
    for at in range(0, store.max_phy_offset, 8 * PAGE):
        size = min(8 * PAGE, store.max_phy_offset - at)
        view = store.view(at, size)
        assert view is not None
        with view:
            assert bytes(view) == store.read(at, size)
    crash(store)


def test_the_blank_at_the_end_of_a_file_is_sent_to_slaves(tmp_path: Path) -> None:
    filled(tmp_path / "store", 120)
    done_on_full_tmpfs(send_all, tmp_path / "store")


def pull_all(root: Path) -> None:
    store = open_store(root, **FILES)
    print(len(bodies_of(store)), store.damage.found)
    assert store.entries.offset_by_time("T", 0, NOW) >= 0
    crash(store)


def test_pulls_from_a_file_that_was_replaced_by_zeros(tmp_path: Path) -> None:
    filled(tmp_path / "store", 120)
    punch(tmp_path / "store" / "commitlog" / ("0" * 20), 0, 256)
    whole, lost = map(int, done_on_full_tmpfs(pull_all, tmp_path / "store").split())
    assert whole > 50
    assert lost > 40
    assert whole + lost == 120


@pytest.mark.parametrize(
    "count", [3, 120], ids=["in the file that is written to", "and in full ones"]
)
def test_pulls_of_bodies_that_are_holes(tmp_path: Path, count: int) -> None:
    filled(tmp_path / "store", count, bytes(20_500))
    assert done_on_full_tmpfs(pull_all, tmp_path / "store").split() == [f"{count}", "0"]


def put_with_every_page(root: Path) -> None:
    """There is a page more each time."""
    store = open_store(root, **FILES | {"message_index_enable": False})
    filler = root.parent / "filler"
    for number in range(1, 1000):
        os.truncate(filler, filler.stat().st_size - PAGE)
        if (
            put(store, body=b"x" * PAGE * 60, store_timestamp=NOW + number * 1000).status
            is PutStatus.PUT_OK
        ):
            break
    print(number, len(bodies_of(store)), store.max_phy_offset // LOG_FILE)
    crash(store)


def test_the_blank_behind_the_last_record_has_space_before_it_is_written(tmp_path: Path) -> None:
    """The log ends with a whole page, and the next record does not fit into its file."""
    store = open_store(tmp_path / "store", **FILES | {"message_index_enable": False})
    head = put_ok(store).size - 4
    put_ok(store, body=b"x" * (PAGE * 200 - store.max_phy_offset - head))
    store.close()
    pages, messages, files = map(
        int, done_on_full_tmpfs(put_with_every_page, tmp_path / "store").split()
    )
    assert pages > 256
    assert (messages, files) == (3, 1)


# -- consume queues


def read_queue(root: Path) -> None:
    queue_survey._WHOLE_BYTES = 0  # type: ignore[misc]  # as if there were too many to look at
    store = open_store(root, **SHORT_QUEUES)
    for _ in range(40):  # from the 16th on it is mapped
        assert len(store.entries.some("T", 0, 0, 1000) or ()) == 1000
    print(store.get("T", 0, 500).next_begin_offset)
    crash(store)


def test_reads_of_a_queue_with_a_hole(tmp_path: Path) -> None:
    filled(tmp_path / "store", 1300, b"x", **SHORT_QUEUES)
    punch(tmp_path / "store" / "consumequeue" / "T" / "0" / ("0" * 20), 1, 3)
    assert done_on_full_tmpfs(read_queue, tmp_path / "store").split() == [str(4 * PAGE // 20 + 32)]


def read_ext(root: Path) -> None:
    store = open_store(root, **FILES | EXT)
    seen: list[ExtUnit] = []
    with contextlib.suppress(StopIteration):
        for number in range(1300):
            unit = store.entries.ext_unit("T", 0, number)
            seen += [] if unit is None else [unit]
    print(len(seen))
    crash(store)


def test_reads_of_an_extension_with_a_hole(tmp_path: Path) -> None:
    filled(tmp_path / "store", 1300, b"x", **EXT)
    punch(tmp_path / "store" / "consumequeue_ext" / "T" / "0" / ("0" * 20), 1, 3)
    assert 600 < int(done_on_full_tmpfs(read_ext, tmp_path / "store")) < 1300 - 600
