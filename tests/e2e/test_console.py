"""The console's pages on a real cluster: what they show of messages, groups and transactions, and
what is changed on them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from aiorocketmq import (
    Admin,
    Message,
    MessageExt,
    PushConsumer,
    RetryLater,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.console import lookups

from .cluster import Cluster, asynchronous, create_topic, sent, until
from .console_client import a_changing_console, a_console


def consumer_of(
    cluster: Cluster, group: str, topic: str, handle: Any, tags: str = "*"
) -> PushConsumer:
    consumer = PushConsumer(group, namesrv=cluster.namesrv, start_from=StartFrom.FIRST)
    consumer.subscribe(topic, tags)
    consumer.on_message(handle)
    return consumer


def links(page: str, path: str) -> list[str]:
    return re.findall(rf'href="({re.escape(path)}\?[^"]+)"', page)


@asynchronous
async def test_a_message_by_key_is_text_never_html(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    body = b"<script>alert(1)</script>"
    msg_id = await sent(shared, topic, body, "key<1>", "other")
    async with a_console(shared.namesrv) as asked:

        async def found() -> str | None:
            page = await asked.page("/messages", topic=topic, way="key", text="key<1>")
            return next(iter(links(page, "/message")), None)

        await until(found, "the message is found by its key")
        page = await asked.page(await found() or "")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "key&lt;1&gt;" in page
        assert msg_id in page
        by_id = await asked.page("/messages", topic=topic, way="id", text=msg_id)
        assert len(links(by_id, "/message")) == 1
        by_time = await asked.page("/messages", topic=topic, way="time")
        assert msg_id in by_time
        looking: dict[str, object] = {"topic": topic, "way": "key", "text": "key<1>"}
        async with Admin(namesrv=shared.namesrv) as admin:
            (stored,) = await admin.query_by_unique_key(topic, msg_id)
        then = stored.store_timestamp
        for begin, end, count in ((then, then, 1), (then + 1, "", 0), ("", then - 1, 0)):
            page = await asked.page("/messages", **looking, begin=begin, end=end)
            assert len(links(page, "/message")) == count
        nothing = await asked.page("/messages", topic=topic, way="key", text="nothing")
        assert "No message was found" in nothing


@asynchronous
async def test_what_cannot_be_used_is_said(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in ("/topic", "/group", "/message?id=x", "/topics?page=x",
                     "/messages?topic=T&way=time&begin=soon", "/group/reset?name=g",
                     "/topic/change?name=T&read_queues=x",
                     "/live/tail?topic=T&kind=x"):  # fmt: skip
            answer = await asked.client.get(path)
            assert answer.status_code in (400, 502), path
            assert "outcome" in answer.text


@asynchronous
async def test_queues_are_changed_with_a_preview(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 2)
    wish = {"name": topic, "read_queues": 4, "write_queues": 3, "perm": 4}
    async with a_changing_console(shared.namesrv) as asked:
        preview = await asked.page("/topic/change", **wish)
        assert "nothing has been sent yet" in preview
        assert "2 → 4" in preview
        async with Admin(namesrv=shared.namesrv) as admin:
            assert len((await admin.topic_stats(topic)).offset_table) == 2
            assert "done" in await asked.change("/topic/change", **wish)

            async def changed() -> bool:
                (data,) = (await admin.topic_route(topic)).queue_datas
                return (data.read_queue_nums, data.write_queue_nums, data.perm) == (4, 3, 4)

            await until(changed, "the topic is as it was wished")


@asynchronous
async def test_a_group_is_moved_with_a_preview(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    for number in range(3):
        await sent(shared, topic, b"%d" % number)
    seen: list[bytes] = []

    async def handle(message: Any) -> None:
        seen.append(message.body)

    async with consumer_of(shared, group, topic, handle):
        await until(lambda: len(seen) == 3, "all are consumed")
    async with a_changing_console(shared.namesrv) as asked:
        wish = {"name": group, "topic": topic, "time": "2020-01-01 00:00"}
        for _ in range(2):  # looking does not move it
            preview = await asked.page("/group/reset", **wish)
            assert "3 messages once more" in preview
            assert "Nothing has been moved yet" in preview
        assert "its offsets were moved" in await asked.change("/group/reset", **wish)
        page = await asked.page("/group", name=group)
        assert f"Nobody of {group} is connected, and 3 messages wait." in page
        assert "where it is" not in await asked.page("/group/reset", **wish | {"time": "end"})


@asynchronous
async def test_dead_letters_are_sent_again_to_their_group_alone(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    msg_id = await sent(shared, topic, b"poison", "k")
    seen: list[tuple[str, bool]] = []
    good = False

    async def handle(message: Any) -> None:
        seen.append((message.topic, good))
        if not good:
            raise RetryLater(delay_level=-1)

    async with consumer_of(shared, group, topic, handle), Admin(namesrv=shared.namesrv) as admin:
        async with a_changing_console(shared.namesrv) as asked:

            async def dead() -> list[str]:
                page = await asked.page("/dead-letters", group=group)
                return re.findall(r'name="id" value="(\w+)"', page)

            await until(dead, "the message is a dead letter")
            assert f"Dead letter of {group}" in await asked.page("/message", id=(await dead())[0])
            assert msg_id not in await asked.page("/dead-letters", group=group, q="nonsense")
            good = True
            report = await asked.change(
                "/dead-letters/send-again", group=group, to="group", id=[*await dead(), "nonsense"]
            )
            assert "1 of 2 were sent again" in report
            assert "nonsense" in report
            (stored,) = await admin.query_by_unique_key(topic, msg_id)
            report = await asked.change(
                "/dead-letters/send-again", group=group, to="group", id=stored.offset_msg_id
            )
            assert "0 of 1 were sent again" in report
            assert f"is no dead letter and no retry of {group}" in report
            await until(lambda: (topic, True) in seen, "the group gets it once more")
            journey = await asked.page("/message", topic=topic, id=msg_id)
            assert f"Sent again to {group} alone" in journey


@asynchronous
async def test_members_that_disagree(shared: Cluster, topic: str, group: str) -> None:
    await create_topic(shared.namesrv, topic, 2)

    async def handle(_message: Any) -> None: ...

    async with (
        consumer_of(shared, group, topic, handle, "TagA"),
        consumer_of(shared, group, topic, handle, "TagB"),
        a_console(shared.namesrv) as asked,
    ):

        async def told() -> bool:
            """At first no name server may know the group."""
            answer = await asked.client.get("/group", params={"name": group})
            return f"Members of {group} disagree about {topic}" in answer.text

        await until(told, "the page says that members disagree")


@asynchronous
async def test_a_transaction_with_its_half_its_check_and_its_end(tmp_path: Path) -> None:
    checked: list[str] = []

    async def check(message: MessageExt) -> TransactionState:
        checked.append(message.msg_id)
        return TransactionState.COMMIT

    with Cluster(tmp_path) as cluster:
        await asyncio.to_thread(
            cluster.start_broker, transactionCheckInterval=200, transactionTimeOut=200
        )
        await create_topic(cluster.namesrv, "Payments", 1)
        async with (
            TransactionProducer(
                "payers", checker=check, namesrv=cluster.namesrv, trace=True
            ) as producer,
            a_console(cluster.namesrv) as asked,
        ):

            async def undecided(_message: Message) -> TransactionState:
                return TransactionState.UNKNOWN

            result = await producer.send_in_transaction(Message("Payments", b"10"), undecided)
            msg_id = result.sent.msg_id

            async def journey() -> list[str]:
                found = await asked.client.get(
                    "/message", params={"topic": "Payments", "id": msg_id}
                )
                return re.findall("<strong>([^<]+)</strong>", found.text)

            async def ended() -> bool:
                return "The transaction ended: committed" in await journey()

            await until(ended, "the page tells the end of the transaction")
            titles = await journey()
            assert titles[0] == "Half message stored"
            assert "Stored" in titles
            assert checked


@asynchronous
async def test_all_groups_of_a_message_are_on_its_page(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [f"{topic}-{number}" for number in range(60)]
    await create_topic(shared.namesrv, topic, 1)
    msg_id = await sent(shared, topic, b"x")
    async with Admin(namesrv=shared.namesrv) as admin, a_console(shared.namesrv) as asked:
        (queue,) = await admin.read_queues(topic)
        for group in groups:
            await admin.update_consumer_offset(group, queue, 1)

        async def found() -> bool:
            page = await asked.client.get("/message", params={"topic": topic, "id": msg_id})
            return all(f"<strong>{group} " in page.text for group in groups)

        await until(found, "the page tells of every group")
        monkeypatch.setattr(lookups, "MOST_GROUPS", 10)
        page = await asked.page("/message", topic=topic, id=msg_id)
        assert "The topic has 60 groups: only the first 10, by name, were looked at." in page
        assert sum(f"<strong>{group} " in page for group in groups) == 10
