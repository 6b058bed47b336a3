"""Queues of an ordered consumer that go to another member: several at once, of which one has to
wait for its handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiorocketmq.client.consumer.pulling import Pulled, PullStatus
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from .messages import stored
from .scripted_broker import ScriptedBroker


def pulled(queue_id: int, offset: int) -> Pulled:
    return Pulled(PullStatus.FOUND, [stored(offset, queue_id=queue_id)], offset + 1, 0, 100, 0)


def test_nothing_is_handled_of_a_queue_that_was_left_while_another_cannot_be_yet() -> None:
    """Its messages were thrown away; what is pulled after them must not come before them."""

    async def main() -> None:
        broker = ScriptedBroker()
        broker.have_nothing(7)
        instance = broker.instance()
        instance._state = "running"
        slow, quick = broker.know_topic(instance, "T", 2)
        broker.know_topic(instance, "%RETRY%g", 1)
        consumer = PushConsumer("g", instance=instance, ordered=True)
        consumer.subscribe("T")
        begun: list[tuple[int, int]] = []
        may_end = asyncio.Event()

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            begun.append((message.queue_id, message.queue_offset))
            if message.queue_id == slow.queue_id:
                await may_end.wait()

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                await asyncio.sleep(0)

        async with asyncio.timeout(10), consumer:
            await until(lambda: {slow, quick} <= consumer.assignment())
            owned = consumer._queues[quick]
            consumer._queues[slow].put(pulled(slow.queue_id, 7))
            owned.put(pulled(quick.queue_id, 7))
            await until(lambda: len(begun) == 2)
            giving = asyncio.create_task(consumer.give_up([slow, quick]))
            for _ in range(20):
                await asyncio.sleep(0)
            owned.put(pulled(quick.queue_id, 40))  # it had been asked for before
            for _ in range(20):
                await asyncio.sleep(0)
            left = not giving.done() and consumer.assignment()
            may_end.set()
            assert await giving == [slow, quick]
            assert begun == [(slow.queue_id, 7), (quick.queue_id, 7)]
            assert left
            assert slow in left
            assert quick not in left
        await instance.stop()

    asyncio.run(main())
