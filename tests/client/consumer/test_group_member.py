"""Queues that come and go, the offsets that are told and the locks (client.md §4.3, §4.9, §4.10),
on scripted brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.consumer.queue_locks import QueueLocks
from aiorocketmq.client.consumer.rebalance import configured
from aiorocketmq.client.consumer.subscription import Sql, subscription_of, tag_subscription
from aiorocketmq.client.offsets.offset_store import BrokerOffsets
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ...floods import TWO_MINUTES
from ...floods import told as told_in_log
from ...sim import turns
from ..scripted_broker import BROKER, NotingOwner, ScriptedBroker, member_of, route_of

Scene = Callable[[ScriptedBroker, ClientInstance], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(
            header=OffsetResponse(offset=7)
        )
        instance = broker.instance()
        try:
            await scene(broker, instance)
        finally:
            await instance.remoting.close()

    asyncio.run(main())


def test_each_queue_begins_where_the_group_was() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        assert await member.rebalance()
        assert owner.taken == [(queue, 7) for queue in queues]
        assert {member.offsets.get(queue) for queue in queues} == {7}
        assert await member.rebalance()
        assert len(owner.taken) == 4  # nothing is taken twice

    play(scene)


def test_a_queue_whose_offset_is_not_told_is_left_for_the_next_time() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        good = Reply(header=OffsetResponse(offset=7))
        broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: (
            Reply(ResponseCode.SYSTEM_BUSY, remark="no") if request.queue_id == 1 else good
        )
        member = member_of(instance, owner, "T")
        assert not await member.rebalance()
        assert {queue for queue, _ in owner.taken} == set(queues) - {queues[1]}
        broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: good
        assert await member.rebalance()
        assert member.owned == set(queues)

    play(scene)


def test_a_topic_that_nobody_has_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: Reply(
            ResponseCode.TOPIC_NOT_EXIST, remark="no"
        )
        owner = NotingOwner()
        member = member_of(instance, owner, "T")
        for seconds in (4.5, 60):
            assert not await member.rebalance()
            assert not lines()
            broker.clock.advance(seconds)
        for _ in range(14):
            assert not await member.rebalance()
            broker.clock.advance(10)
        broker.know_topic(instance, "T")
        assert await member.rebalance()
        assert owner.taken

    text = "nothing to consume yet group=g topic=T: no broker has it, as far as the name server"

    def lines() -> list[str]:
        return told_in_log(caplog, text)

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        play(scene)
    assert lines() == TWO_MINUTES


def test_what_is_not_settled_does_not_keep_members_from_being_noticed() -> None:
    """Of a topic that nobody has made yet, say, while others of the group come and go."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        member.subscribe(tag_subscription("Missing", "*", 1))
        running = asyncio.create_task(member.run())
        asked = RequestCode.GET_ROUTEINFO_BY_TOPIC
        for times in range(1, 10):  # each pause is twice as long
            while len(broker.requests(asked)) < times:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)
            if times < 9:
                broker.clock.advance(20.0)
        broker.members.append(f"{instance.client_id}-another")
        member.wake()
        async with asyncio.timeout(10):
            while not owner.given_up:
                await asyncio.sleep(0)
        assert owner.given_up == queues[2:]
        running.cancel()

    play(scene)


def test_a_topic_that_cannot_be_looked_up_keeps_no_other_one_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody has made it yet, and the name servers have too much to do."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "Z"), NotingOwner()
        broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: Reply(
            ResponseCode.SYSTEM_BUSY, remark="no"
        )
        member = member_of(instance, owner, "Z")
        instance._producers.add("pg")  # somebody to tell brokers of
        member.subscribe(tag_subscription("Nobody", "*", 1))
        assert not await member.rebalance()
        assert member.owned == set(queues)
        assert broker.requests(RequestCode.HEART_BEAT)
        broker.clock.advance(60)
        broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: Reply(
            body=encode_body(route_of(1))
        )
        assert await member.rebalance()
        assert len(member.owned) == len(queues) + 1

    with caplog.at_level(logging.INFO, "aiorocketmq.client"):
        play(scene)
    assert told_in_log(caplog, "rebalance postponed group=g topic=Nobody error=") == ["", "over"]


def test_an_expression_that_cannot_be_checked_keeps_no_other_topic_waiting() -> None:
    """The only broker of its topic is down."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "Z"), NotingOwner()
        data = route_of(4, "127.0.0.1:10912")
        data = replace(data, broker_datas=[replace(data.broker_datas[0], broker_name="b")])
        data = replace(data, queue_datas=[replace(data.queue_datas[0], broker_name="b")])
        instance.routes._store(topic_route("Far", data))
        broker.gone.add("127.0.0.1:10912")
        member = member_of(instance, owner, "Z")
        instance._producers.add("pg")  # somebody to tell brokers of
        member.subscribe(subscription_of("Far", Sql("a > 1"), 1))
        assert not await member.rebalance()
        assert member.owned == set(queues)
        assert broker.requests(RequestCode.HEART_BEAT)

    play(scene)


@pytest.mark.parametrize(
    ("code", "remark", "is_refusal"),
    [
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "position 4", True),
        (ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter ...", True),
        (ResponseCode.SYSTEM_ERROR, "an error of its own", False),
        (ResponseCode.SYSTEM_BUSY, "overloaded", False),
        (ResponseCode.NO_PERMISSION, "the account is about to get it", False),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "an old one", None),
    ],
)
def test_only_a_refusal_of_the_expression_gives_a_subscription_up(
    code: ResponseCode, remark: str, is_refusal: bool | None
) -> None:
    """``None``: not even a reason to ask again."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        member.subscribe(subscription_of("T", Sql("a > 1"), 2))
        broker.answers[RequestCode.CHECK_CLIENT_CONFIG] = lambda _: Reply(code, remark=remark)
        await member.rebalance()
        assert ("T" not in member.subscriptions) == bool(is_refusal)
        assert (member.refused is not None) == bool(is_refusal)
        assert member.owned == (set(queues) if is_refusal is None else set())
        if is_refusal is False:
            with pytest.raises(BrokerError, match=remark):
                await member.introduce()
            broker.answers[RequestCode.CHECK_CLIENT_CONFIG] = lambda _: Reply()
            assert await member.rebalance()
            assert member.owned == set(queues)

    play(scene)


@pytest.mark.parametrize("trouble", ["members", "strategy", "no list"])
def test_without_a_division_everything_stays(trouble: str) -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        fail = False

        def strategy(_me: str, there: list[MessageQueue], _ids: list[str]) -> list[MessageQueue]:
            if fail and trouble == "no list":
                return None  # type: ignore[return-value]
            if fail:
                raise RuntimeError("no")
            return list(there)

        member = member_of(instance, owner, "T", allocate=strategy)  # type: ignore[arg-type]
        assert await member.rebalance()
        if trouble == "members":
            broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: Reply(
                ResponseCode.SYSTEM_ERROR
            )
        fail = True
        assert not await member.rebalance()
        assert (member.owned, owner.given_up) == (set(queues), [])

    play(scene)


def test_a_topic_that_is_not_subscribed_any_more_is_given_up() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        await member.rebalance()
        member.unsubscribe("T")
        assert await member.rebalance()
        assert (member.owned, owner.given_up) == (set(), queues)
        assert member.offsets.get(queues[0]) is None  # whoever has them next asks the broker

    play(scene)


def test_who_unsubscribes_before_it_subscribes_anew_gets_what_it_wants_now() -> None:
    """In one go, so that nothing was given up in between; and brokers take only what is newer."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        await member.rebalance()
        owner.taken.clear()
        member.unsubscribe("T")
        member.subscribe(tag_subscription("T", "b", 1))
        assert member.subscriptions["T"].sub_version > 1
        owner.busy = {queues[0]}
        assert not await member.rebalance()
        assert owner.given_up == queues[1:]
        owner.busy.clear()
        assert await member.rebalance()
        assert owner.given_up == [*queues[1:], queues[0]]
        assert {queue for queue, _ in owner.taken} == set(queues)
        owner.given_up.clear()
        assert await member.rebalance()
        assert owner.given_up == []

    play(scene)


def test_a_topic_that_is_subscribed_while_brokers_are_told_is_taken_too() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        owner = NotingOwner()
        member = member_of(instance, owner, "T")
        broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: Reply(
            body=encode_body(route_of(1))
        )
        dividing = asyncio.create_task(member.rebalance())
        while not broker.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC):
            await asyncio.sleep(0)
        member.subscribe(tag_subscription("Other", "*", 2))
        await dividing
        assert await member.rebalance()
        assert {queue.topic for queue in member.owned} == {"T", "Other"}

    play(scene)


def test_another_expression_takes_the_queues_anew() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        await member.rebalance()
        owner.busy = {queues[0]}  # its handler still runs
        member.subscribe(tag_subscription("T", "a", 2))
        assert not await member.rebalance()
        assert [queue for queue, _ in owner.taken[4:]] == queues[1:]
        owner.busy = set()
        assert await member.rebalance()
        assert [queue for queue, _ in owner.taken[7:]] == queues[:1]
        assert member.owned == set(queues)

    play(scene)


def test_a_queue_that_was_not_pulled_for_long_is_taken_anew() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T")
        await member.rebalance()
        owner.hanging = {queues[2]}
        assert await member.rebalance()
        assert (owner.given_up, owner.taken[4:]) == ([queues[2]], [(queues[2], 7)])

    play(scene)


def test_configured_queues_are_taken_whoever_else_is_there() -> None:
    """The retry topic is divided as usual, or nobody would read it."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        (retry,) = broker.know_topic(instance, "%RETRY%g", 1)
        broker.members = ["0", "1", instance.client_id]
        member = member_of(instance, owner, "T", allocate=configured(queues[3]))
        member.subscribe(tag_subscription("%RETRY%g", "*", 1))
        assert await member.rebalance()
        assert {queue for queue, _ in owner.taken} == {queues[3]}
        broker.members = [instance.client_id]
        assert await member.rebalance()
        assert {queue for queue, _ in owner.taken} == {queues[3], retry}

    play(scene)


# --- offsets
# --------------------------------------------------------------------------------------------------


def told(broker: ScriptedBroker) -> list[tuple[int, int]]:
    return sorted(
        (request.queue_id, request.commit_offset)
        for request in broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
    )


def test_what_is_known_is_told_and_nothing_else() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, offsets = broker.know_topic(instance, "T"), BrokerOffsets(instance, "g")
        offsets.update(queues[0], 5)
        offsets.update(queues[1], 6)
        offsets.update(queues[2], 8)
        offsets.forget(queues[2])
        await offsets.persist([queues[1], queues[2], queues[3]])
        assert told(broker) == [(1, 6)]
        await offsets.persist()
        assert told(broker) == [
            (0, 5),
            (1, 6),
            (1, 6),
        ]  # also what was told before: the broker may have lost it

    play(scene)


def test_a_commit_waits_for_every_answer_and_raises_the_first_error() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, offsets = broker.know_topic(instance, "T"), BrokerOffsets(instance, "g")
        await offsets.commit({queues[0]: 1, queues[1]: 2})
        assert told(broker) == [(0, 1), (1, 2)]
        broker.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda _: Reply(
            ResponseCode.SYSTEM_ERROR, remark="no"
        )
        with pytest.raises(BrokerError):
            await offsets.commit({queues[0]: 3})
        await offsets.persist()  # only logs

    play(scene)


def unlocked(broker: ScriptedBroker) -> list[MessageQueue]:
    return [
        queue
        for request in broker.requests(RequestCode.UNLOCK_BATCH_MQ)
        for queue in request.mq_set
    ]


# --- locks
# --------------------------------------------------------------------------------------------------


def test_a_queue_that_is_locked_by_another_is_not_taken() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T", locks=QueueLocks(instance, "g"))
        broker.locked_by_others = {queues[0]}
        assert not await member.rebalance()
        assert {queue for queue, _ in owner.taken} == set(queues[1:])
        asked = [request.queue_id for request in broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)]
        assert sorted(asked) == [
            1,
            2,
            3,
        ]  # the offset is asked for when the last owner cannot change it any more
        broker.locked_by_others = set()
        assert await member.rebalance()
        assert member.owned == set(queues)

    play(scene)


def test_a_queue_is_unlocked_when_it_was_given_up() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        member = member_of(instance, owner, "T", locks=QueueLocks(instance, "g"))
        await member.rebalance()
        owner.busy = {queues[0]}
        broker.members = ["0", instance.client_id]  # the other one gets the first half
        assert not await member.rebalance()
        await turns()
        assert unlocked(broker) == [queues[1]]  # not the one whose handler still runs
        owner.busy = set()
        assert await member.rebalance()
        await member.release_all()
        await turns()
        assert sorted(unlocked(broker)) == queues

    play(scene)


def test_a_lock_that_another_has_meanwhile_gives_the_queue_up() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, owner = broker.know_topic(instance, "T"), NotingOwner()
        locks = QueueLocks(instance, "g")
        member = member_of(instance, owner, "T", locks=locks)
        await member.rebalance()
        broker.locked_by_others = {queues[0]}
        await locks.acquire(member.owned)  # what ``renew`` does every 20 s
        assert not locks.holds(queues[0])
        assert locks.holds(queues[1])
        assert not await member.rebalance()
        assert (owner.given_up, member.owned) == ([queues[0]], set(queues[1:]))
        broker.locked_by_others = set()
        assert await member.rebalance()
        assert owner.taken[4:] == [(queues[0], 7)]  # from where the other one left it

    play(scene)


def test_a_lock_lasts_30_seconds_and_no_longer_than_its_connection() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queue, *_ = broker.know_topic(instance, "T")
        locks = QueueLocks(instance, "g")
        assert await locks.hold(queue)
        broker.clock.advance(29.9)
        assert locks.holds(queue)
        broker.clock.advance(0.2)
        assert not locks.holds(queue)
        assert await locks.hold(queue)
        broker.restart()  # it has forgotten all locks
        await turns()
        assert not locks.holds(queue)
        assert await locks.hold(queue)
        assert len(broker.requests(RequestCode.LOCK_BATCH_MQ)) == 3
        broker.restart()
        broker.down = True
        await turns()
        assert not await locks.hold(queue)
        assert await locks.those_held([queue]) == []

    play(scene)


def test_a_queue_whose_offset_cannot_be_asked_is_unlocked() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        (queue,) = broker.know_topic(instance, "T", 1)
        broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(
            ResponseCode.SYSTEM_ERROR
        )
        member = member_of(instance, NotingOwner(), "T", locks=QueueLocks(instance, "g"))
        assert not await member.rebalance()
        await turns()
        (request,) = broker.requests(RequestCode.UNLOCK_BATCH_MQ)
        assert (request.mq_set, queue.broker_name) == ((queue,), BROKER)

    play(scene)


def test_queues_are_named_in_order_whatever_set_they_come_from() -> None:
    """Whom a lock is asked of, and by which topic, does not hang on the hashes of a process."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        queues, locks = broker.know_topic(instance, "T"), QueueLocks(instance, "g")
        await locks.acquire(queues)
        await locks.release(reversed(queues))
        await turns()
        assert unlocked(broker) == queues

    play(scene)
