"""Looking for messages: what is not looked through is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest

from aiorocketmq.client.admin import Member, MessageTrack, Pulled, PullStatus, Traced, TrackType
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.console.cluster import ClusterView
from aiorocketmq.console.lookups import (
    A_PULL,
    MOST_PULLS,
    Journey,
    by_id,
    by_key,
    by_time,
    journey_of,
)
from aiorocketmq.console.model.journey import steps_of
from aiorocketmq.console.pages.messages import one
from aiorocketmq.console.site import BadFormError, Form
from aiorocketmq.remoting.errors import RequestTimeout, RocketMQError
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


# --- brokers that do not answer
# --------------------------------------------------------------------------------------------------

LATE = RequestTimeout("no answer in time")


class Silent:
    """A view of a cluster where a message is stored, a group is past it, and one broker of
    ``topics`` does not answer; of ``lost`` not even a route is told. Other topics are not there."""

    def __init__(self, *topics: str, lost: str = "") -> None:
        self._topics = topics
        self._lost = lost
        self.admin = self
        self.turn = asyncio.Semaphore()

    async def ask(self, question: Callable[[], Awaitable[Any]]) -> tuple[Any, str | None]:
        return await question(), None

    async def query_topic_consume_by_who(self, _topic: str) -> set[str]:
        return {"g"}

    async def message_tracks(
        self, _message: MessageExt, groups: Sequence[str]
    ) -> list[MessageTrack]:
        return [MessageTrack(group, TrackType.CONSUMED) for group in groups]

    async def query_by_unique_key(
        self, topic: str, _id: str, *, missing: dict[str, RocketMQError] | None = None
    ) -> list[MessageExt]:
        found = [message()] if topic == "Orders" else []
        if topic == self._lost:
            raise LATE
        if topic in self._topics:
            if missing is None:
                raise LATE
            missing["10.0.0.2:10911"] = LATE
            if not found:
                raise LATE
        elif not found:
            raise NoRouteError(f"no topic {topic}")
        return found

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        missing: dict[str, RocketMQError] | None = None,
        **_range: int,
    ) -> list[MessageExt]:
        return await self.query_by_unique_key(topic, key, missing=missing)

    async def message_trace(
        self, _id: str, *, missing: dict[str, RocketMQError] | None = None
    ) -> list[Traced]:
        await self.query_by_unique_key("traces", _id, missing=missing)
        return []


def journey(view: Silent) -> tuple[Journey, str]:
    """And what it says of the group."""
    found = asyncio.run(journey_of(cast(ClusterView, view), message()))
    steps = steps_of(found.copies, found.tracks, found.traces)
    return found, steps[-1].title


def test_what_is_not_there_is_no_problem() -> None:
    found, told = journey(Silent())
    assert (found.problems, told) == ([], "g is past it: it was consumed")


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
@pytest.mark.parametrize("lost", [True, False])
def test_who_does_not_tell_of_retries_does_not_say_that_it_was_consumed(
    topic: str, lost: bool
) -> None:
    found, told = journey(Silent(lost=topic) if lost else Silent(topic))
    at = "" if lost else " at 10.0.0.2:10911"
    assert found.problems == [f"Copies and traces{at}: no answer in time"]
    assert told.startswith("g is past it: whether it was consumed is not known")


def test_a_broker_is_named_once_and_hides_no_message() -> None:
    found, told = journey(Silent("Orders", "traces", "RMQ_SYS_TRANS_HALF_TOPIC"))
    assert found.problems == ["Copies and traces at 10.0.0.2:10911: no answer in time"]
    assert len(found.copies.stored) == 1
    assert told == "g is past it: it was consumed"


@pytest.mark.parametrize("looking", [by_id, partial(by_key, begin_ms=BORN_MS, end_ms=BORN_MS)])
def test_a_search_names_who_does_not_answer(looking: Callable[..., Any]) -> None:
    found, problems = asyncio.run(looking(Silent("Orders"), "Orders", "ID1"))
    assert len(found) == 1
    assert problems == ["10.0.0.2:10911 was not looked through: no answer in time"]


def test_a_silent_broker_does_not_hide_what_another_one_can_show() -> None:
    class Cluster(Silent):
        async def members(self) -> list[Member]:
            return [Member("c", "b", 0, "10.0.0.1:10911")]

        async def view_message(self, _id: str) -> MessageExt:
            return message()

    view = cast(ClusterView, Cluster("Others"))
    found, problems = asyncio.run(by_id(view, "Others", message().offset_msg_id))
    assert len(found) == 1
    assert problems == ["10.0.0.2:10911 was not looked through: no answer in time"]


def test_what_a_silent_broker_may_have_is_not_said_to_be_nowhere() -> None:
    view = cast(ClusterView, Silent("Others"))
    found, (silent, _) = asyncio.run(by_id(view, "Others", "ID1"))
    assert (found, silent) == ([], "10.0.0.2:10911 was not looked through: no answer in time")
    form = Form([("topic", "Others"), ("id", "ID1")])
    with pytest.raises(BadFormError, match=r"10\.0\.0\.2:10911 was not looked through"):
        asyncio.run(one(view, form))
