"""Looking for messages: what is not looked through is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from aiorocketmq.client.admin import Pulled, PullStatus
from aiorocketmq.console.cluster import ClusterView
from aiorocketmq.console.lookups import A_PULL, MOST_PULLS, by_time
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from .messages import BORN_MS, message


class View:
    """Of a cluster with queues of so many messages each, one a millisecond; a pull brings
    ``a_pull`` of them."""

    def __init__(self, *counts: int, a_pull: int = A_PULL) -> None:
        self._counts = counts
        self._a_pull = a_pull
        self.admin = self

    async def ask(self, question: Callable[[], Awaitable[Any]]) -> tuple[Any, str | None]:
        return await question(), None

    async def read_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "b", number) for number, _ in enumerate(self._counts)]

    async def search_offset(self, _queue: MessageQueue, at_ms: int) -> int:
        return at_ms - BORN_MS

    async def pull(self, queue: MessageQueue, offset: int, _most: int) -> Pulled:
        end = self._counts[queue.queue_id]
        numbers = range(offset, min(end, offset + self._a_pull))
        status = PullStatus.FOUND if numbers else PullStatus.NO_NEW_MSG
        found = [message(at_ms=BORN_MS + number, offset=number) for number in numbers]
        return Pulled(status, found, offset + len(found), 0, end, 0)


def looked(view: View, until: int, most: int) -> tuple[list[MessageExt], list[str]]:
    return asyncio.run(by_time(cast(ClusterView, view), "T", BORN_MS, BORN_MS + until, most=most))


@pytest.mark.parametrize(
    ("view", "until"),
    [(View(40, 3), 1000), (View(64), 1000), (View(500), 63), (View(0, 0), 1000)],
    ids=["all", "as many as are shown", "the time is over", "none"],
)
def test_all_of_a_time(view: View, until: int) -> None:
    found, problems = looked(view, until, most=64)
    assert problems == []
    assert len(found) == min(until + 1, sum(view._counts))


@pytest.mark.parametrize(
    ("view", "shown"),
    [(View(500), 64), (View(40, 40), 64), (View(500, a_pull=2), 2 * MOST_PULLS)],
    ids=["in one queue", "in several", "messages so large that a pull brings few"],
)
def test_what_is_beyond_those_that_are_looked_through_is_said(view: View, shown: int) -> None:
    found, (problem,) = looked(view, 1000, most=64)
    assert len(found) == shown
    assert f"More were stored in that time than the {shown} that were looked through" in problem
