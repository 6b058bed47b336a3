"""The guard of a whole broker, and the commands that change its accounts."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.acl import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclInfoResponse,
    UpdateGlobalWhiteAddrsRequest,
)
from aiorocketmq.remoting.protocol.commands.base import ConsumerGroupRequest
from aiorocketmq.remoting.protocol.commands.client import UnregisterClientRequest
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, QueryMessageRequest
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
    SendMessageRequestV2,
)
from aiorocketmq.remoting.protocol.commands.transaction import EndTransactionRequest
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import Record, to_fields
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.signature import Credentials, signed
from aiorocketmq.store.model.put import PutMessage

from ..accounts import ACCOUNTS, ADMINISTRATOR, NARROW, PRODUCER, home
from ..sim_broker import SimClient, sim_broker


def send_header(
    topic: str, kind: type[SendMessageRequest] = SendMessageRequest, **more: Any
) -> SendMessageRequest:
    return kind(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, **more,
    )  # fmt: skip


def heartbeat_body(group: str, topic: str) -> bytes:
    wanted = (SubscriptionData(topic=topic, sub_string="*", sub_version=1),)
    consumer = ConsumerData(group_name=group, subscription_data_set=wanted)
    return encode_body(HeartbeatData(client_id="c", consumer_data_set=(consumer,)))


def pull_header(topic: str, group: str) -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group=group, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=0, sub_version=0,
    )  # fmt: skip


async def ask(
    client: SimClient,
    who: Credentials | None,
    code: RequestCode,
    header: Record | None = None,
    body: bytes = b"",
) -> Response:
    fields = {} if header is None else to_fields(header)
    sent = fields if who is None else signed(who, fields, body)
    return await client.connection.invoke(code, None, body, timeout=10, ext_fields=sent)


def refusal_of(response: Response) -> str | None:
    """What ACL has against it, ``None`` when the request reached its handler."""
    prefix = "org.apache.rocketmq.acl.common.AclException: "
    remark = response.remark or ""
    assert response.code == 1 or not remark.startswith(prefix)
    return remark.removeprefix(prefix) if remark.startswith(prefix) else None


CASES: list[tuple[RequestCode, Record | None, bytes, str | None]] = [
    (RequestCode.SEND_MESSAGE, send_header("Orders"), b"x", None),
    (RequestCode.SEND_MESSAGE, send_header("Bills"), b"x", "topic:Bills"),
    (RequestCode.SEND_MESSAGE, send_header("Other"), b"x", "topic:Other"),
    (RequestCode.SEND_MESSAGE, send_header("Shut"), b"x", "topic:Shut"),
    (RequestCode.SEND_MESSAGE, send_header("RMQ_SYS_TRACE_TOPIC"), b"x", None),
    (RequestCode.SEND_MESSAGE, send_header("%RETRY%any"), b"x", None),
    (RequestCode.SEND_MESSAGE, send_header("%RETRY%closed"), b"x", "group:closed"),
    (RequestCode.SEND_MESSAGE_V2, send_header("Both", SendMessageRequestV2), b"x", None),
    (RequestCode.SEND_MESSAGE_V2, send_header("Bills", SendMessageRequestV2), b"x", "topic:Bills"),
    (
        RequestCode.SEND_BATCH_MESSAGE,
        send_header("Orders", SendMessageRequestV2, batch=True),
        b"x",
        None,
    ),
    (
        RequestCode.SEND_BATCH_MESSAGE,
        send_header("Bills", SendMessageRequestV2, batch=True),
        b"x",
        "topic:Bills",
    ),
    (RequestCode.SEND_REPLY_MESSAGE, send_header("Bills"), b"x", "topic:Bills"),
    (
        RequestCode.SEND_REPLY_MESSAGE_V2,
        send_header("Bills", SendMessageRequestV2),
        b"x",
        "topic:Bills",
    ),
    (
        RequestCode.SEND_REPLY_MESSAGE_V2,
        send_header("C_REPLY_TOPIC", SendMessageRequestV2),
        b"x",
        None,
    ),
    (
        RequestCode.CONSUMER_SEND_MSG_BACK,
        ConsumerSendMsgBackRequest(offset=0, group="any", delay_level=0),
        b"",
        "topic:Orders",
    ),
    (
        RequestCode.CONSUMER_SEND_MSG_BACK,
        ConsumerSendMsgBackRequest(offset=0, group="closed", delay_level=0),
        b"",
        "group:closed",
    ),
    (RequestCode.PULL_MESSAGE, pull_header("Bills", "any"), b"", None),
    (RequestCode.PULL_MESSAGE, pull_header("Orders", "any"), b"", "topic:Orders"),
    (RequestCode.PULL_MESSAGE, pull_header("Bills", "writer"), b"", "group:writer"),
    (RequestCode.LITE_PULL_MESSAGE, pull_header("Orders", "any"), b"", "topic:Orders"),
    (
        RequestCode.QUERY_MESSAGE,
        QueryMessageRequest(topic="Orders", key="k", max_num=1, begin_timestamp=0, end_timestamp=1),
        b"",
        "topic:Orders",
    ),
    (RequestCode.HEART_BEAT, None, heartbeat_body("any", "Bills"), None),
    (RequestCode.HEART_BEAT, None, heartbeat_body("any", "Orders"), "topic:Orders"),
    (RequestCode.HEART_BEAT, None, heartbeat_body("closed", "Bills"), "group:closed"),
    (
        RequestCode.UNREGISTER_CLIENT,
        UnregisterClientRequest(client_id="c", consumer_group="closed"),
        b"",
        "group:closed",
    ),
    (
        RequestCode.UNREGISTER_CLIENT,
        UnregisterClientRequest(client_id="c", producer_group="closed"),
        b"",
        None,
    ),
    (
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        ConsumerGroupRequest(consumer_group="closed"),
        b"",
        "group:closed",
    ),
    (
        RequestCode.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetRequest(
            consumer_group="any", topic="Orders", queue_id=0, commit_offset=1
        ),
        b"",
        "topic:Orders",
    ),
    (RequestCode.GET_BROKER_RUNTIME_INFO, None, b"", None),
]


def test_what_each_request_needs(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            client = world.connect()
            for code, header, body, expected in CASES:
                found = refusal_of(await ask(client, PRODUCER, code, header, body))
                assert found == (
                    None if expected is None else f"No default permission for {expected}"
                ), (code, header)
                assert refusal_of(await ask(client, ADMINISTRATOR, code, header, body)) is None, (
                    code
                )
                assert (
                    refusal_of(await ask(client, None, code, header, body))
                    == "No accessKey is configured"
                ), code

    asyncio.run(run())


def test_administrators(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            client = world.connect()
            for code, header in (
                (RequestCode.UPDATE_BROKER_CONFIG, None),
                (
                    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
                    CreateAccessConfigRequest(access_key="a"),
                ),
                (RequestCode.DELETE_ACL_CONFIG, DeleteAccessConfigRequest(access_key="a")),
                (
                    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
                    UpdateGlobalWhiteAddrsRequest(global_white_addrs="x"),
                ),
            ):
                refused = refusal_of(await ask(client, PRODUCER, code, header, b""))
                assert (
                    refused == f"Need admin permission for request code={int(code)}, but "
                    "accessKey=producer is not"
                )
                assert refusal_of(await ask(client, NARROW, code, header, b"")) is None
            # an administrator with lists is checked like anybody else
            narrow = await ask(client, NARROW, RequestCode.SEND_MESSAGE, send_header("Bills"), b"x")
            assert refusal_of(narrow) == "No default permission for topic:Bills"

    asyncio.run(run())


def test_the_order_of_the_checks(tmp_path: Path) -> None:
    async def run() -> None:
        text = ACCOUNTS.replace("10.9.*.*", "127.0.0.1")
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path, text))
        ) as world:
            assert (
                refusal_of(await ask(world.connect(), None, RequestCode.GET_ALL_TOPIC_CONFIG))
                is None
            )
        text = ACCOUNTS.replace("10.8.0.1", "127.0.0.1")
        async with sim_broker(
            tmp_path / "t", acl_enable=True, rocketmq_home=str(home(tmp_path, text))
        ) as world:
            client, wrong = world.connect(), Credentials("producer", "wrong-key")
            shut = send_header("Shut")
            assert (
                refusal_of(await ask(client, wrong, RequestCode.SEND_MESSAGE, shut, b"x")) is None
            )  # white
            found = await ask(
                client, Credentials("nobody-1", "wrong-key"), RequestCode.SEND_MESSAGE, shut, b"x"
            )
            assert refusal_of(found) == "No acl config for nobody-1"
            found = await ask(
                client,
                Credentials("administrator", "wrong-key"),
                RequestCode.SEND_MESSAGE,
                shut,
                b"x",
            )
            assert refusal_of(found) == "Check signature failed for accessKey=administrator"

    asyncio.run(run())


def test_the_end_of_a_transaction_needs_what_its_message_needed(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            handlers = {RequestCode.END_TRANSACTION: lambda _request, _body, _ctx: Reply()}
            world.owner.dispatcher = Dispatcher(handlers, guard=world.broker.guard)
            client, store = world.connect(), world.broker.store
            for topic, expected in (
                ("Bills", "No default permission for topic:Bills"),
                ("Orders", None),
            ):
                put = store.put_message(
                    PutMessage(
                        "RMQ_SYS_TRANS_HALF_TOPIC",
                        0,
                        b"x",
                        f"REAL_TOPIC\x01{topic}\x02".encode(),
                        b"\x7f\0\0\1\0\0\0\1",
                        1,
                        1,
                    )
                )
                header = EndTransactionRequest(
                    producer_group="p", tran_state_table_offset=0, commit_log_offset=put.phy_offset,
                    commit_or_rollback=12, msg_id="id",
                )  # fmt: skip
                assert (
                    refusal_of(await ask(client, PRODUCER, RequestCode.END_TRANSACTION, header))
                    == expected
                )

    asyncio.run(run())


def test_only_who_may_send_to_a_topic_is_asked_about_its_transactions(tmp_path: Path) -> None:
    """The question brings the message, and anybody may say that he is of a group of producers."""

    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            await world.make_topic("Orders")
            reader = Credentials("only-reads", "another-secret")
            new = CreateAccessConfigRequest(
                access_key=reader.access_key,
                secret_key=reader.secret_key,
                default_topic_perm="SUB",
            )
            strangers = [world.connect() for _ in range(3)]
            code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
            assert (await ask(strangers[0], ADMINISTRATOR, code, new)).code == 0
            heartbeat = encode_body(
                HeartbeatData(client_id="c", producer_data_set=(ProducerData(group_name="pg"),))
            )
            client = world.connect()
            for each, who in ((client, PRODUCER), *((s, reader) for s in strangers)):
                assert (await ask(each, who, RequestCode.HEART_BEAT, None, heartbeat)).code == 0
            header = send_header("Orders", properties="TRAN_MSG\x01true\x02PGROUP\x01pg")
            header = replace(header, born_timestamp=world.clock.time_ms())
            for _ in range(4):
                assert (
                    await ask(client, PRODUCER, RequestCode.SEND_MESSAGE, header, b"x")
                ).code == 0
            world.clock.advance(60)
            await world.broker.storage.transaction_check.check()
            await asyncio.sleep(0.001)
            assert [each.pushed for each in strangers] == [[], [], []]
            assert len(client.pushed) == 4

    asyncio.run(run())


def test_the_commands(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            client = world.connect()
            new = CreateAccessConfigRequest(
                access_key="newcomer",
                secret_key="my-secret",
                topic_perms="News=SUB, Orders=PUB",
                default_group_perm="SUB",
            )
            code = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
            assert (await ask(client, ADMINISTRATOR, code, new)).code == 0
            newcomer = Credentials("newcomer", "my-secret")
            assert (
                refusal_of(
                    await ask(
                        client, newcomer, RequestCode.SEND_MESSAGE, send_header("Orders"), b"x"
                    )
                )
                is None
            )
            for bad in (
                CreateAccessConfigRequest(access_key="newcomer", secret_key="short"),
                CreateAccessConfigRequest(
                    access_key="newcomer", secret_key="my-secret", topic_perms="News=READ"
                ),
                CreateAccessConfigRequest(
                    access_key="newcomer", secret_key="my-secret", white_remote_address="1.2"
                ),
            ):
                assert (await ask(client, ADMINISTRATOR, code, bad)).code == 209
            found = await ask(client, ADMINISTRATOR, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            header = found.check().header
            assert isinstance(header, GetBrokerAclInfoResponse)
            assert (header.broker_name, header.cluster_name) == ("b", "C")
            assert json.loads(header.version)["counter"] == 1
            path = str(tmp_path / "conf" / "plain_acl.yml")
            assert json.loads(header.all_acl_file_version or "") == {
                path: json.loads(header.version)
            }
            gone = DeleteAccessConfigRequest(access_key="newcomer")
            assert (await ask(client, ADMINISTRATOR, RequestCode.DELETE_ACL_CONFIG, gone)).code == 0
            again = await ask(client, ADMINISTRATOR, RequestCode.DELETE_ACL_CONFIG, gone)
            assert again.code == 210
            assert "newcomer" in (again.remark or "")
            white = UpdateGlobalWhiteAddrsRequest(global_white_addrs="10.1.1.{1,2},127.0.0.*")
            assert (
                await ask(
                    client, ADMINISTRATOR, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, white
                )
            ).code == 0
            assert yaml.safe_load(Path(path).read_text())["globalWhiteRemoteAddresses"] == [
                "10.1.1.{1,2}",
                "127.0.0.*",
            ]
            assert (
                refusal_of(
                    await ask(client, None, RequestCode.SEND_MESSAGE, send_header("Shut"), b"x")
                )
                is None
            )
            bad_white = UpdateGlobalWhiteAddrsRequest(global_white_addrs="10.1.1")
            assert (
                await ask(client, None, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, bad_white)
            ).code == 211

    asyncio.run(run())


def test_without_acl_there_is_no_guard_and_the_commands_say_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            assert world.broker.guard is None
            client = world.connect()
            codes = {
                RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: (
                    CreateAccessConfigRequest(access_key="a"),
                    209,
                ),
                RequestCode.DELETE_ACL_CONFIG: (DeleteAccessConfigRequest(access_key="a"), 210),
                RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (
                    UpdateGlobalWhiteAddrsRequest(global_white_addrs="*"),
                    211,
                ),
                RequestCode.GET_BROKER_CLUSTER_ACL_INFO: (None, 1),
            }
            for code, (header, expected) in codes.items():
                found = await client.ask(code, header)
                assert (found.code, "aclEnable" in (found.remark or "")) == (expected, True)

    asyncio.run(run())


def test_secrets_stay_out_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            client = world.connect()
            new = CreateAccessConfigRequest(access_key="newcomer", secret_key="my-secret")
            await ask(client, ADMINISTRATOR, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, new)
            await ask(
                client, Credentials("administrator", "wrong-key"), RequestCode.GET_ALL_TOPIC_CONFIG
            )

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert "newcomer" in caplog.text
    for secret in ("my-secret", "very-secret", "012345678"):
        assert secret not in caplog.text


def test_a_header_in_an_unusual_form_is_checked_as_well(tmp_path: Path) -> None:
    """Numbers where others write text, another header form."""

    async def run() -> None:
        async with sim_broker(
            tmp_path / "s", acl_enable=True, rocketmq_home=str(home(tmp_path))
        ) as world:
            for serialize_type in (SerializeType.JSON, SerializeType.ROCKETMQ):
                client = world.connect()
                fields = signed(PRODUCER, to_fields(send_header("Orders")), b"x")
                for changed, expected in (
                    ({}, None),
                    ({"queueId": "1"}, "Check signature failed for accessKey=producer"),
                ):
                    values: dict[str, Any] = {**fields, **changed}
                    if serialize_type == SerializeType.JSON:
                        values["queueId"] = int(values["queueId"])
                        header = json.dumps({"code": 10, "extFields": values, "opaque": 7}).encode()
                    else:
                        header = encode_header(
                            RemotingCommand(code=10, opaque=7, ext_fields=values), serialize_type
                        )
                    answer = client.connection._invocations.add(RequestCode.SEND_MESSAGE, 7, 10)
                    client.connection.send([encode_frame(serialize_type, header, b"x")])
                    assert refusal_of(await answer) == expected

    asyncio.run(run())
