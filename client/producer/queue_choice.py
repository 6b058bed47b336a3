"""Which queue a message goes to. Pure (client.md §3.5, §3.7; classes TopicPublishInfo,
SelectMessageQueueByHash)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import java_string_hash
from ..errors import ConfigError

Q = TypeVar("Q")

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of the queues of the topic, which come sorted by broker name and queue id."""


class RoundRobin:
    """Takes the queues in turn; after a failure those of the broker that failed come last. Threads
    may share one."""

    __slots__ = ("next",)

    def __init__(self, start: int = 0) -> None:
        self.next: Callable[[], int] = itertools.count(start).__next__
        """Whose turn it is, a number that only grows."""

    def choose(
        self, queues: Sequence[MessageQueue], avoid_broker: str | None = None
    ) -> MessageQueue:
        """The next queue. Only ``avoid_broker`` being all there is can make it the answer.
        ``queues`` must not be empty."""
        count = len(queues)
        queue = queues[self.next() % count]
        for _ in range(count):
            if queue.broker_name != avoid_broker:
                break
            queue = queues[self.next() % count]
        return queue


def choose_by_key(queues: Sequence[Q], sharding_key: str | int) -> Q:
    """The queue for a key, the same one that Java's hash selector takes: messages of one key stay
    in order."""
    return queues[abs(java_hash(sharding_key)) % len(queues)]


def java_hash(key: str | int) -> int:
    """``hashCode()`` of a String, of an Integer (32 bits) or of a Long (64 bits).

    A negative number that fits 32 bits is taken for an Integer; a Java program that uses a Long for
    it gets another value.

    >>> java_hash("polygenelubricants"), java_hash(-7), java_hash(1 << 33)
    (-2147483648, -7, 2)
    """
    if isinstance(key, str):
        return java_string_hash(key)
    if isinstance(key, bool) or not isinstance(key, int) or not -(1 << 63) <= key < 1 << 63:
        raise ConfigError(f"a sharding key is a str or an int of at most 64 bits, not {key!r}")
    if -(1 << 31) <= key < 1 << 31:
        return key
    folded = (key ^ (key >> 32)) & 0xFFFF_FFFF
    return folded - (1 << 32) if folded & 0x8000_0000 else folded
