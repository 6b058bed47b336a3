"""Expired files, a full disk and lost messages, as clients and administrators meet them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.config import MessageStoreConfig

from ..sim import ManualClock
from .sim_broker import SimBroker, SimClient, sim_broker

LOG_FILE = 16384


def config(root: Path, **changes: Any) -> MessageStoreConfig:
    settings: dict[str, Any] = {
        "mapped_file_size_commit_log": LOG_FILE,
        "mapped_file_size_consume_queue": 200,
        "delete_when": str(
            (time.localtime(ManualClock().time_ms() / 1000).tm_hour + 12) % 24
        ),  # not now
        "delete_commit_log_files_interval": 0,
        "delete_consume_queue_files_interval": 0,
    }
    return MessageStoreConfig(store_path_root_dir=str(root), **settings | changes)


def make_old(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        os.utime(path, times=(1_000_000_000,) * 2)


async def filled(sim: SimBroker, root: Path) -> SimClient:
    """One message to Idle, then ten log files of one message to T."""
    client = sim.connect()
    await client.send("Idle", b"one")
    for number in range(10):
        await client.send("T", b"%d" % number + bytes(10_000))
    await sim.broker.store.sync()
    make_old(root)
    return client


def pull_request(offset: int) -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group="g", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=1,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        commit_offset=0, suspend_timeout_millis=15_000, subscription="*", sub_version=1,
        expression_type="TAG",
    )  # fmt: skip


def test_an_administrator_deletes_expired_files_and_queues(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:
            client = await filled(sim, tmp_path)
            store = sim.broker.store
            await store.cleaning.clean()
            assert store.min_phy_offset == 0
            assert (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
            await store.cleaning.clean()
            assert store.min_phy_offset == 9 * LOG_FILE
            answer = await client.ask(RequestCode.PULL_MESSAGE, pull_request(0))
            assert (answer.code, answer.remark) == (
                ResponseCode.PULL_OFFSET_MOVED,
                "OFFSET_TOO_SMALL",
            )
            header = answer.header
            assert (header.next_begin_offset, header.min_offset, header.max_offset) == (9, 9, 10)
            answer = await client.ask(RequestCode.PULL_MESSAGE, pull_request(9))
            assert answer.code == 0
            assert store.max_offset("Idle", 0) == 1
            assert (await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
            assert store.max_offset("Idle", 0) == 0
            assert store.max_offset("T", 0) == 10
            assert (await client.send("Idle", b"again")).queue_offset == 0

    asyncio.run(main())


def test_groups_begin_anew_with_a_queue_that_was_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:
            client = await filled(sim, tmp_path)
            offsets = sim.broker.state.offsets
            for topic in ("Idle", "T"):
                offsets.commit("g", topic, 0, 1)
            offsets.commit("g", "Idle", 1, 7)
            await sim.broker.tables.save_offsets()
            sim.broker.store.cleaning.clean_at_any_hour()
            await sim.broker.store.cleaning.clean()
            assert (await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
            await sim.broker.tables.offsets_file.saved()
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:
            assert (await sim.connect().send("Idle", b"again")).queue_offset == 0
            offsets = sim.broker.state.offsets
            places = [offsets.get("g", *queue) for queue in (("Idle", 0), ("Idle", 1), ("T", 0))]
            assert places == [-1, 7, 1]

    asyncio.run(main())


def test_a_sender_is_told_how_full_the_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PosixDisk, "used_ratio", lambda *_: 0.5)
    request = SendMessageRequest(
        producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0,
    )  # fmt: skip

    async def main() -> None:
        full = config(tmp_path, disk_space_warning_level_ratio=1, clean_file_forcibly_enable=False)
        async with sim_broker(tmp_path, store=full) as sim:
            client = sim.connect()
            await client.send("T", b"before")
            await sim.broker.store.cleaning.look()
            answer = await client.ask(RequestCode.SEND_MESSAGE, request, b"refused")
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert answer.remark is not None
            ratio = sim.broker.store.disk_ratios()["commit_log"]
            assert f"CL: {ratio:5.2f} CQ: {ratio:5.2f} INDEX: {ratio:5.2f}" in answer.remark
            assert (await client.ask(RequestCode.PULL_MESSAGE, pull_request(0))).code == 0

    asyncio.run(main())


@pytest.mark.parametrize("crashed", [True, False])
def test_groups_do_not_go_on_behind_what_a_crash_has_left(
    tmp_path: Path, crashed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def offset_after(sim: SimBroker) -> int:
        request = QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0)
        return int(
            (await sim.connect().ask(RequestCode.QUERY_CONSUMER_OFFSET, request))
            .check()
            .header.offset
        )

    async def main() -> None:
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:
            client = sim.connect()
            for number in range(3):
                await client.send("T", b"%d" % number)
            commit = UpdateConsumerOffsetRequest(
                consumer_group="g", topic="T", queue_id=0, commit_offset=7
            )
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
            sim.broker.tables.offsets_file.changed()
        if crashed:
            (tmp_path / "abort").touch()
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:
            assert await offset_after(sim) == (3 if crashed else 7)
        async with sim_broker(tmp_path, store=config(tmp_path)) as sim:  # it was written
            assert await offset_after(sim) == (3 if crashed else 7)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.text.count("consumer offsets behind the end of their queues") == crashed
