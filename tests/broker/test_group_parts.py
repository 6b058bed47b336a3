"""Small parts of a member of a group, without a group."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.assembly.appearance import CommittedDelayOffsets
from aiorocketmq.broker.assembly.group import Group, append_noop
from aiorocketmq.broker.assembly.tables import Tables
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.schedule.offset_persistence import DelayOffsetPersistence
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import StoreError
from aiorocketmq.store.model.status import PutStatus

from ..fault.disks import FullDisk
from ..sim import ManualClock
from ..store.world import NOW, open_store, put, put_ok
from ..stored import decode_messages
from .sim_broker import sim_broker


def test_followers_are_told_what_a_majority_has() -> None:
    async def run() -> None:
        offsets, good = DelayOffsets(), [False, True]
        persistence = DelayOffsetPersistence(
            offsets, lambda done: done(good.pop(0)), lambda: None, lambda: 1000, ManualClock()
        )
        offsets.set(2, 7)
        nothing: Any = None
        answers = CommittedDelayOffsets(offsets, persistence)
        with pytest.raises(RequestError, match=r"\[PC_SYNCHRONIZED\]broker busy"):
            await answers.answer(nothing, b"", nothing)
        answer = await answers.answer(nothing, b"", nothing)
        assert decode_body(DelayOffsetTable, bytes(answer.body)).offset_table == {2: 7}

    asyncio.run(run())


def test_the_first_entry_of_a_term_is_a_message_that_the_original_can_dispatch(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as sim:
            store = sim.broker.store
            for _ in range(2):
                append_noop(store, sim.clock)
            assert store.max_offset("SELF_TEST_TOPIC", 0) == 2
            found = decode_messages(store.get("SELF_TEST_TOPIC", 0, 0).body)
            assert [(each.queue_offset, each.body) for each in found] == [(0, b""), (1, b"")]
            store._refusals.from_now_on("the test says so")
            with pytest.raises(StoreError, match="the test says so"):
                append_noop(store, sim.clock)

    asyncio.run(run())


@pytest.mark.parametrize(("member", "pause"), [(True, 1.0), (False, 5.0)])
def test_a_member_that_leads_right_after_its_start_knows_offsets_of_a_second_ago(
    tmp_path: Path, member: bool, pause: float
) -> None:
    async def run() -> None:
        store = MessageStoreConfig(
            store_path_root_dir=str(tmp_path), enable_dledger_commit_log=member
        )
        settings, clock = BrokerSettings(BrokerConfig(), store=store), ManualClock()
        tables = Tables(settings, clock)
        services = [asyncio.create_task(each.run()) for each in tables.services[:2]]
        tables.state.offsets.commit("g", "T", 0, 7)
        while clock.next_due is None:
            await asyncio.sleep(0.001)
        assert clock.next_due == clock.monotonic() + pause
        clock.advance(pause)
        while Tables(settings, clock).state.offsets.get("g", "T", 0) != 7:
            await asyncio.sleep(0.001)
        for service in services:
            service.cancel()
        await asyncio.gather(*services, return_exceptions=True)

    asyncio.run(run())


def test_a_member_without_room_for_the_next_file_of_its_log_does_not_lead(tmp_path: Path) -> None:
    """A quota, say: the disk itself is not full, and what it has of the log goes on being read."""

    async def run() -> None:
        disk = FullDisk(1 << 20)
        store = open_store(
            tmp_path,
            disk,
            enable_dledger_commit_log=True,
            dledger_self_id="n0",
            dledger_group="G",
            dledger_peers="n0-127.0.0.1:40911",
        )
        assert store.raft is not None
        settings = BrokerSettings(BrokerConfig(broker_name="b"), store=store.config)
        group = Group(settings, store, store.raft, lambda: "127.0.0.1:10911", ManualClock())
        store.raft.files.save_hard_state(1, "n0")
        store.raft.lead(1)
        assert group.node._takes_puts()
        disk.free = 0
        while put(store, body=bytes(1000)).status is PutStatus.PUT_OK:
            pass
        assert store.trouble is None
        assert not group.node._takes_puts()
        disk.free = 1 << 20
        put_ok(store, store_timestamp=NOW + 1000)
        assert group.node._takes_puts()
        store.close()

    asyncio.run(run())
