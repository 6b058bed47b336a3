"""A message that a group could not consume comes again: how often, and after which delay (classes
SendMessageProcessor, ConsumeMessageConcurrentlyService)."""

from __future__ import annotations

from typing import Final

from ..codes import V3_4_9

MAX_RECONSUME_TIMES: Final = 16
"""After so many retries a message is a dead letter, unless the group or its consumer says
otherwise."""
FIRST_DELAY_LEVEL: Final = 3
"""The first retry of a message waits 10 s with the usual levels, each one longer than the one
before."""


def retry_limit_of_consumer(max_reconsume_times: int) -> int:
    """What a consumer's option means.

    >>> retry_limit_of_consumer(-1), retry_limit_of_consumer(0), retry_limit_of_consumer(3)
    (16, 0, 3)
    """
    return max_reconsume_times if max_reconsume_times >= 0 else MAX_RECONSUME_TIMES


def retry_limit_at_broker(of_group: int, asked: int | None, client_version: int) -> int:
    """What a request asks for, where its client is new enough to mean it, comes before the group's
    own limit."""
    return asked if client_version >= V3_4_9 and asked is not None else of_group


def is_dead_letter(reconsume_times: int, limit: int, delay_level: int = 0) -> bool:
    """After its last retry a message goes to the dead letter queue of its group; so does one that
    its consumer gives back with a level below 0."""
    return reconsume_times >= limit or delay_level < 0


def retry_delay_level(asked: int, reconsume_times: int) -> int:
    """The level that the next attempt waits for: ``asked``, or the rising one for 0.

    >>> [retry_delay_level(0, times) for times in range(3)], retry_delay_level(1, 2)
    ([3, 4, 5], 1)
    """
    return asked or FIRST_DELAY_LEVEL + reconsume_times
