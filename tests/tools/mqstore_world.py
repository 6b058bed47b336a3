"""``mqstore`` in this process, and store directories to try it on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..golden_files import unpack_golden
from ..store.world import NOW, folder_contents, open_store, put_ok

SLOTS, ITEMS = 20, 80


class Printed(NamedTuple):
    """What one run left behind."""

    code: int
    out: str
    err: str

    @property
    def findings(self) -> list[str]:
        """The lines of ``verify`` without notes and the verdict."""
        return [line for line in self.out.splitlines()[:-2] if not line.startswith("note: ")]

    @property
    def notes(self) -> list[str]:
        return [
            line.removeprefix("note: ")
            for line in self.out.splitlines()
            if line.startswith("note: ")
        ]

    @property
    def verdict(self) -> str:
        return self.out.splitlines()[-2]


MqStore = Callable[..., Printed]


def golden_store(name: str, tmp_path: Path) -> Path:
    """A directory written by the original."""
    unpack_golden(f"store-{name}", tmp_path)
    return tmp_path / name.rpartition("-")[2]


def small_store(root: Path, count: int = 40) -> Path:
    """A store of ours, closed in order: messages for T/0, T/1 and U/0 in turn, in several files of
    each kind."""
    store = open_store(root, max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    for number in range(count):
        topic, queue_id = [("T", 0), ("T", 1), ("U", 0)][number % 3]
        properties = {
            "KEYS": f"key{number}",
            "UNIQ_KEY": f"id{number:04d}",
            "TAGS": f"tag{number % 4}",
        }
        body = b"message %d " % number + b"x" * 300
        put_ok(store, topic, queue_id, body, properties=properties, store_timestamp=NOW + number)
    store.close()
    return root


def offset_of(root: Path, number: int) -> int:
    """Where message ``number`` of ``small_store`` begins in the commit log."""
    log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
    match = re.search(rb"message %d x" % number, log)
    assert match is not None
    return match.start() - 88


def overwrite(path: Path, byte: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        file.write(data)


def flip(path: Path, byte: int, bit: int = 0) -> None:
    old = path.read_bytes()[byte]
    overwrite(path, byte, bytes((old ^ 1 << bit,)))


def verified(mqstore: MqStore, root: Path) -> Printed:
    """One ``verify``; it must not have changed anything."""
    before = folder_contents(root)
    printed = mqstore("verify", root)
    assert folder_contents(root) == before
    assert printed.err == ""
    return printed
