"""Members of an ordered group, and whether a queue has two owners at a time."""

from __future__ import annotations

import asyncio
from typing import Unpack

from aiorocketmq import MessageExt, PushConsumer, StartFrom
from aiorocketmq.client.consumer.options import PushConsumerOptions

from .cluster import SUSPEND


def ordered_consumer(
    topic: str, group: str, **options: Unpack[PushConsumerOptions]
) -> PushConsumer:
    """Of a topic from its beginning on."""
    options = {
        "suspend": SUSPEND,
        "ordered": True,
        "start_from": StartFrom.FIRST,
        **options,
    }
    consumer = PushConsumer(group, **options)
    consumer.subscribe(topic)
    return consumer


class OrderedGroup:
    """Its topic has four queues."""

    def __init__(self, topic: str, group: str, **options: Unpack[PushConsumerOptions]) -> None:
        """``options``: of each member."""
        self._of = topic, group
        self._options = options
        self._running: dict[int, str] = {}
        self._at_once: list[tuple[str, str]] = []
        """Who handled messages of one queue. What a handler raises nobody sees."""
        self.offsets: dict[int, list[int]] = {queue_id: [] for queue_id in range(4)}
        """By queue, of what was handled."""

    def member(self, name: str) -> PushConsumer:
        options: PushConsumerOptions = {**self._options, "instance_name": name}
        consumer = ordered_consumer(*self._of, **options)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            if (other := self._running.get(message.queue_id)) is not None:
                self._at_once.append((name, other))
            self._running[message.queue_id] = name
            try:
                await asyncio.sleep(0.001)
                self.offsets[message.queue_id].append(message.queue_offset)
            finally:
                self._running.pop(message.queue_id, None)

        return consumer

    def handled(self) -> int:
        """Different messages."""
        return sum(len(set(offsets)) for offsets in self.offsets.values())

    def assert_in_order(self) -> None:
        """What is repeated comes in order again."""
        assert not self._at_once, "a queue has one owner"
        for offsets in self.offsets.values():
            firsts = list(dict.fromkeys(offsets))
            assert firsts == sorted(firsts), "nothing overtakes"
