"""A topic as messages come, read from its end on by the side of all groups: nothing is committed,
and no group knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from ..client.admin import PullStatus
from ..client.consumer.subscription import tag_subscription
from ..remoting.errors import RocketMQError
from ..remoting.protocol.message.message_queue import MessageQueue
from ..remoting.protocol.record.decode import MessageExt
from .cluster import ClusterView

EVERY_S: Final = 1.0
MOST_QUEUES: Final = 64
A_PULL: Final = 32
MOST_AT_ONCE: Final = 100
"""Of a second; what is beyond that is passed over, and said."""
SHOWN_CHARACTERS: Final = 300
_SHOWN_BYTES: Final = 4 * SHOWN_CHARACTERS


class TailRow(NamedTuple):
    """A message as it is shown."""

    message: MessageExt
    text: str
    """The beginning of its body."""


class Tail:
    """One who watches."""

    def __init__(self, view: ClusterView, topic: str, expression: str, kind: str) -> None:
        """``expression`` as a subscription of ``kind`` (``TAG``, ``SQL92``) has it. Raises
        ``ConfigError`` for tags that are none."""
        self._view = view
        self._topic = topic
        self._expression = expression
        self._kind = kind
        tags = kind == "TAG"
        self._tags = frozenset(tag_subscription(topic, expression, 0).tags_set if tags else ())
        self._offsets: dict[MessageQueue, int] = {}

    async def run(self) -> AsyncIterator[tuple[list[TailRow], str]]:
        """What has come, and a sentence; once a second until the caller has enough, or the cluster
        refuses."""
        while True:
            try:
                found, passed = await self._round()
            except RocketMQError as error:
                yield [], str(error)
                if not self._offsets:
                    return
                found, passed = [], 0
            else:
                yield found, self._state(passed)
            await self._view.clock.sleep(EVERY_S)

    def _state(self, passed: int) -> str:
        text = f"watching {len(self._offsets)} queues from the end on"
        return f"{text}; {passed:,} messages came too fast and were passed over" if passed else text

    async def _round(self) -> tuple[list[TailRow], int]:
        queues = (await self._view.admin.read_queues(self._topic))[:MOST_QUEUES]
        new = [queue for queue in queues if queue not in self._offsets]
        ends = await asyncio.gather(*(self._view.admin.max_offset(queue) for queue in new))
        self._offsets |= dict(zip(new, ends, strict=True))
        told = await asyncio.gather(*(self._pull(queue) for queue in queues))
        found = [message for messages, _ in told for message in messages]
        found.sort(key=lambda message: message.store_timestamp)
        passed = sum(skipped for _, skipped in told) + max(0, len(found) - MOST_AT_ONCE)
        return [_row(message) for message in found[-MOST_AT_ONCE:]], passed

    async def _pull(self, queue: MessageQueue) -> tuple[Sequence[MessageExt], int]:
        """What matches, and how many were passed over."""
        async with self._view.turn:
            pulled = await self._view.admin.pull(
                queue,
                self._offsets[queue],
                A_PULL,
                expression=self._expression,
                expression_type=self._kind,
            )
        behind = pulled.max_offset - pulled.next_offset
        skipped = behind if pulled.status is PullStatus.FOUND and behind > A_PULL else 0
        self._offsets[queue] = pulled.max_offset if skipped else pulled.next_offset
        return [message for message in pulled.messages if self._wants(message)], skipped

    def _wants(self, message: MessageExt) -> bool:
        """A broker compares hashes of tags."""
        return not self._tags or "*" in self._tags or message.tags in self._tags


def _row(message: MessageExt) -> TailRow:
    try:
        text = message.body[:_SHOWN_BYTES].decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    except ValueError as error:
        text = str(error)
    return TailRow(message, text)
