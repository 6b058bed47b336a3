"""What opening a store refuses, what it mends by itself, and that it deletes nothing."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.recovery.recovery import Recovery
from aiorocketmq.store.services.flush import FlushService
from tests.stored import StoreDirectory

from ...fault.disks import LossyDisk
from ..world import NOW, bodies_of, crash, folder_contents, messages_of, open_store, put_ok

LOG_FILE = 8192
_NOBODY = 65534


def filled(
    root: Path, *, sync_at: int = 0, count: int = 60, clean: bool = False, disk: Disk | None = None
) -> list[bytes]:
    """Several files of commit log and queue; synced after ``sync_at`` messages, then killed or
    closed."""
    store = open_store(root, disk)
    bodies = [b"%d-" % number + bytes(400) for number in range(count)]
    for number, body in enumerate(bodies):
        put_ok(store, body=body, store_timestamp=NOW + number)
        if number + 1 == sync_at:
            asyncio.run(store.sync())
    store.close() if clean else crash(store)
    return bodies


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def refused(root: Path, match: str, **changes: Any) -> None:
    """Opening fails, and every file is what it was."""
    before = folder_contents(root)
    with pytest.raises(StoreFileError, match=match):
        open_store(root, **changes)
    after = folder_contents(root)
    after.pop("lock", None)
    before.pop("lock", None)
    assert after == before


# -- queues


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
@pytest.mark.parametrize("lost", [0, 1, 2, 5], ids=["first", "second", "third", "last"])
def test_a_queue_that_lost_a_file_is_made_again(
    tmp_path: Path, lost: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = filled(tmp_path, clean=clean)
    files = sorted((tmp_path / "consumequeue/T/0").iterdir())
    before = [path.read_bytes() for path in files]
    assert len(files) == 6
    files[lost].unlink()
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    assert [message.queue_offset for message in messages_of(store)] == list(range(60))
    store.close()
    assert [path.read_bytes() for path in files] == before
    if lost in (1, 2):
        assert f"{files[lost]}: is missing between" in caplog.text


@pytest.mark.parametrize("synced", [20, 60])
def test_a_queue_that_lost_a_file_that_the_checkpoint_vouches_for(
    tmp_path: Path, synced: int
) -> None:
    bodies = filled(tmp_path, sync_at=synced)
    sorted((tmp_path / "consumequeue/T/0").iterdir())[1].unlink()
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


def test_making_a_queue_again_may_be_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint must not vouch any more for what was dropped."""
    bodies = filled(tmp_path, sync_at=60)
    sorted((tmp_path / "consumequeue/T/0").iterdir())[1].unlink()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "_replay", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_store(tmp_path)
    assert len(list((tmp_path / "consumequeue/T/0").iterdir())) == 1
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


def test_the_folder_of_a_queue_is_lost(tmp_path: Path) -> None:
    """Somebody deleted it, to have it made again; the checkpoint vouches for it."""
    for folder in ("consumequeue", "consumequeue/T"):
        root = tmp_path / folder.replace("/", "-")
        store = open_store(root)
        for number in range(30):
            put_ok(store, "TU"[number % 2], body=b"%d" % number, store_timestamp=NOW + number)
        asyncio.run(store.sync())
        put_ok(store, body=b"30", store_timestamp=NOW + 30)
        crash(store)
        shutil.rmtree(root / folder)
        store = open_store(root)
        assert bodies_of(store) == [b"%d" % number for number in range(0, 31, 2)]
        assert bodies_of(store, "U") == [b"%d" % number for number in range(1, 31, 2)]
        store.close()


# -- the commit log


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_a_commit_log_with_a_hole_is_refused(tmp_path: Path, clean: bool) -> None:
    bodies = filled(tmp_path, sync_at=60, clean=clean)
    hole = log_files(tmp_path)[1]
    hole.rename(tmp_path / "moved")
    refused(
        tmp_path,
        rf"{hole.name}: is missing between .*put them back; if they are lost, `mqstore mend`",
    )
    hole.write_bytes(b"")
    refused(tmp_path, "is empty between")
    (tmp_path / "moved").rename(hole)
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


def test_an_empty_first_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, clean=False)
    first, second, *_ = log_files(tmp_path)
    first.write_bytes(b"")
    store = open_store(tmp_path)
    assert f"{first}: is empty, what was in it is lost" in caplog.text
    assert messages_of(store)[0].commit_log_offset == int(second.name)
    store.close()


@pytest.mark.parametrize("made", [False, True], ids=["name lost", "length lost"])
def test_a_hole_that_a_power_failure_made_is_passed_over(
    tmp_path: Path, made: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing behind it was ever acknowledged as synced; what is there all the same is kept."""
    bodies = filled(tmp_path, sync_at=10)
    files = log_files(tmp_path)
    lost = {
        m.queue_offset
        for m in StoreDirectory(tmp_path).records()
        if int(files[2].name) <= m.commit_log_offset < int(files[3].name)
    }
    assert len(lost) > 10
    files[2].unlink()
    if made:
        files[2].write_bytes(b"")
    store = open_store(tmp_path)
    assert [m.queue_offset for m in messages_of(store)] == [n for n in range(60) if n not in lost]
    assert bodies_of(store) == [body for number, body in enumerate(bodies) if number not in lost]
    assert put_ok(store).queue_offset == 60
    store.close()
    assert "nothing in it had been acknowledged as synced" in caplog.text
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.records == 0
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_a_commit_log_that_ends_too_early_is_refused(tmp_path: Path, clean: bool) -> None:
    bodies = filled(tmp_path, sync_at=60, clean=clean)
    last = log_files(tmp_path)[-1]
    last.rename(tmp_path / "moved")
    refused(
        tmp_path,
        "ends at .*but the checkpoint knew it up to .*is the disk mounted at .*mqstore mend",
    )
    (tmp_path / "moved").rename(last)
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


def test_a_missing_commit_log_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, clean=True)
    (tmp_path / "commitlog").rename(tmp_path / "moved")
    (tmp_path / "commitlog").mkdir()
    refused(tmp_path, "there is no commit log, but the checkpoint knew it")
    # The checkpoint of the original has no position: then the queues tell.
    path = tmp_path / "checkpoint"
    path.write_bytes(path.read_bytes()[:40] + bytes(4056))
    refused(tmp_path, "there is no commit log, but queueends knew it")
    (tmp_path / "queueends").unlink()
    refused(tmp_path, "there is no commit log, but its consume queues knew it")


def test_a_damaged_queue_claims_nothing_when_the_checkpoint_is_lost(tmp_path: Path) -> None:
    bodies = filled(tmp_path, clean=True)
    (tmp_path / "checkpoint").unlink()
    queue = max((tmp_path / "consumequeue").glob("*/*/*"))
    content = queue.read_bytes().rstrip(b"\0")
    queue.write_bytes((content[:-20] + b"\0\1" * 10).ljust(queue.stat().st_size, b"\0"))
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


@pytest.mark.parametrize("lost", ["first", "last", "all"])
def test_names_that_were_never_synced_may_be_lost(tmp_path: Path, lost: str) -> None:
    """A power failure before anything was synced: nothing had been acknowledged."""
    bodies = filled(tmp_path)
    files = log_files(tmp_path)
    for path in {"first": files[:1], "last": files[-1:], "all": files}[lost]:
        path.unlink()
    store = open_store(tmp_path)
    found = bodies_of(store)
    assert found == {"first": bodies[-len(found) :], "last": bodies[: len(found)], "all": []}[lost]
    assert (len(found) > 20) is (lost != "all")
    put_ok(store, body=b"after")
    assert bodies_of(store) == [*found, b"after"]
    store.close()
    open_store(tmp_path).close()


def test_only_the_length_of_new_files_is_lost(tmp_path: Path) -> None:
    """Several at the end are empty: they go; the rest is as it was."""
    bodies = filled(tmp_path, sync_at=10)
    for path in log_files(tmp_path)[-2:]:
        path.write_bytes(b"")
    for path in sorted((tmp_path / "consumequeue/T/0").iterdir())[2:5]:
        path.write_bytes(b"")
    store = open_store(tmp_path)
    found = bodies_of(store)
    assert 10 <= len(found) < 60
    assert found == bodies[: len(found)]
    store.close()


def test_an_empty_file_with_another_name_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, clean=True)
    (tmp_path / "commitlog/zzz").write_bytes(b"")
    refused(tmp_path, "zzz: is not a file of the store")


@pytest.mark.parametrize("seed", range(12))
def test_power_failures_never_keep_a_store_closed(tmp_path: Path, seed: int) -> None:
    """Whatever names are lost, it opens, and has what was synced."""
    disk, chance = LossyDisk(), random.Random(seed)
    synced = chance.randrange(1, 50)
    bodies = filled(tmp_path, sync_at=synced, disk=disk)
    disk.fail(tmp_path, chance)
    store = open_store(tmp_path, disk)
    found = {message.queue_offset: message.body for message in messages_of(store)}
    assert found.items() <= dict(enumerate(bodies)).items()
    assert found.keys() >= set(range(synced))
    crash(store)


def test_names_are_on_the_disk_before_the_file_is_used(tmp_path: Path) -> None:
    """The folders that lead to it too, wherever they lie."""
    disk = LossyDisk()
    root, log = tmp_path / "a/b/store", tmp_path / "c/d/log"
    store = open_store(root, disk, store_path_commit_log=str(log))
    put_ok(store)
    asyncio.run(store.sync())
    for path in (
        root,
        log,
        *log.iterdir(),
        root / "consumequeue/T/0",
        root / "checkpoint",
        root / "abort",
    ):
        while path != tmp_path:
            assert path.name in disk.named[path.parent.resolve()], path
            path = path.parent
    crash(store)


# -- files that are not as they should be


def test_a_file_of_the_wrong_length(tmp_path: Path) -> None:
    bodies = filled(tmp_path, clean=True)
    path = sorted((tmp_path / "commitlog").iterdir())[1]
    content = path.read_bytes()
    for length in (len(content) - 1, len(content) + 1, 1):
        path.write_bytes(content[:length].ljust(length, b"\0"))
        refused(tmp_path, rf"{path.name}: is {length} bytes long but the configured file size is")
    path.write_bytes(content)
    refused(tmp_path, "configured file size is 4096", mapped_file_size_commit_log=4096)
    refused(tmp_path, "configured file size is 400", mapped_file_size_consume_queue=400)
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()


@pytest.mark.parametrize("length", [1, 199, 201])
@pytest.mark.parametrize("number", [0, 2, 5])
@pytest.mark.parametrize("known", [True, False], ids=["with queueends", "without"])
def test_a_queue_file_of_the_wrong_length_is_damage_when_others_have_the_right_one(
    tmp_path: Path, number: int, length: int, known: bool
) -> None:
    bodies = filled(tmp_path, clean=True)
    path = sorted((tmp_path / "consumequeue/T/0").iterdir())[number]
    content = path.read_bytes()
    path.write_bytes(content[:length].ljust(length, b"\0"))
    if not known:
        (tmp_path / "queueends").unlink()
        if number == 0:  # no file in front of it: perhaps another length was configured
            refused(tmp_path, f"is {length} bytes long but the configured file size is")
            return
    store = open_store(tmp_path)
    assert bodies_of(store) == bodies
    store.close()
    assert path.read_bytes() == content


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder of a user who is not root, whoever runs the tests."""
    root = Path(tempfile.mkdtemp(prefix="store-"))
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(root, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
    try:
        yield root
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(root)


@pytest.mark.parametrize(
    "name",
    ["commitlog", "commitlog/" + "0" * 20, "consumequeue/T/0", "consumequeue", "checkpoint", "."],
)
def test_permission_denied(ordinary_user: Path, name: str) -> None:
    bodies = filled(ordinary_user, clean=True)
    path = ordinary_user / name
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with pytest.raises(StoreFileError, match="Permission denied"):
            open_store(ordinary_user)
    finally:
        path.chmod(mode)
    store = open_store(ordinary_user)
    assert bodies_of(store) == bodies
    store.close()


def test_a_checkpoint_that_claims_nothing_is_written_before_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, sync_at=60)
    sorted((tmp_path / "consumequeue/T/0").iterdir())[2].unlink()
    monkeypatch.setattr(FlushService, "save", lambda _: None)
    store = open_store(tmp_path)
    checkpoint = Checkpoint(tmp_path / "checkpoint", PosixDisk())
    checkpoint.load()
    assert checkpoint.safe_phy_offset is None
    crash(store)
