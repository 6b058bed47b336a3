"""A broker with ACL on, and clients that sign."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from aiorocketmq import (
    Admin,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    RetryLater,
    SendStatus,
    StartFrom,
    SuspendQueue,
    sync,
)
from aiorocketmq.client.errors import Attempt
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.acl import CreateAccessConfigRequest
from aiorocketmq.remoting.signature import Credentials, Signer
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import SUSPEND, Cluster, asynchronous, total_of, until

ACCOUNTS = """\
accounts:
  - {accessKey: the-admin, secretKey: admin-secret, admin: true}
  - {accessKey: the-writer, secretKey: writer-secret, topicPerms: ["Orders=PUB", "Bills=SUB"]}
  - {accessKey: the-reader, secretKey: reader-secret,
     topicPerms: ["Orders=SUB"], groupPerms: ["readers=SUB"]}
"""
ADMIN = Credentials("the-admin", "admin-secret")
WRITER = Credentials("the-writer", "writer-secret")
READER = Credentials("the-reader", "reader-secret")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("acl")
    accounts = folder / "broker-a" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    with Cluster(folder) as cluster:
        cluster.start_broker(aclEnable="true", autoCreateTopicEnable="false")
        yield cluster


def _came_twice(tried: dict[str, int], msg_id: str) -> bool:
    return tried.get(msg_id, 0) == 2


async def make_topics(cluster: Cluster, *topics: str) -> None:
    async with Admin(namesrv=cluster.namesrv, credentials=ADMIN) as admin:
        for topic in topics:
            await admin.create_topic_on(
                cluster.brokers["broker-a"].address, TopicConfig(topic_name=topic)
            )
            await until(partial(admin.topic_route, topic), f"the name server knows {topic}")


@asynchronous
async def test_who_may_sends_and_reads_and_nobody_else(guarded: Cluster) -> None:
    await make_topics(guarded, "Orders", "Bills")
    async with Producer("p", namesrv=guarded.namesrv, credentials=WRITER) as producer:
        await producer.send(Message("Orders", b"one"))
        await producer.send([Message("Orders", b"two"), Message("Orders", b"three")])
        with pytest.raises(RocketMQError, match="No default permission for topic:Bills"):
            await producer.send(Message("Bills", b"x"))
        with pytest.raises(RocketMQError, match="No default permission for topic:Bills"):
            await producer.send([Message("Bills", b"x"), Message("Bills", b"y")])
    for credentials, why in (
        (None, "No accessKey is configured"),
        (
            Credentials("the-writer", "wrong-secret"),
            "Check signature failed for accessKey=the-writer",
        ),
        (Credentials("nobody-here", "any-secret"), "No acl config for nobody-here"),
    ):
        async with Producer("p", namesrv=guarded.namesrv, credentials=credentials) as producer:
            with pytest.raises(RocketMQError, match=why):
                await producer.send(Message("Orders", b"x"))
    async with PullConsumer(
        "readers", "Orders", namesrv=guarded.namesrv, credentials=READER, suspend=SUSPEND
    ) as consumer:
        assert sorted(message.body for message in await total_of(consumer, 3)) == [
            b"one",
            b"three",
            b"two",
        ]


def test_a_blocking_client_signs_what_it_sends_itself(
    guarded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def give_up(
        _message: Message,
        _id: str,
        bound: MessageQueue | None,
        _timeout: float | None,
        failed: Attempt,
    ) -> NoReturn:
        given_up.append(bound)
        raise failed.error

    given_up: list[MessageQueue | None] = []
    asyncio.run(asyncio.wait_for(make_topics(guarded, "Orders"), 60))
    with sync.Producer("p", namesrv=guarded.namesrv, credentials=WRITER) as producer:
        producer.send(Message("Orders", b"x"))
        monkeypatch.setattr(producer._client, "send", None)  # the event loop sends nothing
        monkeypatch.setattr(producer._client, "send_again", give_up)
        assert (
            producer.send(Message("Orders", b"x", tags="Ä", keys=["k"])).status
            is SendStatus.SEND_OK
        )
        monkeypatch.setattr(producer._client.fast_path, "_signer", Signer("wrong-secret"))
        chosen = producer.queues("Orders")[1]
        for more in ({}, {"sharding_key": 1}, {"queue": chosen}):
            with pytest.raises(
                RocketMQError, match="Check signature failed for accessKey=the-writer"
            ):
                producer.send(Message("Orders", b"x"), **more)
        of_no_queue, of_key, of_queue = given_up  # who is bound to a queue has one attempt
        assert of_no_queue is None
        assert of_key is not None
        assert of_queue == chosen


@asynchronous
async def test_administration_needs_an_administrator(guarded: Cluster) -> None:
    address = guarded.brokers["broker-a"].address
    async with Admin(namesrv=guarded.namesrv, credentials=WRITER) as admin:
        with pytest.raises(RocketMQError, match="Need admin permission for request code=17"):
            await admin.create_topic_on(address, TopicConfig(topic_name="More"))
    account = CreateAccessConfigRequest(
        access_key="newcomer", secret_key="new-secret", default_topic_perm="PUB"
    )
    async with RemotingClient(credentials=WRITER) as client:
        answer = await client.invoke(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)
        assert answer.code == 1
    async with RemotingClient(credentials=ADMIN) as client:
        answer = await client.invoke(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account)
        assert answer.code == 0
    await make_topics(guarded, "News")
    async with Producer(
        "p", namesrv=guarded.namesrv, credentials=Credentials("newcomer", "new-secret")
    ) as producer:
        await producer.send(Message("News", b"x"))


@asynchronous
async def test_a_changed_file_counts_without_a_restart(guarded: Cluster, tmp_path: Path) -> None:
    await make_topics(guarded, "Later")
    home = guarded.brokers["broker-a"].log_path.parent
    (home / "conf" / "acl").mkdir(exist_ok=True)
    (home / "conf" / "acl" / "more.yml").write_text(
        "accounts: [{accessKey: latecomer, secretKey: late-secret, defaultTopicPerm: PUB}]"
    )
    async with Producer(
        "p", namesrv=guarded.namesrv, credentials=Credentials("latecomer", "late-secret")
    ) as producer:
        await until(lambda: producer.send(Message("Later", b"x")), "the new account counts")


@asynchronous
async def test_a_consumer_needs_its_topic_and_its_group_and_no_more(guarded: Cluster) -> None:
    """Ordered and not, with a message that is given back: locks, offsets, heartbeats, all of it."""
    await make_topics(guarded, "Orders")
    for ordered in (True, False):
        tried: dict[str, int] = {}
        consumer = PushConsumer(
            "readers",
            namesrv=guarded.namesrv,
            credentials=READER,
            suspend=SUSPEND,
            ordered=ordered,
            start_from=StartFrom.LAST,
        )
        consumer.subscribe("Orders")

        @consumer.on_message
        async def handle(
            message: MessageExt, tried: dict[str, int] = tried, ordered: bool = ordered
        ) -> None:
            tried[message.msg_id] = tried.get(message.msg_id, 0) + 1
            if tried[message.msg_id] == 1:
                raise SuspendQueue(0.01) if ordered else RetryLater(1)

        async with Producer("p", namesrv=guarded.namesrv, credentials=WRITER) as producer, consumer:
            sent = await producer.send(Message("Orders", b"x"))
            await until(partial(_came_twice, tried, sent.msg_id), "it came twice")
