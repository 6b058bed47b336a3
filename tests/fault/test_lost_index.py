"""The index has lost files: neither the log nor the queues tell, but ``queueends`` does, a start
and ``mqstore verify``."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.tools.mqstore.rebuild import RebuildSettings, rebuild
from aiorocketmq.tools.mqstore.verify import verify

from ..store.world import NOW, crash, open_store, put_ok
from .damage import overwrite

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "max_index_num": 20}
LINE = "has lost files"


def put_some(store: MessageStore, first: int, stop: int) -> None:
    for number in range(first, stop):
        put_ok(
            store,
            body=b"%d" % number,
            store_timestamp=NOW + number,
            properties={"KEYS": f"k{number}"},
        )


def filled(root: Path, stop: str) -> None:
    """Four index files, the last one not full."""
    store = open_store(root, **SMALL)
    put_some(store, 0, 65)
    store._indexing.build_all()
    if stop == "clean stop":
        store.close()
        return
    asyncio.run(store.sync())
    put_some(store, 65, 70)
    store._indexing.build_all()
    crash(store)


def lose(root: Path, *numbers: int) -> None:
    for path in [sorted((root / "index").iterdir())[number] for number in numbers]:
        path.unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "the folder": lambda root: shutil.rmtree(root / "index"),
    "all files": lambda root: lose(root, 0, 1, 2, 3),
    "the first file": lambda root: lose(root, 0),
    "one in the middle": lambda root: lose(root, 1),
    "the last file": lambda root: lose(root, 3),
    "two": lambda root: lose(root, 0, 2),
    "the content of a file": lambda root: sorted((root / "index").iterdir())[2].write_bytes(b""),
    "the head of a file": lambda root: overwrite(
        sorted((root / "index").iterdir())[2], 0, bytes(40)
    ),
}


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_start_says_that_the_index_has_lost_something(
    tmp_path: Path, loss: str, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, stop)
    LOSSES[loss](tmp_path)
    told: list[str] = []
    assert verify(tmp_path, told.append, slots=10).findings, told
    store = open_store(tmp_path, **SMALL)
    assert sum(LINE in line for line in caplog.messages) == 1
    assert "mqstore rebuild" in caplog.text
    put_some(store, 70, 80)
    store._indexing.build_all()
    assert at_once(store.query.steps("T", "k75", 1, 0, 1 << 60)).records
    store.close()
    caplog.clear()
    open_store(tmp_path, **SMALL).close()
    assert LINE not in caplog.text, "once"
    rebuild(tmp_path, RebuildSettings(slots=10, items=20, queue_file_size=200))
    assert verify(tmp_path, told.append, slots=10).findings == 0, told
    store = open_store(tmp_path, **SMALL)
    assert at_once(store.query.steps("T", "k2", 1, 0, 1 << 60)).records
    store.close()
    assert LINE not in caplog.text


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
def test_nothing_is_said_of_an_index_that_is_whole(
    tmp_path: Path, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, stop)
    rebuild(tmp_path, RebuildSettings(slots=10, items=20, queue_file_size=200))
    for _ in range(2):
        store = open_store(tmp_path, **SMALL)
        store.close()
    assert LINE not in caplog.text


def test_files_that_expired_are_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They went after the checkpoint, before a kill."""
    expiring: dict[str, Any] = {
        "file_reserved_time": -100_000_000,
        "delete_commit_log_files_interval": 0,
        "delete_consume_queue_files_interval": 0,
    }
    store = open_store(tmp_path, **SMALL, **expiring)
    put_some(store, 0, 65)
    store._indexing.build_all()
    asyncio.run(store.sync())
    files = len(store._index.paths)
    store.cleaning.clean_at_any_hour()
    asyncio.run(store.cleaning.clean())
    assert 1 <= len(store._index.paths) < files
    crash(store)
    open_store(tmp_path, **SMALL).close()
    assert LINE not in caplog.text


def test_an_index_that_is_switched_off_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, "clean stop")
    shutil.rmtree(tmp_path / "index")
    for _ in range(2):
        open_store(tmp_path, **SMALL, message_index_enable=False).close()
    assert LINE not in caplog.text


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
def test_nothing_is_said_of_a_store_that_the_original_has_written(
    tmp_path: Path, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no ``queueends``: there may never have been an index."""
    filled(tmp_path, stop)
    (tmp_path / "queueends").unlink()
    shutil.rmtree(tmp_path / "index")
    for _ in range(2):
        open_store(tmp_path, **SMALL).close()
    assert LINE not in caplog.text
