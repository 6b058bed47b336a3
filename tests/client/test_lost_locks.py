"""An ordered consumer whose lock was somebody else's for a while (client.md §4.9), on a scripted
broker."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from .scripted_broker import ScriptedBroker


@pytest.mark.parametrize("meanwhile", ["lost", "kept"])
def test_no_offset_is_told_of_a_queue_that_another_had_meanwhile(meanwhile: str) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.have_nothing(7)
        instance = broker.instance()
        instance._state = "running"
        (queue,) = broker.know_topic(instance, "T", 1)
        broker.know_topic(instance, "%RETRY%g", 1)
        consumer = PushConsumer("g", instance=instance, ordered=True)
        consumer.subscribe("T")

        @consumer.on_message
        async def handle(_: MessageExt) -> None: ...

        consumer.suspend()
        async with consumer:
            async with asyncio.timeout(10):
                while queue not in consumer.assignment():
                    await asyncio.sleep(0)
            consumer._member.offsets.update(queue, 9)
            assert consumer._locks is not None
            if meanwhile == "lost":
                broker.locked_by_others = {queue}
                await consumer._locks.acquire([queue])
                broker.locked_by_others = set()  # and free again before we give it up
            broker.asked.clear()
        told = [
            request.commit_offset
            for request in broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            if request.topic == "T"
        ]
        assert told == ([9] if meanwhile == "kept" else [])
        await instance.stop()

    asyncio.run(main())
