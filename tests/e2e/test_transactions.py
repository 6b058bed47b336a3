"""Transactions of producers against a real broker that asks soon, and the campaign with few of
them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest

import aiorocketmq.sync
from aiorocketmq import (
    ClientStateError,
    Message,
    MessageError,
    MessageExt,
    PullConsumer,
    TransactionProducer,
    TransactionState,
)
from benchmarks.transactions import Options, transactions
from benchmarks.transactions_ledger import COMMIT, ROLLBACK, UNKNOWN, Kind, Plan, judge, plans
from examples.demo.program import run_program

from .. import forked
from .cluster import SUSPEND, Cluster, asynchronous, total_of, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("transactions")) as cluster:
        cluster.start_broker(
            transactionCheckInterval=200, transactionTimeOut=100, messageDelayLevel="1s"
        )
        yield cluster


async def nobody(message: MessageExt) -> TransactionState:
    raise AssertionError(f"nobody should ask about {message}")


async def bodies(cluster: Cluster, group: str, topic: str, count: int) -> list[bytes]:
    """The first ``count`` messages of a topic, and whatever comes within a moment more."""
    async with PullConsumer(group, topic, namesrv=cluster.namesrv, suspend=SUSPEND) as consumer:
        found = await total_of(consumer, count)
        found += await consumer.poll(timeout=0.3)
    return sorted(message.body for message in found)


@asynchronous
async def test_the_block_decides(cluster: Cluster, topic: str, group: str) -> None:
    async with TransactionProducer(group, checker=nobody, namesrv=cluster.namesrv) as producer:
        async with producer.transaction(Message(topic, b"committed", keys=["k"])) as good:
            assert good.state is None
        async with producer.transaction(Message(topic, b"rolled back")) as bad:
            bad.rollback()
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction(Message(topic, b"failed")) as failed:
                _ = 1 / 0
        assert [each.state for each in (good, bad, failed)] == [
            TransactionState.COMMIT,
            TransactionState.ROLLBACK,
            TransactionState.ROLLBACK,
        ]
        with pytest.raises(ClientStateError, match="used once"):
            async with good:
                pass
        await producer.send(Message(topic, b"ordinary"))
    assert await bodies(cluster, group, topic, 2) == [b"committed", b"ordinary"]


@asynchronous
async def test_a_committed_message_is_the_one_that_was_sent(
    cluster: Cluster, topic: str, group: str
) -> None:
    async with TransactionProducer(
        group, checker=nobody, namesrv=cluster.namesrv, compress_over=100
    ) as producer:
        message = Message(
            topic, bytes(5000), tags="a", keys=["k1", "k2"], flag=9, properties={"own": "v"}
        )
        async with producer.transaction(message) as transaction:
            sent = transaction.sent
    async with PullConsumer(group, topic, namesrv=cluster.namesrv, suspend=SUSPEND) as consumer:
        (found,) = await total_of(consumer, 1)
    assert (found.body, found.tags, found.keys, found.flag) == (bytes(5000), "a", ("k1", "k2"), 9)
    assert found.user_properties["own"] == "v"
    assert (found.msg_id, found.transaction_id, found.queue) == (
        sent.msg_id,
        sent.msg_id,
        sent.queue,
    )


@asynchronous
async def test_what_is_left_unknown_is_asked_for(cluster: Cluster, topic: str, group: str) -> None:
    asked: list[bytes] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        if message.body == b"at the second check" and asked.count(message.body) == 1:
            raise LookupError("the database is not there")
        return (
            TransactionState.ROLLBACK if message.body == b"rolled back" else TransactionState.COMMIT
        )

    async with TransactionProducer(group, checker=check, namesrv=cluster.namesrv) as producer:
        for body in (b"committed", b"rolled back", b"at the second check"):
            async with producer.transaction(Message(topic, body)) as transaction:
                transaction.leave_unknown()
        with pytest.raises(asyncio.CancelledError):
            async with producer.transaction(Message(topic, b"cancelled")) as transaction:
                raise asyncio.CancelledError
        assert transaction.state is TransactionState.UNKNOWN
        assert await bodies(cluster, group, topic, 3) == [
            b"at the second check",
            b"cancelled",
            b"committed",
        ]
    assert sorted(asked) == [b"at the second check"] * 2 + [
        b"cancelled",
        b"committed",
        b"rolled back",
    ]


@asynchronous
async def test_the_callback_decides(cluster: Cluster, topic: str, group: str) -> None:
    threads: set[str] = set()

    def check(_message: MessageExt) -> TransactionState:
        threads.add(threading.current_thread().name)
        return TransactionState.COMMIT

    async def execute(message: Message) -> TransactionState:
        if message.body == b"fails":
            raise OSError("no database")
        return TransactionState[message.body.decode()]

    async with TransactionProducer(group, checker=check, namesrv=cluster.namesrv) as producer:
        for state in TransactionState:
            result = await producer.send_in_transaction(
                Message(topic, state.name.encode()), execute
            )
            assert result.state is state
        with pytest.raises(OSError, match="no database"):
            await producer.send_in_transaction(Message(topic, b"fails"), execute)
        assert await bodies(cluster, group, topic, 3) == [b"COMMIT", b"UNKNOWN", b"fails"]
    assert all(name.startswith(f"check-{group}") for name in threads)
    assert threads


@asynchronous
async def test_another_one_of_the_group_answers(cluster: Cluster, topic: str, group: str) -> None:
    async with TransactionProducer(group, checker=nobody, namesrv=cluster.namesrv) as gone:
        transaction = gone.transaction(Message(topic, b"orphan"))
        await transaction.begin()

    async def check(_message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT

    # one that has sent nothing yet
    async with TransactionProducer(group, checker=check, namesrv=cluster.namesrv):
        assert await bodies(cluster, group, topic, 1) == [b"orphan"]


@asynchronous
async def test_a_delay_has_to_be_allowed(cluster: Cluster, topic: str, group: str) -> None:
    message = Message(topic, b"later", delay_level=1)
    async with TransactionProducer(group, checker=nobody, namesrv=cluster.namesrv) as producer:
        with pytest.raises(MessageError, match="allow_delay"):
            async with producer.transaction(message):
                pass
    async with TransactionProducer(
        group, checker=nobody, namesrv=cluster.namesrv, allow_delay=True
    ) as producer:
        async with producer.transaction(message):
            pass
        assert await bodies(cluster, group, topic, 1) == [b"later"]


def test_without_asyncio(cluster: Cluster, topic: str, group: str) -> None:
    decided = threading.Event()

    def check(_message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT if decided.is_set() else TransactionState.UNKNOWN

    with aiorocketmq.sync.TransactionProducer(
        group, checker=check, namesrv=cluster.namesrv
    ) as producer:
        with producer.transaction(Message(topic, b"committed")) as transaction:
            assert transaction.msg_id == transaction.sent.msg_id
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"failed")):
            _ = 1 / 0
        assert producer.send_in_transaction(
            Message(topic, b"called"), lambda _: TransactionState.COMMIT
        ).sent.msg_id
        with producer.transaction(Message(topic, b"unknown")) as transaction:
            transaction.leave_unknown()
        decided.set()
        assert asyncio.run(bodies(cluster, group, topic, 3)) == [
            b"called",
            b"committed",
            b"unknown",
        ]
        assert transaction.state is TransactionState.UNKNOWN


@asynchronous
async def test_a_producer_that_stops_is_not_asked_any_more(
    cluster: Cluster, topic: str, group: str
) -> None:
    asked: list[bytes] = []

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        return TransactionState.UNKNOWN

    async with TransactionProducer(group, checker=check, namesrv=cluster.namesrv) as producer:
        async with producer.transaction(Message(topic, b"x")) as transaction:
            transaction.leave_unknown()
        await until(lambda: asked, "the broker asks")
        assert group in producer.instance.checkers
    assert group not in producer.instance.checkers


def test_a_small_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -m benchmarks.transactions``, whose brokers start quickly."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", forked.create_subprocess_exec)
    code = run_program(
        "transactions",
        transactions(Options(250, restarts=2, seed=1, check_interval_ms=150, max_checks=15)),
    )
    out, errors = capsys.readouterr()
    assert (code, errors) == (0, ""), out
    assert re.search(r"^\d+ transactions in .* 2 restarts, 1 of them kills$", out, re.MULTILINE)
    assert "\nGOOD: every transaction ended as its producer's log says" in out


def plan(number: int, kind: Kind, decision: int) -> Plan:
    return Plan(number, kind, decision, 1)


def test_the_ledger_sees_what_is_wrong() -> None:
    made = [
        plan(0, Kind.COMMIT, COMMIT),
        plan(1, Kind.ROLLBACK, ROLLBACK),
        plan(2, Kind.SILENCE, UNKNOWN),
        plan(3, Kind.LATE, COMMIT),
    ]
    good = judge(made, {9}, {0: 1, 3: 2, 9: 1}, {2: 1})
    assert (good.problems, good.delivered, good.repeated.total(), good.given_up) == ([], 4, 1, 1)
    assert len(judge(made, (), {1: 1, 7: 1}, {0: 1, 2: 2}).problems) == 6
    assert {each.kind for each in plans(1000, 1)} == set(Kind)
    assert plans(50, 3) == plans(50, 3)
