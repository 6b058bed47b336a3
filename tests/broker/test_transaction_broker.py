"""Transactions at a broker, over the wire of a simulated connection (``broker-services.md`` §5,
``headers.md`` §A.8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType, MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult, PutStatus

from ..sim import turns
from .sim_broker import SimBroker, SimClient, store_config
from .transaction_scenes import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    asked,
    checked,
    end,
    half,
    play,
    stored,
    word,
)


def test_how_many_are_undecided_is_told(tmp_path: Path) -> None:
    """Who takes a broker out of service waits for that: a copy that was asked about is no other."""

    async def told(client: SimClient) -> str | None:
        body = (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check().body
        return decode_body(KVTable, body).table.get("undecidedHalfMessages")

    async def scene(world: SimBroker, client: SimClient) -> None:
        assert await told(client) is None
        first, second = await half(world, client, "A"), await half(world, client, "B")
        assert await told(client) == "2"
        await checked(world)
        assert await told(client) == "2"
        await end(client, first, COMMIT, msg_id="A")
        assert await told(client) == "1"
        await end(client, second, ROLLBACK, msg_id="B")
        assert await told(client) is None

    play(tmp_path, scene)


def test_a_half_message_is_an_ordinary_message_of_the_half_topic(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        again = await half(world, client, queue_id=3)
        assert (sent.queue_id, sent.queue_offset, again.queue_id, again.queue_offset) == (
            1,
            0,
            3,
            1,
        )
        assert stored(world, "T", 1) == []
        message = stored(world, HALF)[0]
        assert message.offset_msg_id == sent.msg_id
        assert message.properties == {
            "TAGS": "a", "TRAN_MSG": "true", "UNIQ_KEY": "K", "WAIT": "true", "PGROUP": "pg",
            "CLUSTER": "C", "REAL_TOPIC": "T", "REAL_QID": "1",
        }  # fmt: skip
        assert (message.sys_flag, message.flag, message.prepared_transaction_offset) == (0, 7, 0)
        assert "T" in world.broker.state.topics
        topic = world.broker.state.topics.get(HALF)
        assert topic is not None
        assert (topic.perm, topic.read_queue_nums, topic.put_nums) == (6, 1, 2)

    play(tmp_path, scene)


def test_nobody_forges_where_a_half_message_goes(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client, more="\x02REAL_TOPIC\x01Secret\x02REAL_QID\x019")
        await end(client, sent, COMMIT)
        assert [m.body for m in stored(world, "T", 1)] == [b"body K"]
        assert stored(world, "Secret", 9) == []

    play(tmp_path, scene)


@pytest.mark.parametrize("value", ["TRUE", "True"])
def test_the_mark_is_read_as_java_does(tmp_path: Path, value: str) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for number, properties in enumerate(
            (f"TRAN_MSG\x01{value}", "TRAN_MSG\x01false\x02TRAN_MSG\x01true")
        ):
            await half(world, client, properties=properties + "\x02PGROUP\x01pg")
            assert len(stored(world, HALF)) == number + 1
        await half(world, client, properties="TRAN_MSG\x01true\x02TRAN_MSG\x01no", sys_flag=0)
        assert len(stored(world, HALF)) == 2
        assert len(stored(world, "T", 1)) == 1

    play(tmp_path, scene)


def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        header = SendMessageRequest(
            producer_group="pg", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=0, sys_flag=4,
            born_timestamp=1, flag=0, properties="TRAN_MSG\x01true",
        )  # fmt: skip
        answer = await client.ask(RequestCode.SEND_MESSAGE, header, b"x")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
        assert stored(world, HALF) == []

    play(tmp_path, scene, reject_transaction_message=True)


# -- the end


def test_commit_stores_the_message_and_an_op(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await end(client, sent, COMMIT)
        [half_message], [message], [op] = (
            stored(world, HALF),
            stored(world, "T", 1),
            stored(world, OP),
        )
        assert message.raw_properties == half_message.raw_properties
        assert (message.body, message.flag, message.sys_flag) == (
            b"body K",
            7,
            MessageSysFlag.TRANSACTION_COMMIT,
        )
        assert message.prepared_transaction_offset == half_message.commit_log_offset
        assert (message.born_timestamp, message.born_host) == (
            half_message.born_timestamp,
            half_message.born_host,
        )
        assert (op.body, op.properties, op.sys_flag, op.born_host) == (
            b"0",
            {"TAGS": "d", "WAIT": "true"},
            0,
            "127.0.0.1:10911",
        )
        topic = world.broker.state.topics.get("T")
        assert topic is not None
        assert topic.put_nums == 1
        assert OP not in world.broker.state.topics
        assert world.broker.store.get("T", 1, 0, tags=frozenset({97})).count == 1

    play(tmp_path, scene)


def test_a_commit_to_a_topic_that_was_deleted_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        world.broker.state.topics.delete("T")
        await end(client, sent, COMMIT)
        assert len(stored(world, "T", 1)) == 1
        assert "in a topic that was deleted" in caplog.text

    play(tmp_path, scene)


@pytest.mark.parametrize("more", ["", "\x02KEYS\x01a b", "\x02WAIT\x01false"])
def test_what_is_remembered_of_a_half_message_is_what_is_stored(tmp_path: Path, more: str) -> None:
    """The end of a transaction reads its half message only when it is not one of the last."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        first, second = (
            await half(world, client, more=more),
            await half(world, client, "L", more=more, queue_id=2),
        )
        log = world.broker.storage.transactions
        remembered = [log.take(0), log.take(1)]
        assert remembered == [log.take(0), log.take(1)]
        assert None not in remembered
        for sent, queue_id in ((first, 1), (second, 2)):
            await end(client, sent, COMMIT)
            assert len(stored(world, "T", queue_id)) == 1

    play(tmp_path, scene)


def test_a_half_queue_that_begins_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        assert at_once(world.broker.store.delete_topic_in_slices(HALF))
        sent = await half(world, client, "L" * 3000)
        assert sent.queue_offset == 0
        await end(client, sent, COMMIT)
        [message] = stored(world, "T", 1)
        assert message.body == b"body " + b"L" * 3000

    play(tmp_path, scene)


def test_rollback_stores_an_op_only(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        await end(client, await half(world, client), ROLLBACK)
        assert [op.body for op in stored(world, OP)] == [b"1"]
        assert stored(world, "T", 1) == []
        assert world.broker.storage.transactions.halves.undecided == 1

    play(tmp_path, scene)


def test_unknown_is_not_answered(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        silence = asyncio.ensure_future(
            client.ask(RequestCode.END_TRANSACTION, word(sent, UNKNOWN))
        )
        await end(
            client, await half(world, client), ROLLBACK
        )  # answered, though it was asked later
        assert not silence.done()
        silence.cancel()
        assert len(stored(world, OP)) == 1

    play(tmp_path, scene)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"commit_or_rollback": 4}, "commitOrRollback field wrong: 4 is none of"),
    ({"commit_log_offset": 1}, "Find prepared transaction message failed"),
    ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
    ({"commit_log_offset": 1 << 40}, "Find prepared transaction message failed"),
    ({"producer_group": "other"}, "The producer group wrong"),
    ({"tran_state_table_offset": 5}, "The transaction state table offset wrong"),
]


@pytest.mark.parametrize(("changed", "remark"), WRONG)
def test_a_word_about_something_else_is_refused(
    tmp_path: Path, changed: dict[str, Any], remark: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        answer = await client.ask(RequestCode.END_TRANSACTION, word(sent, COMMIT, **changed))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(remark)
        assert stored(world, "T", 1) == stored(world, OP) == []

    play(tmp_path, scene)


def test_only_half_messages_are_committed(tmp_path: Path) -> None:
    """Neither an ordinary message nor what looks like a half message in the body of one."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        plain = await client.send("T", b"x", properties="PGROUP\x01pg")
        answer = await client.ask(RequestCode.END_TRANSACTION, word(plain, COMMIT))
        assert answer.remark == "Find prepared transaction message failed"
        await half(world, client)
        record = bytearray(world.broker.store.get(HALF, 0, 0).body)
        at = world.broker.store.max_phy_offset + 88
        record[28:36] = at.to_bytes(8, "big")
        forged = await client.send("T", bytes(record))
        phy_offset = parse_offset_message_id(forged.msg_id).phy_offset + 88
        assert decode_record(world.broker.store.message_by_offset(phy_offset) or b"").topic == HALF
        answer = await client.ask(
            RequestCode.END_TRANSACTION, word(forged, COMMIT, commit_log_offset=phy_offset)
        )
        assert answer.remark == "Find prepared transaction message failed"

    play(tmp_path, scene)


def test_everything_that_is_stored_counts_for_the_store(tmp_path: Path) -> None:
    """Ops and copies too, as in the original, though they are no messages of any producer."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        stats = world.broker.monitoring.stats
        await end(client, await half(world, client, "K1"), COMMIT)
        assert (stats.put_messages, stats.all_messages) == (2, 3)
        await half(world, client, "K2")
        await checked(world)
        world.broker.settings.broker.transaction_check_max = 1
        await checked(world)
        records = sum(
            len(stored(world, topic, queue))
            for topic, queue in ((HALF, 0), (OP, 0), ("T", 1), (GIVEN_UP, 0))
        )
        assert (stats.all_messages, stats.all_bytes) == (records, world.broker.store.max_phy_offset)

    play(tmp_path, scene)


def test_a_word_that_is_said_twice_counts_once(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        await end(client, sent, COMMIT)
        await end(client, sent, COMMIT)
        await end(client, sent, ROLLBACK)
        assert len(stored(world, "T", 1)) == len(stored(world, OP)) == 1

    play(tmp_path, scene)


def test_a_slave_ends_nothing(tmp_path: Path) -> None:
    sent: list[SendMessageResponse] = []

    async def as_master(world: SimBroker, client: SimClient) -> None:
        sent.append(await half(world, client))

    async def as_slave(_world: SimBroker, client: SimClient) -> None:
        answer = await client.ask(RequestCode.END_TRANSACTION, word(sent[0], COMMIT))
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE

    config = MessageStoreConfig(
        store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20
    )
    play(tmp_path, as_master, store=config)
    play(tmp_path, as_slave, store=replace(config, broker_role=BrokerRole.SLAVE))


def test_a_full_store_refuses_and_keeps_the_half_message(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client)
        writer = world.broker.store._writer
        writer.refusal = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark="the disk is full")
        for decision in (COMMIT, ROLLBACK):
            answer = await client.ask(RequestCode.END_TRANSACTION, word(sent, decision))
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert answer.remark == "Service not available now. the disk is full"
        await checked(world)
        writer.refusal = None
        assert world.broker.storage.transactions.halves.undecided == 1
        await checked(world)
        assert len(asked(client)) == 1

    play(tmp_path, scene)


def test_a_delay_counts_from_the_commit_on(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(world, client, more="\x02DELAY\x013")
        assert len(stored(world, HALF)) == 1
        world.clock.advance(5)
        await end(client, sent, COMMIT)
        [waiting] = stored(world, "SCHEDULE_TOPIC_XXXX", 2)
        assert (waiting.properties["REAL_TOPIC"], waiting.properties["REAL_QID"]) == ("T", "1")
        assert waiting.sys_flag == MessageSysFlag.TRANSACTION_COMMIT
        [(_, _, due)] = world.broker.store.entries.some("SCHEDULE_TOPIC_XXXX", 2, 0, 1) or []
        assert due == world.clock.time_ms() + 10_000

    play(tmp_path, scene)


def test_a_delay_that_is_no_number_does_not_hold_a_commit(tmp_path: Path) -> None:
    """Ours refuses such a half message, a Java broker whose store this was stored it."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        properties = b"PGROUP\x01pg\x02DELAY\x01soon\x02REAL_TOPIC\x01T\x02REAL_QID\x011"
        result = world.broker.store.put_message(
            PutMessage(HALF, 0, b"body K", properties, bytes(8), 0, world.clock.time_ms())
        )
        world.broker.storage.transactions.halves.added(result.queue_offset)
        message_id = world.broker.store.message_id(result.phy_offset)
        await end(
            client,
            SendMessageResponse(msg_id=message_id, queue_id=1, queue_offset=result.queue_offset),
            COMMIT,
        )
        assert [m.body for m in stored(world, "T", 1)] == [b"body K"]

    play(tmp_path, scene)


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        sent = await half(
            world, client, properties="TRAN_MSG\x01true\x02PGROUP\x01pg\x02WAIT\x01false"
        )
        await end(client, sent, COMMIT)  # does not wait
        store = world.broker.store
        flushing = asyncio.ensure_future(store.run())
        sent = await half(world, client)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        written = store.max_phy_offset
        ending = asyncio.ensure_future(end(client, sent, COMMIT))
        while store.max_phy_offset == written:
            await asyncio.sleep(0)
        await turns()
        assert not ending.done()
        flushing = asyncio.ensure_future(store.run())
        await ending
        assert store.flushed_offset >= stored(world, "T", 1)[1].commit_log_offset
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    config = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    play(tmp_path, scene, store=config)


# -- checks
