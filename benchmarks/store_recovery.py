"""How fast a store without checkpoint is opened after a crash: the whole log is read, CRCs are
checked, queues and index are made anew. Next to it the bare scan: the same file is read and one CRC
computed over all of it.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path

from aiorocketmq.remoting.protocol.leaves import crc32
from aiorocketmq.remoting.protocol.message.properties import encode_properties

from .harness.figures import Row
from .store_common import QUEUES, open_store, put, rounds, row

SHAPES = ((128, 400_000), (16 << 10, 24_000))
CHUNK = 2 << 20


def run(folder: Path, count: int) -> list[Row]:
    """Records per second and GiB per second."""
    rows = []
    for size, records in SHAPES:
        root = folder / f"recovery{size}"
        end = _fill(root, size, records)
        for indexed in (False, True):
            ours = rounds(count, partial(_recovered, root, indexed=indexed))
            floor = rounds(count, partial(_scanned, root, end, records))
            gib = end / records / (1 << 30)
            what = f"recovery, {size} bytes, {'with' if indexed else 'without'} index"
            for unit, each in (("records/s", 1.0), ("GiB/s", gib)):
                found, least = ([value * each for value in of] for of in (ours, floor))
                rows.append(
                    row(
                        f"{what}, {unit}",
                        unit,
                        found,
                        least,
                        "read and CRC of the whole file",
                        more=True,
                    )
                )
        shutil.rmtree(root)
    return rows


def _fill(root: Path, size: int, records: int) -> int:
    store = open_store(root)
    body = memoryview(bytes(range(256)) * (size // 256 + 1))[:size]
    end = 0
    for number in range(records):
        unique = f"7F000001000018B4AAC2{number:012X}"
        end = put(
            store, number % QUEUES, body, encode_properties({"UNIQ_KEY": unique, "TAGS": "TagA"})
        )
    store.close()
    return end


def _recovered(root: Path, *, indexed: bool) -> float:
    (root / "checkpoint").unlink(missing_ok=True)
    shutil.rmtree(root / "index", ignore_errors=True)
    (root / "abort").touch()
    begin = time.perf_counter()
    store = open_store(root, message_index_enable=indexed)
    seconds = time.perf_counter() - begin
    assert store.recovery is not None
    records = store.recovery.records
    store.close()
    return records / seconds


def _scanned(root: Path, end: int, records: int) -> float:
    begin = time.perf_counter()
    fd = os.open(root / "commitlog" / "00000000000000000000", os.O_RDONLY)
    for at in range(0, end, CHUNK):
        crc32(os.pread(fd, min(CHUNK, end - at), at))
    os.close(fd)
    return records / (time.perf_counter() - begin)
