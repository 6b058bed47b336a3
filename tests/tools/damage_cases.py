"""Damage of every kind to ``small_store``, and what ``verify`` says of it. One table, so one
file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from .mqstore_world import flip, overwrite

LOG0, LOG1, LOG2 = (f"commitlog/{start:020d}" for start in (0, 8192, 16384))
T0, T0_NEXT, T1, T1_NEXT, U0, U0_NEXT = (
    f"consumequeue/{queue}/{start:020d}" for queue in ("T/0", "T/1", "U/0") for start in (0, 200)
)
INDEX = "index/20231114221320000"
NEXT_INDEX = "index/20231114221320001"
ITEM5 = 40 + 20 * 4 + 5 * 20
"""Of message 2 in ``small_store``, its unique key."""
RECORD = 2185
"""Message 5 in ``small_store``: U/0, number 1."""
LOST = "437 bytes are lost, the log goes on at 2622"
INTO_LOG2 = (
    f"{T0_NEXT}: byte 40: each of the entries 12..13 points behind the end 16094 of the commit log",
    f"{T1_NEXT}: byte 40: entry 12 points behind the end 16094 of the commit log",
    f"{U0_NEXT}: byte 40: entry 12 points behind the end 16094 of the commit log",
    f"{INDEX}: byte 1580: item 73 points to 16384, behind the end 16094 of the commit log "
    "(8 items do)",
)
"""What is found where the last log file is gone."""


class Case(NamedTuple):
    name: str
    damage: Callable[[Path], object]
    findings: Iterable[str]
    notes: Iterable[str] = ()


def pointing(*counts: int, queues: tuple[str, ...] = ("T/0", "T/1", "U/0")) -> list[str]:
    text = "entries that point into damaged parts of the commit log"
    return [
        f"consumequeue/{queue}: {text}: {count}"
        for queue, count in zip(queues, counts, strict=True)
        if count
    ]


def in_record(byte: int, problem: str, lost: str = LOST) -> list[str]:
    return [f"{LOG0}: byte {RECORD + byte}: record at {RECORD}: {problem}; {lost}"]


def at_its_entry(record: str) -> list[str]:
    return [f"{U0}: byte 20: entry 1 points to {RECORD}, where {record}"]


def foreign(path: str) -> list[str]:
    return [
        f"{path}: byte 0: is not a file of the store (a name of 20 digits): a broker will not start"
    ]


CASES = [
    Case(
        "a bit of a body",
        lambda root: flip(root / LOG0, RECORD + 100),
        [
            f"{LOG0}: byte 2273: record at 2185: the body has the CRC 0x757e0151, the record says "
            "0x276376ab"
        ],
    ),
    Case(
        "a bit of a CRC",
        lambda root: flip(root / LOG0, RECORD + 8),
        [
            f"{LOG0}: byte 2273: record at 2185: the body has the CRC 0x276376ab, the record says "
            "0x266376ab"
        ],
    ),
    Case(
        "a bit of a magic",
        lambda root: flip(root / LOG0, RECORD + 4),
        in_record(4, "the magic is 0xdba320a7, a record has 0xdaa320a7"),
        pointing(0, 0, 1),
    ),
    Case(
        "a low bit of a size",
        lambda root: flip(root / LOG0, RECORD + 3),
        in_record(
            400, "body, topic and properties make 437 bytes, the record says it is 436 bytes long"
        ),
        pointing(0, 0, 1),
    ),
    Case(
        "a high bit of a size",
        lambda root: flip(root / LOG0, RECORD),
        in_record(0, "the record says it is 16777653 bytes long, 6007 are left in the file"),
        pointing(0, 0, 1),
    ),
    Case(
        "a bit of a physical offset",
        lambda root: flip(root / LOG0, RECORD + 30),
        in_record(28, "the record says it is at 1099511629961, it is at 2185"),
        pointing(0, 0, 1),
    ),
    Case(
        "the bit for IPv6",
        lambda root: flip(root / LOG0, RECORD + 39, 4),
        in_record(96, "the body is said to be 891320440 bytes long, in a record of 437"),
        pointing(0, 0, 1),
    ),
    Case(
        "a queue id",
        lambda root: flip(root / LOG0, RECORD + 15),
        at_its_entry("the record says it is message 1 of U/1"),
    ),
    Case(
        "a number in a queue",
        lambda root: flip(root / LOG0, RECORD + 27),
        at_its_entry("the record says it is message 0 of U/0"),
    ),
    Case(
        "the bit of a half message",
        lambda root: flip(root / LOG0, RECORD + 39, 2),
        at_its_entry("a half message (message 1 of U/0) lies"),
    ),
    Case(
        "a topic",
        lambda root: flip(root / LOG0, RECORD + 399),
        [
            *at_its_entry("the record says it is message 1 of T/0"),
            f"{INDEX}: byte 340: item 11 has the hash 1912771470, which is that of no key of the "
            "record at 2185",
            f"{INDEX}: byte 360: item 12 has the hash 1825877724, which is that of no key of the "
            "record at 2185",
        ],
    ),
    Case(
        "the size of a blank",
        lambda root: flip(root / LOG0, 7885),
        [f"{LOG0}: byte 7882: the blank at the end of the file says 311 bytes, 310 are left"],
    ),
    Case(
        "the magic of a blank",
        lambda root: flip(root / LOG0, 7886),
        [
            f"{LOG0}: byte 7886: record at 7882: the magic is 0xcad43194, a record has 0xdaa320a7; "
            "310 bytes are lost, the log goes on at 8192"
        ],
    ),
    Case(
        "the magic of the last record",
        lambda root: flip(root / LOG2, 1321),
        [
            f"{T0_NEXT}: byte 60: entry 13 points behind the end 17701 of the commit log",
            f"{INDEX}: byte 1700: item 79 points to 17701, behind the end 17701 of the commit log "
            "(2 items do)",
        ],
        [
            f"{LOG2}: byte 1321: the log ends here, what follows is no record: "
            "the magic is 0xdba320a7, a record has 0xdaa320a7"
        ],
    ),
    Case(
        "zeros over three records",
        lambda root: overwrite(root / LOG0, RECORD, bytes(1000)),
        in_record(
            0, "zeros where a record should begin", "1311 bytes are lost, the log goes on at 3496"
        ),
        pointing(1, 1, 1),
    ),
    Case(
        "zeros to the end of a file",
        lambda root: overwrite(root / LOG0, RECORD, bytes(8192 - RECORD)),
        in_record(
            0, "zeros where a record should begin", "6007 bytes are lost, the log goes on at 8192"
        ),
        pointing(4, 4, 5),
    ),
    Case(
        "the last log file is cut off",
        lambda root: os.truncate(root / LOG2, 100),
        [f"{LOG2}: byte 100: is 100 bytes long instead of 8192", *INTO_LOG2],
        [
            f"{LOG2}: byte 0: the log ends here, what follows is no record: "
            "the record says it is 439 bytes long, 100 are left in the file"
        ],
    ),
    Case(
        "a log file between others is cut off",
        lambda root: os.truncate(root / LOG0, 5000),
        [
            f"{LOG0}: byte 5000: is 5000 bytes long instead of 8192",
            f"{LOG0}: byte 4809: record at 4809: the record says it is 439 bytes long, 191 are "
            "left in the file; "
            "191 bytes are lost, the log goes on at 5000",
        ],
        pointing(2, 2, 3),
    ),
    Case(
        "a log file is missing",
        lambda root: (root / LOG1).unlink(),
        [f"{LOG1}: byte 0: is missing: 00000000000000000000 is followed by 00000000000000016384"],
        pointing(6, 6, 6),
    ),
    Case(
        "the last log file is missing",
        lambda root: (root / LOG2).unlink(),
        INTO_LOG2,
    ),
    Case(
        "a foreign file in the log",
        lambda root: (root / "commitlog" / "notes.txt").write_text("x"),
        foreign("commitlog/notes.txt"),
    ),
    Case(
        "a folder in the log",
        lambda root: (root / "commitlog" / "folder").mkdir(),
        foreign("commitlog/folder"),
    ),
    Case(
        "the offset of an entry",
        lambda root: flip(root / T0, 67),
        [f"{T0}: byte 60: entry 3 points to 3932, where no record begins; message 3 is at 3933"],
    ),
    Case(
        "the offset of an entry, far away",
        lambda root: flip(root / T0, 61),
        [
            f"{T0}: byte 60: entry 3 points behind the end 18140 of the commit log; message 3 is "
            "at 3933"
        ],
    ),
    Case(
        "the sign of an entry",
        lambda root: flip(root / T0, 60, 7),
        [
            f"{T0}: byte 60: entry 3 is not valid: physical offset -9223372036854771875, size "
            "437; message 3 is at 3933"
        ],
    ),
    Case(
        "the size of an entry",
        lambda root: flip(root / T0, 71),
        [f"{T0}: byte 68: entry 3 has the size 436, its record at 3933 is 437 bytes long"],
    ),
    Case(
        "the tags code of an entry",
        lambda root: flip(root / T0, 79),
        [
            f"{T0}: byte 72: entry 3 has the tags code 3552214, the tags of its record at 3933 "
            "have 3552215"
        ],
    ),
    Case(
        "an entry of zeros",
        lambda root: overwrite(root / T0, 60, bytes(20)),
        [f"{T0}: byte 60: message 3 of the commit log (from 3933 on) has no entry"],
    ),
    Case(
        "entries behind the end",
        lambda root: overwrite(root / U0_NEXT, 100, b"\1" * 20),
        [
            f"{U0_NEXT}: byte 60: each of the entries 13..14 is all zeros",
            f"{U0_NEXT}: byte 100: entry 15 points behind the end 18140 of the commit log",
        ],
    ),
    Case(
        "a queue file is cut off",
        lambda root: os.truncate(root / T0, 110),
        [
            f"{T0}: byte 100: messages 5..9 of the commit log (from 6565 on) have no entry",
            f"{T0}: byte 110: is 110 bytes long instead of 200",
        ],
    ),
    Case(
        "the first file of a queue is missing",
        lambda root: (root / T0).unlink(),
        [f"{T0}: byte 0: messages 0..9 of the commit log (from 0 on) have no entry"],
    ),
    Case(
        "the last file of a queue is missing",
        lambda root: (root / T0_NEXT).unlink(),
        [
            f"{T0_NEXT}: byte 0: messages 10..13 of the commit log (from 13460 on) have no entry, "
            "the queue ends at 10"
        ],
    ),
    Case(
        "a queue is missing",
        lambda root: shutil.rmtree(root / "consumequeue" / "T" / "0"),
        [
            "consumequeue/T/0: byte 0: is missing: messages 0..13 of the commit log (from 0 on) "
            "have no entry"
        ],
    ),
    Case(
        "all queues are missing",
        lambda root: shutil.rmtree(root / "consumequeue"),
        [
            "consumequeue/T/0: byte 0: is missing: messages 0..13 of the commit log (from 0 on) "
            "have no entry",
            "consumequeue/T/1: byte 0: is missing: messages 0..12 of the commit log (from 437 on) "
            "have no entry",
            "consumequeue/U/0: byte 0: is missing: messages 0..12 of the commit log (from 874 on) "
            "have no entry",
        ],
    ),
    Case(
        "a foreign file in a queue",
        lambda root: (root / "consumequeue/T/0/notes.txt").write_text("x"),
        foreign("consumequeue/T/0/notes.txt"),
    ),
    Case(
        "a file in the place of a topic",
        lambda root: (root / "consumequeue/notes.txt").write_text("x"),
        ["consumequeue/notes.txt: byte 0: is not the folder of a topic: a broker will not start"],
    ),
    Case(
        "a folder among the queues",
        lambda root: (root / "consumequeue/T/old").mkdir(),
        [],
        ["consumequeue/T/old: is not the folder of a queue: brokers leave it alone"],
    ),
    Case(
        "the hash of an item",
        lambda root: flip(root / INDEX, ITEM5 + 3),
        [
            f"{INDEX}: byte 220: item 5 has the hash 1912771466, which is that of no key of the "
            "record at 874",
            f"{INDEX}: byte 256: item 6: the item in front of it in slot 7 is said to be 5, it is "
            "0",
            f"{INDEX}: byte 756: item 31: the item in front of it in slot 6 is said to be 0, it "
            "is 5",
        ],
    ),
    Case(
        "the offset of an item",
        lambda root: flip(root / INDEX, ITEM5 + 5),
        [
            f"{INDEX}: byte 0: a key (hash 1912771467) of the record at 874 has no item",
            f"{INDEX}: byte 220: item 5 points to 281474976711530, which does not fit to its "
            "neighbours",
        ],
    ),
    Case(
        "the time of an item",
        lambda root: flip(root / INDEX, ITEM5 + 15),
        [
            f"{INDEX}: byte 220: item 5 says 1 s, the record at 874 was stored 0 s after the "
            "first one"
        ],
    ),
    Case(
        "the chain of an item",
        lambda root: flip(root / INDEX, ITEM5 + 19),
        [f"{INDEX}: byte 236: item 5: the item in front of it in slot 7 is said to be 1, it is 0"],
    ),
    Case(
        "a slot",
        lambda root: flip(root / INDEX, 55),
        [f"{INDEX}: byte 52: slot 3 begins with item 70, the newest one in it is 71"],
    ),
    Case(
        "the number of items",
        lambda root: flip(root / INDEX, 39),
        [f"{INDEX}: byte 36: the next item is said to be number 81, the file has room for 80"],
    ),
    Case(
        "the first offset of an index file",
        lambda root: flip(root / INDEX, 23),
        [f"{INDEX}: byte 16: the first message is said to be 1, it is 0"],
    ),
    Case(
        "an index file is missing",
        lambda root: (root / INDEX).unlink(),
        [
            f"{NEXT_INDEX}: byte 0: 39 records from 0 to 17262 have keys and no items",
            f"{NEXT_INDEX}: byte 0: a key (hash 169961232) of the record at 17701 has no item",
        ],
    ),
    Case(
        "an index file without a header",
        lambda root: os.truncate(root / NEXT_INDEX, 10),
        [
            f"{NEXT_INDEX}: byte 0: a key (hash 1655138282) of the record at 17701 has no item",
            f"{NEXT_INDEX}: byte 0: is too short for an index file",
        ],
    ),
    Case(
        "the index is missing",
        lambda root: shutil.rmtree(root / "index"),
        ["index: byte 0: has lost files: it had items of the messages from 0 to 17701"],
        ["index: there is no index: messages cannot be queried by key"],
    ),
    Case(
        "there may never have been an index",
        lambda root: [shutil.rmtree(root / "index"), (root / "queueends").unlink()],
        [],
        ["index: there is no index: messages cannot be queried by key"],
    ),
    Case(
        "a foreign file in the index",
        lambda root: (root / "index" / "notes.txt").write_text("x"),
        [],
        ["index/notes.txt: is not an index file (a name of digits): brokers leave it alone"],
    ),
    Case(
        "the checkpoint is cut off",
        lambda root: os.truncate(root / "checkpoint", 100),
        ["checkpoint: byte 100: is 100 bytes long instead of 4096"],
    ),
    Case(
        "the checkpoint claims too much",
        lambda root: flip(root / "checkpoint", 1),
        [
            "checkpoint: byte 0: says that the commit log is on the disk up to the store time "
            "283174976710695, "
            "the newest message has 1700000000039"
        ],
    ),
    Case(
        "the checkpoint is missing",
        lambda root: (root / "checkpoint").unlink(),
        [],
        ["checkpoint: is missing: after a crash the whole log will be read"],
    ),
]
