"""A store that the original left with delayed messages: they are delivered, each at its time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.store.model.config import MessageStoreConfig
from tests.stored import decode_messages

from ...golden_files import unpack_golden
from ..sim_broker import sim_broker

DUE_MS = 1795219824155
"""Time of delivery of the first of the two that wait in level 18."""


def test_what_a_java_broker_left_is_delivered(tmp_path: Path) -> None:
    unpack_golden("store-clean-master", tmp_path)
    folder = tmp_path / "master"
    store = MessageStoreConfig(
        store_path_root_dir=str(folder),
        mapped_file_size_commit_log=65536,
        mapped_file_size_consume_queue=2000,
        max_hash_slot_num=100,
        max_index_num=400,
    )

    async def scene() -> None:
        async with sim_broker(folder, store=store) as sim:
            broker, schedule = sim.broker, sim.broker.storage.schedule
            answer = await sim.connect().ask(RequestCode.GET_ALL_DELAY_OFFSET)
            assert decode_body(DelayOffsetTable, answer.check().body).offset_table == {1: 4, 2: 1}
            assert broker.store.max_offset("GoldDelay", 0) == 2
            sim.clock.advance((DUE_MS - 1 - sim.clock.time_ms()) / 1000)
            assert schedule.deliver_due() == 0.001
            sim.clock.advance(0.001)
            assert schedule.deliver_due() == 0.073
            assert schedule.figures() == {
                "scheduleMessageOffset_1": "4,4", "scheduleMessageOffset_2": "1,1",
                "scheduleMessageOffset_18": "1,2",
            }  # fmt: skip
            sim.clock.advance(0.073)
            schedule.deliver_due()
            delivered = decode_messages(broker.store.get("GoldDelay", 0, 2).body)
            assert [message.keys for message in delivered] == [("d18",), ("d99",)]
        broker.storage.save_delay_offsets()

    before = (folder / "config/delayOffset.json").read_text()
    asyncio.run(scene())
    assert (folder / "config/delayOffset.json").read_text() == before.replace("2:1", "2:1,18:2")
