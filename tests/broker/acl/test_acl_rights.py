"""Every request that a broker serves, and the right it needs: refused without it, served with it
alone."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from aiorocketmq.broker.acl.permissions import AccessTable, AclError, AclFile
from aiorocketmq.broker.acl.resources import LISTS_COUNT, needs_of_requests
from aiorocketmq.broker.processors.acl import AclGuard
from aiorocketmq.remoting.dispatch import Dispatcher, Handler, Reply
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.lock import LockBatchRequestBody, UnlockBatchRequestBody
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.message_id import offset_message_id, pack_host
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.signature import Credentials, signed
from aiorocketmq.store.model.put import PutMessage

from ..accounts import home
from ..sim_broker import SimBroker, SimClient, sim_broker
from .test_acl_requests import refusal_of

ADMIN = "administrator"
ANYBODY = "anybody"
SOME_RIGHT = "topic:T=PUB|topic:T=SUB"
HOST = pack_host("127.0.0.1", 10911)
TESTED, NOBODY, ROOT, NARROW = (
    Credentials(name, "some-secret")
    for name in ("the-tested", "the-nobody", "the-root", "narrow-root")
)


class Row(NamedTuple):
    """``needs``: the rights that are needed together, ``topic:T=SUB``; alternatives are joined by
    ``|``."""

    fields: dict[str, str]
    needs: tuple[str, ...]
    body: bytes = b""


def to_send(topic: str = "T", **more: str) -> dict[str, str]:
    return {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1",
        "flag": "0",
        **more,
    }


def to_send_v2(topic: str = "T") -> dict[str, str]:
    return {
        "a": "p",
        "b": topic,
        "c": "TBW102",
        "d": "1",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "m": "false",
    }


WANTED = SubscriptionData(topic="T", sub_string="*", sub_version=1)
QUEUE = {"topic": "T", "queueId": "0"}
PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "0",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
}
OF_GROUP = {"consumerGroup": "g"}
READS = ("topic:T=SUB", "group:g=SUB")
LOCK = {"consumer_group": "g", "client_id": "c", "mq_set": (MessageQueue("T", "b", 0),)}

Code = RequestCode
ROWS: dict[RequestCode, Row] = {
    Code.SEND_MESSAGE: Row(to_send(), ("topic:T=PUB",), b"x"),
    Code.SEND_MESSAGE_V2: Row(to_send_v2(), ("topic:T=PUB",), b"x"),
    Code.SEND_BATCH_MESSAGE: Row(to_send_v2(), ("topic:T=PUB",), b"x"),
    Code.SEND_REPLY_MESSAGE: Row(to_send(), ("topic:T=PUB",), b"x"),
    Code.SEND_REPLY_MESSAGE_V2: Row(to_send_v2(), ("topic:T=PUB",), b"x"),
    Code.PULL_MESSAGE: Row(PULL, READS),
    Code.LITE_PULL_MESSAGE: Row(PULL, READS),
    Code.QUERY_MESSAGE: Row(
        {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"},
        ("topic:T=SUB",),
    ),
    Code.QUERY_CONSUMER_OFFSET: Row(OF_GROUP | QUEUE, READS),
    Code.UPDATE_CONSUMER_OFFSET: Row(OF_GROUP | QUEUE | {"commitOffset": "1"}, READS),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Row(QUEUE | {"timestamp": "1"}, (SOME_RIGHT,)),
    Code.GET_MAX_OFFSET: Row(QUEUE, (SOME_RIGHT,)),
    Code.GET_MIN_OFFSET: Row(QUEUE, (SOME_RIGHT,)),
    Code.GET_EARLIEST_MSG_STORETIME: Row(QUEUE, (SOME_RIGHT,)),
    Code.VIEW_MESSAGE_BY_ID: Row({"offset": "0"}, ("topic:T=SUB",)),
    Code.CONSUMER_SEND_MSG_BACK: Row({"offset": "0", "group": "g", "delayLevel": "0"}, READS),
    Code.END_TRANSACTION: Row(
        {
            "producerGroup": "p",
            "tranStateTableOffset": "0",
            "commitLogOffset": "{half}",
            "commitOrRollback": "12",
            "msgId": "i",
        },
        ("topic:T=PUB",),
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: Row(
        OF_GROUP | {"clientId": "c", "msgId": offset_message_id(HOST, 0)}, READS
    ),
    Code.HEART_BEAT: Row(
        {},
        READS,
        encode_body(
            HeartbeatData(
                client_id="c",
                consumer_data_set=(ConsumerData(group_name="g", subscription_data_set=(WANTED,)),),
            )
        ),
    ),
    Code.CHECK_CLIENT_CONFIG: Row(
        {},
        READS,
        encode_body(CheckClientRequestBody(client_id="c", group="g", subscription_data=WANTED)),
    ),
    Code.UNREGISTER_CLIENT: Row({"clientID": "c"} | OF_GROUP, ("group:g=SUB",)),
    Code.GET_CONSUMER_LIST_BY_GROUP: Row(OF_GROUP, ("group:g=SUB",)),
    Code.LOCK_BATCH_MQ: Row({}, READS, encode_body(LockBatchRequestBody(**LOCK))),  # type: ignore[arg-type]
    Code.UNLOCK_BATCH_MQ: Row({}, READS, encode_body(UnlockBatchRequestBody(**LOCK))),  # type: ignore[arg-type]
    Code.GET_TOPIC_STATS_INFO: Row({"topic": "T"}, (SOME_RIGHT,)),
    Code.GET_TOPIC_CONFIG: Row({"topic": "T"}, (SOME_RIGHT,)),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Row({"topic": "T"}, (SOME_RIGHT,)),
    Code.GET_CONSUMER_CONNECTION_LIST: Row(OF_GROUP, ("group:g=SUB",)),
    Code.GET_CONSUMER_RUNNING_INFO: Row(OF_GROUP | {"clientId": "c"}, ("group:g=SUB",)),
    Code.GET_CONSUME_STATS: Row(OF_GROUP | {"topic": "T"}, READS),
    Code.QUERY_CONSUME_TIME_SPAN: Row({"topic": "T", "group": "g"}, READS),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Row(
        {"topic": "T", "group": "g", "timestamp": "1", "isForce": "true"}, READS
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Row({"topic": "T", "group": "g"}, READS),
    Code.QUERY_CORRECTION_OFFSET: Row({"topic": "T", "compareGroup": "g"}, READS),
    Code.CLONE_GROUP_OFFSET: Row(
        {"srcGroup": "other", "destGroup": "g", "topic": "T"},
        ("group:other=SUB", "group:g=SUB", "topic:T=SUB"),
    ),
    Code.QUERY_CONSUME_QUEUE: Row(QUEUE | {"index": "0", "count": "1"}, ("topic:T=SUB",)),
    Code.GET_BROKER_RUNTIME_INFO: Row({}, (ANYBODY,)),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Row({}, (ANYBODY,)),
    Code.HEALTH: Row({}, (ANYBODY,)),
    Code.SEND_SEQUENCE_HELLO: Row({"producerId": "a", "epoch": "0"}, ("topic:T=PUB",)),
    Code.UPDATE_AND_CREATE_TOPIC: Row(
        {
            "topic": "T",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
        },
        (ADMIN,),
    ),
    Code.DELETE_TOPIC_IN_BROKER: Row({"topic": "T"}, (ADMIN,)),
    Code.DELETE_SUBSCRIPTIONGROUP: Row({"groupName": "g"}, (ADMIN,)),
    Code.GET_QUEUE_ENDS: Row({"begin": "0"}, (ADMIN,)),
    Code.GET_PRODUCER_CONNECTION_LIST: Row({"producerGroup": "p"}, (ADMIN,)),
    Code.VIEW_BROKER_STATS_DATA: Row({"statsName": "s", "statsKey": "k"}, (ADMIN,)),
    Code.GET_BROKER_CONSUME_STATS: Row({"isOrder": "false"}, (ADMIN,)),
    Code.RESUME_CHECK_HALF_MESSAGE: Row({"msgId": "i"}, (ADMIN,)),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Row({"accessKey": "a"}, (ADMIN,)),
    Code.DELETE_ACL_CONFIG: Row({"accessKey": "a"}, (ADMIN,)),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Row({"globalWhiteAddrs": "*"}, (ADMIN,)),
    **dict.fromkeys(
        (
            Code.UPDATE_BROKER_CONFIG,
            Code.GET_BROKER_CONFIG,
            Code.GET_ALL_TOPIC_CONFIG,
            Code.GET_ALL_CONSUMER_OFFSET,
            Code.GET_ALL_DELAY_OFFSET,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            Code.GET_BROKER_CLUSTER_ACL_INFO,
            Code.GET_ALL_PRODUCER_INFO,
            Code.CLEAN_EXPIRED_CONSUMEQUEUE,
            Code.CLEAN_UNUSED_TOPIC,
            Code.DELETE_EXPIRED_COMMITLOG,
        ),
        Row({}, (ADMIN,)),
    ),
}
"""A message for T lies at 0, a half message for T at {half}."""


def accounts(*rights: str) -> AccessTable:
    """One with these rights and no others, one with none, administrators with and without lists."""
    topics, groups = (
        [r.partition(":")[2] for r in rights if r.startswith(kind)] for kind in ("topic:", "group:")
    )
    common = {"secretKey": "some-secret"}
    content = [
        {**common, "accessKey": TESTED.access_key, "topicPerms": topics, "groupPerms": groups},
        {**common, "accessKey": NOBODY.access_key, "topicPerms": ["T=DENY"]},
        {**common, "accessKey": ROOT.access_key, "admin": "true"},
        {**common, "accessKey": NARROW.access_key, "admin": "true", "topicPerms": ["Nothing=DENY"]},
    ]
    return AccessTable([AclFile("accounts.yml", {"accounts": content})])


class Guarded(NamedTuple):
    """A broker whose handlers are done with everything at once."""

    world: SimBroker
    client: SimClient
    served: set[RequestCode]
    half: int

    async def refusal(
        self, who: Credentials, code: RequestCode, row: Row | None = None
    ) -> str | None:
        """What ACL has against it."""
        row = row or ROWS[code]
        fields = {name: value.format(half=self.half) for name, value in row.fields.items()}
        sent = signed(who, fields, row.body)
        return refusal_of(
            await self.client.connection.invoke(code, None, row.body, timeout=10, ext_fields=sent)
        )

    def rights_are(self, *rights: str) -> None:
        assert self.world.broker.access.acl is not None
        self.world.broker.access.acl.table = accounts(*rights)

    def put(self, topic: str, properties: str = "", body: bytes = b"x") -> int:
        place = (topic, 0, body, properties.encode(), b"\x7f\0\0\1\0\0\0\1", 1, 1)
        return self.world.broker.store.put_message(PutMessage(*place)).phy_offset


@asynccontextmanager
async def guarded(folder: Path, **properties: Any) -> AsyncIterator[Guarded]:
    async with sim_broker(
        folder / "s", acl_enable=True, rocketmq_home=str(home(folder, "")), **properties
    ) as world:
        handlers: dict[RequestCode, Handler] = dict.fromkeys(
            world.broker.table, lambda _request, _body, _ctx: Reply()
        )
        world.owner.dispatcher = Dispatcher(handlers, guard=world.broker.guard)
        broker = Guarded(world, world.connect(), set(handlers), 0)
        assert broker.put("T") == 0
        yield broker._replace(half=broker.put("RMQ_SYS_TRANS_HALF_TOPIC", "REAL_TOPIC\x01T\x02"))


def asynchronous(test: Callable[[Path], Coroutine[None, None, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


@asynchronous
async def test_no_request_is_without_a_row(tmp_path: Path) -> None:
    """Who adds one says what it needs: here, and in acl_resources.py."""
    async with guarded(tmp_path) as broker:
        assert (
            broker.served == set(ROWS) == set(needs_of_requests(lambda _: None, compatible=False))
        )


@asynchronous
async def test_every_request_needs_its_right_and_no_more(tmp_path: Path) -> None:
    async with guarded(tmp_path) as broker:
        for code, row in ROWS.items():
            needs = [tuple(need.split("|")) for need in row.needs if need not in (ADMIN, ANYBODY)]
            for enough in product(*needs):  # of alternatives any
                broker.rights_are(*enough)
                expected = (
                    f"Need admin permission for request code={int(code)}"
                    if ADMIN in row.needs
                    else None
                )
                found = await broker.refusal(TESTED, code)
                assert found == expected or (found or "").startswith(expected or "?"), (
                    code,
                    enough,
                )
                for left_out in enough:
                    broker.rights_are(*(right for right in enough if right != left_out))
                    assert "No default permission for" in (
                        await broker.refusal(TESTED, code) or ""
                    ), (code, left_out)
            assert (await broker.refusal(NOBODY, code) is None) == (ANYBODY in row.needs), code
            assert await broker.refusal(ROOT, code) is None, code
            assert (await broker.refusal(NARROW, code) is not None) == (
                bool(needs) and code in LISTS_COUNT
            ), code


@asynchronous
async def test_a_producer_may_begin_where_it_may_send_to_any_topic(tmp_path: Path) -> None:
    """It takes a place among those of all producers."""
    row = ROWS[Code.SEND_SEQUENCE_HELLO]
    async with guarded(tmp_path) as broker:
        for rights, may in (
            (("topic:T=SUB", "group:g=PUB"), False),  # no message goes there
            (("topic:T=SUB", "topic:U=SUB|PUB"), True),
            (("topic:T=DENY",), False),
        ):
            broker.rights_are(*rights)
            found = await broker.refusal(TESTED, Code.SEND_SEQUENCE_HELLO, row)
            assert (found is None) is may, rights
        assert await broker.refusal(NOBODY, Code.SEND_SEQUENCE_HELLO, row) is not None


def test_a_default_to_send_counts() -> None:
    for default, may in (("PUB", True), ("PUB|SUB", True), ("SUB", False), ("DENY", False)):
        entry = {
            "accessKey": TESTED.access_key,
            "secretKey": TESTED.secret_key,
            "defaultTopicPerm": default,
            "topicPerms": ["T=DENY"],
        }
        table = AccessTable([AclFile("accounts.yml", {"accounts": [entry]})])
        try:
            table.accounts[TESTED.access_key].check_sender()
            assert may, default
        except AclError:
            assert not may, default


@asynchronous
async def test_compatible_is_as_open_as_the_original(tmp_path: Path) -> None:
    """But for accounts, batches, replies and transactions, which were closed before."""
    async with guarded(tmp_path, acl_compatible=True) as broker:
        broker.rights_are("group:g=SUB")
        opened = {code for code in ROWS if await broker.refusal(NOBODY, code) is None}
        checked = {10, 310, 36, 11, 361, 12, 34, 35, 38, 15, 17, 25, 200, 207, 215}
        checked |= {50, 51, 53, 320, 324, 325, 37, 18, 225, 9100}
        assert opened == {code for code in ROWS if code not in checked}
        assert await broker.refusal(TESTED, Code.CONSUMER_SEND_MSG_BACK) is None, (
            "the topic is not asked for"
        )


@asynchronous
async def test_a_request_without_a_row_is_for_administrators(tmp_path: Path) -> None:
    async with guarded(tmp_path) as broker:
        guard = broker.world.broker.guard
        assert isinstance(guard, AclGuard)
        guard._needs = {}
        broker.rights_are("topic:T=PUB")
        assert "Need admin permission" in (await broker.refusal(TESTED, Code.SEND_MESSAGE) or "")
        assert await broker.refusal(ROOT, Code.SEND_MESSAGE) is None


@asynchronous
async def test_messages_on_their_way_belong_to_the_topic_they_are_for(tmp_path: Path) -> None:
    async with guarded(tmp_path) as broker:
        delayed = broker.put("SCHEDULE_TOPIC_XXXX", "REAL_TOPIC\x01Secret\x02")
        retried = broker.put("%RETRY%other", "RETRY_TOPIC\x01T\x02REAL_TOPIC\x01T\x02")
        broker.rights_are("topic:T=SUB", "topic:SCHEDULE_TOPIC_XXXX=SUB", "group:g=SUB")
        for at, expected in (
            (delayed, "topic:Secret"),
            (retried, "group:other"),
            (0, None),
            (1 << 40, None),
        ):
            text = None if expected is None else f"No default permission for {expected}"
            for code, fields in (
                (Code.VIEW_MESSAGE_BY_ID, {"offset": str(at)}),
                (Code.CONSUMER_SEND_MSG_BACK, {"offset": str(at), "group": "g", "delayLevel": "0"}),
                (
                    Code.CONSUME_MESSAGE_DIRECTLY,
                    OF_GROUP | {"clientId": "c", "msgId": offset_message_id(HOST, at)},
                ),
            ):
                assert await broker.refusal(TESTED, code, Row(fields, ())) == text, (code, at)


@asynchronous
async def test_a_record_that_somebody_made_is_none(tmp_path: Path) -> None:
    """It lies in a body, names a topic that its maker may read, and goes on over the messages
    behind it."""
    async with guarded(tmp_path) as broker:
        store = broker.world.broker.store
        real = store.message_by_offset(0)
        assert real is not None
        begin = store.max_phy_offset + real.index(b"x")  # of the body of the next message
        made = bytearray(real)
        struct.pack_into(">q", made, 28, begin)
        at = broker.put("T", body=bytes(made)) + real.index(b"x")
        assert (at, store.message_by_offset(at)) == (begin, bytes(made)), "it looks like one"
        broker.rights_are("topic:T=SUB")
        row = Row({"offset": str(at)}, ())
        assert "no queue knows" in (
            await broker.refusal(TESTED, Code.VIEW_MESSAGE_BY_ID, row) or ""
        )
        assert await broker.refusal(ROOT, Code.VIEW_MESSAGE_BY_ID, row) is None


@asynchronous
async def test_topics_that_a_message_names_for_itself(tmp_path: Path) -> None:
    async with guarded(tmp_path) as broker:
        row = Row(to_send(properties="INNER_MULTI_DISPATCH\x01%LMQ%a,Secret\x02"), (), b"x")
        broker.rights_are("topic:T=PUB", "topic:%LMQ%a=PUB")
        assert (
            await broker.refusal(TESTED, Code.SEND_MESSAGE, row)
            == "No default permission for topic:Secret"
        )
        broker.rights_are("topic:T=PUB", "topic:%LMQ%a=PUB", "topic:Secret=PUB")
        assert await broker.refusal(TESTED, Code.SEND_MESSAGE, row) is None
