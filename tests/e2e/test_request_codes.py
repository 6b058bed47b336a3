"""Every request that the broker serves, over a real socket: its documented good answer and each
documented error.

The rows stand in ``request_code_rows``. Three brokers serve them: a master, its slave, and one with
access control.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.assembly.ports import NOT_ON_VIP
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode as Code
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.fastjson.reader import loads
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.protocol.wire import fields_of
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.signature import Credentials
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient
from tests.stored import decode_messages

from ..house.test_request_codes import BROKER, BROKER_OF_5
from .cluster import Cluster, until
from .request_code_rows import (
    END,
    GROUP,
    KEY,
    LOCK,
    MQ,
    NEW_TOPIC,
    PULL,
    QUEUE,
    ROWS,
    SEND,
    SUB,
    TRANSACTION,
    Row,
    T,
)

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
ACCOUNTS = """\
accounts:
  - {accessKey: the-admin, secretKey: admin-secret, admin: true}
  - {accessKey: the-leaver, secretKey: leaver-secret}
"""
ADMIN = Credentials("the-admin", "admin-secret")
NORMAL = (
    "brokerPermission=6\nenablePropertyFilter=false\nrejectTransactionMessage=false\n"
    "startAcceptSendRequestTimeStamp=0"
)
"""What rows change."""
OTHERWISE_TESTED = {
    ResponseCode.SYSTEM_BUSY: "needs a slow disk: test_fast_failure",
    ResponseCode.FLUSH_DISK_TIMEOUT: "needs a slow disk: test_replication_service",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "needs a slow slave: test_replication_service",
    ResponseCode.FILTER_DATA_NOT_LATEST: (
        "heartbeats register subscription and filter together: test_filtered_pull"
    ),
    ResponseCode.CONSUME_MSG_TIMEOUT: "takes 10 s: test_group_offset",
    ResponseCode.SEQUENCE_FENCED: "test_sequenced_send",
    ResponseCode.SEQUENCE_GAP: "test_sequenced_send",
    ResponseCode.SEQUENCE_UNKNOWN: "test_forgotten_sequences",
    ResponseCode.SEQUENCES_FULL: "test_forgotten_sequences",
    ResponseCode.SEQUENCES_NOT_READY: "test_forgotten_sequences",
}
"""Answers that no row has."""
NOT_BY_BROKERS = frozenset(
    {
        4, 15, 18, 200, 201, 202, 203, 204, 205, 208, 215,
    }
)  # fmt: skip
"""Unused codes and those that clients make (``request-codes.md`` §2.2)."""


class World:
    """The brokers by name, an administrator, and clients that are consumers, producers and answer
    what they are asked."""

    def __init__(self, addresses: Mapping[str, str], namesrv: str) -> None:
        self.addresses = addresses
        self.address = addresses["master"]
        self.namesrv = namesrv
        self.ids: dict[str, str] = {}
        self.runner = asyncio.Runner()
        self._stack: list[RemotingClient] = []

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(30):
                return await work()

        return self.runner.run(limited())

    async def client(
        self, table: Mapping[Code, Any] | None = None, credentials: Credentials | None = None
    ) -> RemotingClient:
        client = RemotingClient(
            clock=SystemClock(), dispatcher=Dispatcher(table or {}), credentials=credentials
        )
        await client.start()
        self._stack.append(client)
        return client

    async def prepare(self) -> None:
        self.admin = await self.client()
        self.guard = await self.client(credentials=ADMIN)
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Ordered", "value": "broker-a:4"}
        connection = await self.admin.connection(self.namesrv)
        (await connection.invoke(Code.PUT_KV_CONFIG, None, timeout=20, ext_fields=fields)).check()
        await self._make_topics_and_groups()
        await self._send()
        for group in (GROUP, "g-none", "g-old"):
            for queue_id in range(4):
                commit = {
                    "consumerGroup": group,
                    "topic": T,
                    "queueId": queue_id,
                    "commitOffset": 1,
                }
                await self.good(Code.UPDATE_CONSUMER_OFFSET, commit)
        await self._members()
        await self._give_one_up()
        while (await self.ask(Code.QUERY_MESSAGE, KEY | {"key": "K2"})).code:
            await asyncio.sleep(0.005)  # the index follows some milliseconds behind

    async def _make_topics_and_groups(self) -> None:
        topics = (
            (T, 4, 6),
            ("Sent", 4, 6),
            ("Other", 1, 6),
            ("WriteOnly", 1, 2),
            ("%RETRY%g-ro", 1, 4),
            ("Ordered", 4, 6),
        )
        for name, queues, perm in topics:
            change = {
                "topic": name,
                "readQueueNums": queues,
                "writeQueueNums": queues,
                "perm": perm,
            }
            await self.good(Code.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC | change)
        unusual: dict[str, dict[str, Any]] = {
            "g-off": {"consumeEnable": False}, "g-drop": {"retryQueueNums": 0},
            "g-nobc": {"consumeBroadcastEnable": False},
        }  # fmt: skip
        for name in (GROUP, "g-ro", "g-none", "g-sql", "g-old", *unusual):
            group = {"groupName": name, **unusual.get(name, {})}
            await self.good(
                Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(group).encode()
            )

    async def _send(self) -> None:
        for number in range(2):
            properties = f"UNIQ_KEY\x01U{number}\x02KEYS\x01K{number + 1}\x02TAGS\x01TagA"
            fields = SEND | {"topic": T, "queueId": 0, "properties": properties}
            sent = await self.good(Code.SEND_MESSAGE, fields, b"body %d" % number)
            self.ids.setdefault("first", sent.ext_fields["msgId"])
        self.ids["last"] = self.ids["first"][:16] + f"{2**40:016X}"
        for name in ("half1", "half2"):
            half = (
                await self.good(Code.SEND_MESSAGE, SEND | {"properties": TRANSACTION}, b"half")
            ).ext_fields
            self.ids |= {
                f"{name} number": half["queueOffset"],
                f"{name} position": str(int(half["msgId"][16:], 16)),
            }

    async def _give_one_up(self) -> None:
        """A half message that is too old to be asked for, at the guarded broker."""
        await self.good(Code.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC | {"topic": "Sent"}, at="guarded")
        assert (
            await self.ask(
                Code.SEND_MESSAGE, SEND | {"properties": TRANSACTION}, b"half", at="guarded"
            )
        ).code == 11
        pull = PULL | {"topic": GIVEN_UP, "consumerGroup": GROUP}

        async def is_given_up() -> bool:
            return (await self.ask(Code.PULL_MESSAGE, pull, at="guarded")).code == 0

        await until(is_given_up, "the half message is given up")
        [given_up] = decode_messages((await self.ask(Code.PULL_MESSAGE, pull, at="guarded")).body)
        self.ids["given up"] = given_up.offset_msg_id

    async def _members(self) -> None:
        status = b'{"messageQueueTable":{' + (MQ % 0).encode() + b":5}}"
        pushes = {
            Code.GET_CONSUMER_RUNNING_INFO: lambda *_: Reply(0, body=b"307", remark="as it is"),
            Code.CONSUME_MESSAGE_DIRECTLY: lambda *_: Reply(0, body=b"309", remark="as it is"),
            Code.GET_CONSUMER_STATUS_FROM_CLIENT: lambda *_: Reply(0, body=status),
            Code.PUSH_REPLY_MESSAGE_TO_CLIENT: lambda *_: Reply(),
            Code.RESET_CONSUMER_CLIENT_OFFSET: lambda *_: None,
            Code.NOTIFY_CONSUMER_IDS_CHANGED: lambda *_: None,
        }
        await self._join("member", GROUP, "CLUSTERING", SUB % ("TAG", "*"), pushes)
        await self._join("rude", "g-nobc", "BROADCASTING", SUB % ("TAG", "*"), {})
        await self._join("hopeful", "g-sql", "CLUSTERING", SUB % ("SQL92", "a ="), {})
        await self._join("old", "g-old", "CLUSTERING", SUB % ("TAG", "*"), {}, version=20)

    async def _join(
        self,
        client_id: str,
        group: str,
        model: str,
        subscription: str,
        pushes: Mapping[Code, Any],
        version: int = 409,
    ) -> None:
        client = await self.client(pushes)
        consumer = (
            '{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
            f'"groupName":"{group}","messageModel":"{model}",'
            f'"subscriptionDataSet":[{subscription}],"unitMode":false}}'
        )
        beat = (
            f'{{"clientID":"{client_id}","consumerDataSet":[{consumer}],'
            '"producerDataSet":[{"groupName":"p-codes"}]}'
        )
        connection = await client.connection(self.address)
        command = RemotingCommand(code=Code.HEART_BEAT, version=version)
        connection.send([encode_frame(0, encode_header(command, 0), beat.encode())])
        (
            await connection.invoke(Code.GET_BROKER_CONFIG, None, timeout=20)
        ).check()  # so the heartbeat has been heard

    async def ask(
        self,
        code: Code,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        at: str = "master",
    ) -> Response:
        client = self.guard if at == "guarded" else self.admin
        texts = {name: str(value).lower() if value is True or value is False else str(value)
                 for name, value in (fields or {}).items()}  # fmt: skip
        return await client.invoke(
            self.addresses[at], code, None, body, timeout=20, ext_fields=texts or None
        )

    async def good(
        self,
        code: Code,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        at: str = "master",
    ) -> Response:
        return (await self.ask(code, fields, body, at=at)).check()

    async def answer(self, row: Row) -> Response:
        fields = {
            name: self.ids.get(value, value) if type(value) is str else value
            for name, value in row.fields.items()
        }
        if not row.config:
            return await self.ask(row.code, fields, row.body, at=row.at)
        await self.good(Code.UPDATE_BROKER_CONFIG, body=row.config.encode(), at=row.at)
        try:
            return await self.ask(row.code, fields, row.body, at=row.at)
        finally:
            await self.good(Code.UPDATE_BROKER_CONFIG, body=NORMAL.encode(), at=row.at)

    def close(self) -> None:
        async def close() -> None:
            for client in self._stack:
                await client.close()

        self.run(close)
        self.runner.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("codes")
    with Cluster(folder) as cluster:
        world = World(dict(start_brokers(cluster, folder)), cluster.namesrv)
        world.run(world.prepare)
        yield world
        world.close()


def start_brokers(cluster: Cluster, folder: Path) -> Iterator[tuple[str, str]]:
    common: dict[str, Any] = {"autoCreateSubscriptionGroup": "false"}
    yield "master", cluster.start_broker(**common).address
    yield "slave", cluster.start_slave(**common).address
    accounts = folder / "broker-b" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    more = {"aclEnable": "true", "brokerRole": "SYNC_MASTER", "transactionCheckInterval": 50}
    yield "guarded", cluster.start_broker("broker-b", **more).address


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_answer(world: World, row: Row) -> None:
    answer = world.run(lambda: world.answer(row))
    assert answer.code == row.expected, answer.remark
    if row.remark is None:
        assert answer.remark is None or row.expected
    else:
        assert re.search(row.remark, answer.remark or "")
    if row.answer is None:
        assert answer.body == b""
    else:
        assert re.search(row.answer.encode(), answer.body, re.DOTALL)
    if row.header is not None:
        assert " ".join(sorted(answer.ext_fields)) == row.header
    if answer.body.startswith(b"{"):
        assert loads(answer.body)


def test_every_code_of_the_broker_has_a_good_answer() -> None:
    good = {row.code for row in ROWS if row.expected == 0}
    assert {int(code) for code in good} == BROKER | BROKER_OF_5


def test_every_answer_of_a_broker_is_given_to_somebody() -> None:
    """Answers that other tests are about stand in one list, with the reason."""
    given = {row.expected for row in ROWS}
    assert given.isdisjoint(OTHERWISE_TESTED)
    assert given | set(OTHERWISE_TESTED) | NOT_BY_BROKERS == set(ResponseCode)


REQUIRED = [
    (code, field.wire_name)
    for code in sorted({row.code for row in ROWS})
    if (field := next((each for each in fields_of(COMMANDS[code].request) if each.required), None))
    is not None
]


@pytest.mark.parametrize(
    ("code", "field"), REQUIRED, ids=lambda value: getattr(value, "name", value)
)
def test_a_required_field_is_missing(world: World, code: Code, field: str) -> None:
    answer = world.run(lambda: world.ask(code))
    assert (answer.code, answer.remark) == (1, f"{code.name}: the field '{field}' is missing")


@pytest.mark.parametrize(
    "code", [13, 22, 23, 27, 209, 210, 211, 212, 213, 214, 301, 302, 105, 39, 9999]
)
def test_what_nobody_serves(world: World, code: int) -> None:
    answer = world.run(lambda: world.ask(code))  # type: ignore[arg-type]
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


def test_pulls_are_not_served_on_the_second_port(world: World) -> None:
    host, _, port = world.address.rpartition(":")

    async def ask() -> list[int]:
        connection = await world.admin.connection(f"{host}:{int(port) - 2}")
        texts = {name: str(value) for name, value in PULL.items()}
        pulls = [
            await connection.invoke(code, None, timeout=10, ext_fields=texts)
            for code in sorted(NOT_ON_VIP)
        ]
        other = await connection.invoke(
            Code.GET_MAX_OFFSET, None, timeout=10, ext_fields={"topic": T, "queueId": "0"}
        )
        return [answer.code for answer in (*pulls, other)]

    assert world.run(ask) == [3, 3, 0]


def test_an_undecided_end_of_a_transaction_is_not_answered(world: World) -> None:
    fields = {name: str(world.ids.get(value, value)) for name, value in END.items()}  # type: ignore[call-overload]

    async def ask() -> None:
        connection = await world.admin.connection(world.address)
        code, undecided = Code.END_TRANSACTION, fields | {"commitOrRollback": "0"}
        asked = connection.invoke(code, None, timeout=20, ext_fields=undecided)
        await world.good(Code.GET_MAX_OFFSET, QUEUE)
        assert not asked.done()
        asked.cancel()

    world.run(ask)


def test_a_lock_of_another_client_is_not_granted(world: World) -> None:
    async def ask() -> list[bytes]:
        others = LOCK.replace(b"member", b"other")
        steps = [
            (Code.LOCK_BATCH_MQ, LOCK),
            (Code.LOCK_BATCH_MQ, others),
            (Code.UNLOCK_BATCH_MQ, others),
        ]
        steps += [
            (Code.LOCK_BATCH_MQ, others),
            (Code.UNLOCK_BATCH_MQ, LOCK),
            (Code.LOCK_BATCH_MQ, others),
        ]
        return [(await world.good(code, body=body)).body for code, body in steps]

    granted = b'{"lockOKMQSet":[%b]}' % (MQ % 0).encode()
    none = b'{"lockOKMQSet":[]}'
    assert world.run(ask) == [granted, none, b"", none, b"", granted]


def test_who_does_not_sign_is_refused(world: World) -> None:
    async def ask() -> Response:
        connection = await world.admin.connection(world.addresses["guarded"])
        return await connection.invoke(
            Code.GET_MAX_OFFSET, None, timeout=20, ext_fields={"topic": T, "queueId": "0"}
        )

    answer = world.run(ask)
    assert answer.code == 1
    assert "No accessKey is configured" in (answer.remark or "")


def test_name_servers_hear_of_another_permission_at_once(world: World) -> None:
    """The periodic registration comes every 30 s."""

    async def perms() -> set[int]:
        connection = await world.admin.connection(world.namesrv)
        answer = await connection.invoke(
            Code.GET_ROUTEINFO_BY_TOPIC, None, timeout=20, ext_fields={"topic": T}
        )
        return {queue["perm"] for queue in loads(answer.check().body)["queueDatas"]}

    async def ask() -> None:
        async def are(expected: int) -> bool:
            return await perms() == {expected}

        for permission in (4, 6):
            await world.good(Code.UPDATE_BROKER_CONFIG, body=b"brokerPermission=%d" % permission)
            await until(lambda permission=permission: are(permission), "the name server knows", 5)  # type: ignore[misc]

    world.run(ask)
