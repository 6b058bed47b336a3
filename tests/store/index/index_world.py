"""Messages with keys in a store, and what its index has of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.index.index_file import IndexFile
from aiorocketmq.store.message_store import MessageStore
from tests.stored import decode_messages

from ..world import put_ok

ITEMS = 39
"""So many fit into a file."""


def send(store: MessageStore, number: int, keys: str = "", topic: str = "T", **fields: Any) -> int:
    properties = {"UNIQ_KEY": f"u{number}"} | ({"KEYS": keys} if keys else {})
    return put_ok(store, topic, body=b"%d" % number, properties=properties, **fields).phy_offset


def bodies(
    store: MessageStore,
    key: str,
    topic: str = "T",
    count: int = 64,
    begin: int = 0,
    end: int = 1 << 62,
) -> list[str]:
    found = at_once(store.query.steps(topic, key, count, begin, end))
    return [message.body.decode() for message in decode_messages(found.records)]


def not_found(store: MessageStore, count: int) -> list[int]:
    """Of so many that ``send`` has put: those that are not found once, by their unique key."""
    return [number for number in range(count) if bodies(store, f"u{number}") != [str(number)]]


def build(store: MessageStore) -> None:
    store._indexing.build_all()


def files_of(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir()) if (root / "index").is_dir() else []


def items_of(root: Path) -> list[tuple[int, int]]:
    """Hash and physical offset of every item of every file."""
    return items_in(root, 40)


def items_in(root: Path, most: int) -> list[tuple[int, int]]:
    """The same of files of so many."""
    return [
        item[:2]
        for path in files_of(root)
        for item in IndexFile(path.read_bytes(), 10, most).items()
    ]
