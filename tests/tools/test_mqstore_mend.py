"""``mqstore mend``, a commit log on several paths, and extensions of consume queues."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.errors import OutOfSpaceError, StoreFileError

from ..sim import ManualClock
from ..store.world import (
    NOW,
    STORE_HOST,
    bodies_of,
    config_of,
    crash,
    folder_contents,
    messages_of,
    open_store,
    put_ok,
)
from .mqstore_world import MqStore, small_store

LOG_FILE = 8192


def filled(root: Path, *, clean: bool = True, **changes: Any) -> list[bytes]:
    store = open_store(root, **changes)
    bodies = [b"%d-" % number + bytes(400) for number in range(60)]
    for number, body in enumerate(bodies):
        put_ok(store, body=body, store_timestamp=NOW + number)
    asyncio.run(store.sync())
    store.close() if clean else crash(store)
    return bodies


def opens_only_after_mending(mqstore: MqStore, root: Path, *options: str) -> str:
    with pytest.raises(StoreFileError, match="mqstore mend"):
        open_store(root)
    before = folder_contents(root)
    printed = mqstore("mend", root, *options)
    assert (printed.code, printed.err) == (0, "")
    after = folder_contents(root)
    assert before.keys() <= after.keys()  # nothing is deleted
    again = mqstore("mend", root, *options)
    assert again.out in (
        "no file of the commit log is missing\n",
        printed.out.splitlines()[-1] + "\n",
    )
    return printed.out


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "missing"])
def test_a_hole_is_closed(mqstore: MqStore, tmp_path: Path, clean: bool, empty: bool) -> None:
    bodies = filled(tmp_path, clean=clean)
    files = sorted((tmp_path / "commitlog").iterdir())
    files[1].unlink()
    if empty:
        files[1].write_bytes(b"")
    assert f"{files[1]}: made, empty" in opens_only_after_mending(mqstore, tmp_path)
    store = open_store(tmp_path)
    found = messages_of(store)
    assert 40 < len(found) < 60
    assert all(message.body == bodies[message.queue_offset] for message in found)
    assert found[-1].queue_offset == 59
    assert put_ok(store).queue_offset == 60
    store.close()


def test_a_mend_that_is_interrupted_is_gone_on_with(
    mqstore: MqStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run finds no hole any more."""
    filled(tmp_path)
    files = sorted((tmp_path / "commitlog").iterdir())
    files[1].unlink()
    make, made = MappedFile.create, []

    def create(*arguments: Any) -> MappedFile:
        made.append(make(*arguments))
        raise OutOfSpaceError(made[0].path, "no space left")

    with monkeypatch.context() as interrupted:
        interrupted.setattr(MappedFile, "create", create)
        assert mqstore("mend", tmp_path).code == 2
    assert files[1].exists()
    assert mqstore("mend", tmp_path).out == "no file of the commit log is missing\n"
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert not store.recovery.clean
    assert list(store.damage.places) == [LOG_FILE]
    assert 40 < len(bodies_of(store)) < 60
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_a_whole_log_that_is_gone(mqstore: MqStore, tmp_path: Path, clean: bool) -> None:
    filled(tmp_path, clean=clean)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    printed = opens_only_after_mending(mqstore, tmp_path, "--file-size", str(LOG_FILE))
    assert "the commit log goes on at 32768" in printed
    for _ in range(2):
        store = open_store(tmp_path)
        assert (store.min_phy_offset, store.min_offset("T", 0)) == (32768, 60)
        store.close()
    store = open_store(tmp_path)
    assert put_ok(store, body=b"next").queue_offset == 60
    assert bodies_of(store) == [b"next"]
    store.close()
    assert mqstore("verify", tmp_path).code == 0


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_an_end_that_is_gone(mqstore: MqStore, tmp_path: Path, clean: bool) -> None:
    bodies = filled(tmp_path, clean=clean)
    sorted((tmp_path / "commitlog").iterdir())[-1].unlink()
    assert "does not claim the log up to" in opens_only_after_mending(mqstore, tmp_path)
    store = open_store(tmp_path)
    found = bodies_of(store)
    assert 30 < len(found) < 60
    assert found == bodies[: len(found)]
    assert put_ok(store).queue_offset == len(found)
    store.close()
    assert mqstore("verify", tmp_path).code == 0


def test_what_does_not_belong_there_is_for_a_person(mqstore: MqStore, tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "commitlog/notes.txt").write_text("x")
    printed = mqstore("mend", tmp_path)
    assert printed.code == 2
    assert "notes.txt: is not a file of the store" in printed.err
    (tmp_path / "commitlog/notes.txt").unlink()
    assert mqstore("mend", tmp_path).out == "no file of the commit log is missing\n"
    store = open_store(tmp_path)
    assert mqstore("mend", tmp_path).code == 2
    store.close()


# -- several paths


def test_several_paths(mqstore: MqStore, tmp_path: Path) -> None:
    root, paths = tmp_path / "store", f"{tmp_path / 'b'},{tmp_path / 'a'}"
    bodies = filled(root, store_path_commit_log=paths)
    option = ("--commit-log", paths)
    assert mqstore("verify", root, *option).code == 0
    assert "commit log: 0.." in mqstore("info", root, *option).out
    assert len(mqstore("cat", root, *option).out.splitlines()) == 60
    assert mqstore("verify", root).code == 2
    assert mqstore("info", root, "--commit-log", str(tmp_path / "none")).code == 2
    before = folder_contents(root / "consumequeue")
    assert mqstore("rebuild", root, *option, "--to", tmp_path / "copy").code == 0
    store = open_store(tmp_path / "copy")
    assert bodies_of(store) == bodies
    store.close()
    assert mqstore("rebuild", root, *option).code == 0
    assert folder_contents(root / "consumequeue") == before
    file = sorted((tmp_path / "b").iterdir())[0]
    (tmp_path / "a" / file.name).write_bytes(file.read_bytes())
    assert (
        f"is there twice, also as {tmp_path / 'a' / file.name}"
        in mqstore("verify", root, *option).out
    )
    (tmp_path / "a" / file.name).unlink()
    file.unlink()
    assert mqstore("verify", root, *option).code == 1
    assert f"{file}: made, empty" in mqstore("mend", root, *option).out
    store = open_store(root, store_path_commit_log=paths)
    assert 40 < len(messages_of(store)) < 60
    store.close()


@pytest.mark.parametrize("command", [("rebuild",), ("mend",), ("repair", "--from=localhost:1")])
def test_a_commit_log_that_another_store_has_open(
    mqstore: MqStore, tmp_path: Path, command: tuple[str, ...]
) -> None:
    root, log = small_store(tmp_path / "store"), tmp_path / "log"
    before = folder_contents(root)
    other = open_store(tmp_path / "other", store_path_commit_log=str(log))
    put_ok(other)
    printed = mqstore(command[0], root, *command[1:], "--commit-log", log)
    assert printed.code == 2
    assert f"{log} is the commit log of another process" in printed.err
    assert folder_contents(root) == before
    other.close()
    assert mqstore(command[0], root, *command[1:], "--commit-log", log).code == 0


# -- extensions


def test_extensions_are_verified(mqstore: MqStore, tmp_path: Path) -> None:
    from aiorocketmq.store.message_store import MessageStore

    config = config_of(
        tmp_path, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=400
    )
    store = MessageStore.open(
        config, ManualClock(), store_host=STORE_HOST, disk=PosixDisk(),
        bitmap_of=lambda *_: bytes(14),
    )  # fmt: skip
    for number in range(30):
        put_ok(store, properties={"TAGS": f"t{number}"}, store_timestamp=NOW + number)
    store.close()
    printed = mqstore("verify", tmp_path)
    assert (printed.code, printed.findings) == (0, [])
    path = tmp_path / "consumequeue_ext/T/0" / ("0" * 20)
    good = path.read_bytes()
    for at, problem in (
        (
            34,
            f"consumequeue/T/0/{0:020d}: byte 32: entry 1 leads to 34 in consumequeue_ext, where "
            "there is no unit",
        ),
        (40, "which has the tags code"),
        (50, "which has the store time"),
    ):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        printed = mqstore("verify", tmp_path)
        assert printed.code == 1
        assert len(printed.findings) == 1
        assert problem in printed.findings[0]
    path.write_bytes(good)
    assert mqstore("rebuild", tmp_path).code == 0
    assert not (tmp_path / "consumequeue_ext").exists()
    printed = mqstore("verify", tmp_path)
    assert (printed.code, printed.findings) == (0, [])


def test_a_store_without_anything_missing_stays_as_it_is(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path)
    before = folder_contents(root)
    assert mqstore("mend", root).out == "no file of the commit log is missing\n"
    assert folder_contents(root) == before
