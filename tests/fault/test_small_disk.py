"""A broker on a small disk: an index file takes the space of its items, not of all that fit."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from aiorocketmq import Admin, LocalCluster, Message, Producer, PullConsumer, StartFrom
from aiorocketmq.remoting.protocol.java_properties import record_to_properties
from aiorocketmq.store.model.config import MessageStoreConfig

from .own_process import done_on_tmpfs

SMALL: Final = {"mappedFileSizeCommitLog": str(4 << 20)}
"""Besides the sizes that ``LocalCluster`` has anyway (docs/operations.md)."""
NAMES: Final = (
    "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum",
)  # fmt: skip
LARGE: Final = {name: record_to_properties(MessageStoreConfig())[name] for name in NAMES}
"""As a broker has them that nobody has told anything."""
TOGETHER: Final = 100
"""Sends at a time."""


def used_mib(folder: Path) -> float:
    file_system = os.statvfs(folder)
    return (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize / (1 << 20)


async def work(folder: Path, properties: dict[str, str], messages: int) -> None:
    """Send, consume, look up by key: on what is left of the disk."""
    properties = {"diskSpaceWarningLevelRatio": "90", **properties}
    async with LocalCluster(data_dir=folder, properties=properties) as cluster:
        namesrv = cluster.namesrv_address
        async with Producer("p", namesrv=namesrv) as producer:
            for first in range(0, messages, TOGETHER):
                await asyncio.gather(
                    *(
                        producer.send(Message("T", bytes(1000), keys=f"k{number}"))
                        for number in range(first, first + TOGETHER)
                    )
                )
        consumer = PullConsumer("g", "T", namesrv=namesrv, start_from=StartFrom.FIRST)
        read = 0
        async with consumer, asyncio.timeout(30):
            while read < messages:
                read += len(await consumer.poll())
        async with Admin(namesrv=namesrv) as admin, asyncio.timeout(30):
            for number in (0, messages - 1):
                while not (found := await admin.query_messages("T", f"k{number}")):
                    pass  # the broker waited, and a file of this size takes a slow machine longer
                assert [message.keys for message in found] == [(f"k{number}",)]
        print(round(used_mib(folder)))


def with_small_files(folder: Path) -> None:
    asyncio.run(work(folder, SMALL, 20_000))


def with_files_of_usual_size(folder: Path) -> None:
    asyncio.run(work(folder, LARGE, 1000))


def test_a_broker_with_small_files_runs_in_64_mib() -> None:
    assert int(done_on_tmpfs(with_small_files, 64)) < 45


def test_files_of_the_usual_size_begin_small() -> None:
    """It was 420 MB after the first message, and no second one."""
    assert int(done_on_tmpfs(with_files_of_usual_size, 100)) < 70
