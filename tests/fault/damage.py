"""Stores that were killed, damage to their files, and whether what is left is consistent."""

from __future__ import annotations

from pathlib import Path

from aiorocketmq.store.queues.consume_queue import FILLER_SIZE
from tests.stored import StoreDirectory

from ..store.world import NOW, crash, open_store, put_ok

LOG_FILE = 8192
QUEUE_FILE = 200


def filled(root: Path, count: int = 60, *, topics: str = "TU") -> dict[str, list[bytes]]:
    """A store that is killed after some puts to three queues; several files of both kinds."""
    store = open_store(root)
    sent: dict[str, list[bytes]] = {topic: [] for topic in topics}
    for number in range(count):
        topic = topics[number % len(topics)]
        body = b"%d-" % number + bytes(number * 7 % 300)
        put_ok(
            store,
            topic,
            body=body,
            store_timestamp=NOW + number,
            properties={"TAGS": f"tag{number % 5}"},
        )
        sent[topic].append(body)
    crash(store)
    return sent


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def log_file_of(root: Path, phy_offset: int) -> tuple[Path, int]:
    position = phy_offset % LOG_FILE
    return root / "commitlog" / f"{phy_offset - position:020d}", position


def flip(root: Path, phy_offset: int, bit: int = 4) -> None:
    """A bit of the log."""
    path, position = log_file_of(root, phy_offset)
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def units_of(root: Path) -> dict[tuple[str, int], list[tuple[int, int, int, int]]]:
    units: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
    for file in StoreDirectory(root).queue_files():
        units.setdefault((file.topic, file.queue_id), []).extend(file.units)
    return units


def assert_consistent(root: Path) -> None:
    """Every unit points to a record that says the same, numbers are dense, every record has its
    unit."""
    directory = StoreDirectory(root)
    records = {record.commit_log_offset: record for record in directory.records()}
    units = units_of(root)
    pointed = set()
    for (topic, queue_id), numbered in units.items():
        assert [number for number, *_ in numbered] == list(
            range(numbered[0][0], numbered[0][0] + len(numbered))
        )
        for number, phy_offset, size, _code in numbered:
            if size != FILLER_SIZE:
                record = records[phy_offset]
                assert (record.topic, record.queue_id, record.queue_offset, record.store_size) == (
                    topic,
                    queue_id,
                    number,
                    size,
                )
                pointed.add(phy_offset)
    assert pointed == records.keys()
