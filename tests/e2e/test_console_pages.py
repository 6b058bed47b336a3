"""What pages show and do that no other test looks at: sending, rates, a group whose members are
there, producers and groups of a topic."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("starlette")

from aiorocketmq import Admin, Message, Producer, PushConsumer, StartFrom

from .cluster import Cluster, asynchronous, create_topic, until
from .console_client import a_changing_console, a_console


@asynchronous
async def test_a_test_message_with_tag_keys_delay_and_order(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 4)
    async with (
        a_changing_console(shared.namesrv) as asked,
        Admin(namesrv=shared.namesrv) as admin,
    ):
        queues = set()
        for number in range(6):
            said = await asked.change(
                "/send", topic=topic, body=f"{number}\r\n", tag="paid", keys="k1 k2", ordered_by="o"
            )
            (queue,) = re.findall(r"SEND_OK: .*</a> in queue (\d+) of broker-a", said)
            queues.add(queue)
        assert len(queues) == 1

        async def found() -> bool:
            return len(await admin.query_messages(topic, "k2")) == 6

        await until(found, "all are found by their key")
        message = (await admin.query_messages(topic, "k1"))[0]
        assert (message.body, message.tags, list(message.keys)) == (b"0\n", "paid", ["k1", "k2"])
        said = await asked.change("/send", topic=topic, body="later", keys="late", delay=1)
        assert "it can be found when its delay is over" in said

        async def delayed() -> bool:
            return bool(await admin.query_messages(topic, "late"))

        await until(delayed, "the delayed one is there")
        late = (await admin.query_messages(topic, "late"))[0]
        assert late.store_timestamp - late.born_timestamp >= 900
        answer = await asked.post("/send", csrf=await asked.csrf(), topic=topic, delay=19)
        assert (answer.status_code, "0 to 18" in answer.text) == (400, True)


@asynchronous
async def test_a_topic_with_its_rate_producers_and_groups(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 2)

    async def handle(_message: Any) -> None: ...

    consumer = PushConsumer(group, namesrv=shared.namesrv, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    consumer.on_message(handle)
    async with (
        consumer,
        Producer(f"{group}-p", namesrv=shared.namesrv) as producer,
        a_console(shared.namesrv) as asked,
    ):
        await producer.send(Message(topic, b"x"))
        view = await asked.console.views.of(None)

        async def shown() -> bool:
            view.topic.of(topic).forget()
            view._people.of(topic).forget()
            view.put_rate.of(topic).forget()
            view.topics.forget()
            page = await asked.page("/topic", name=topic)
            rows = await asked.page("/topics", q=topic)
            return (
                f'href="/group?name={group}">{group}' in page
                and f"<li>{group}-p <small>" in page
                and "<rect" in page
                and bool(re.search(r'data-label="Last minute">[1-9]', rows))
            )

        await until(shown, "the pages show all of it")
        nothing = await asked.page("/topics", q=f"{topic}-no-such")
        assert "No topic of that kind has such a name." in nothing
        assert topic not in await asked.page("/topics", kind="retry")


@asynchronous
async def test_a_group_whose_members_are_told_to_move(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
    seen: list[bytes] = []

    async def handle(message: Any) -> None:
        seen.append(message.body)

    consumer = PushConsumer(group, namesrv=shared.namesrv, start_from=StartFrom.FIRST)
    consumer.subscribe(topic, "*")
    consumer.on_message(handle)
    async with consumer, a_changing_console(shared.namesrv) as asked:
        await until(lambda: len(seen) == 3, "all are consumed")

        async def committed() -> bool:
            wish = {"name": group, "topic": topic, "time": "2020-01-01 00:00"}
            answer = await asked.client.get("/group/reset", params=wish)
            return "3 messages once more" in answer.text

        await until(committed, "the group has told how far it is")
        page = await asked.page("/group", name=group)
        assert f"{topic}: <code>*</code>" in page
        assert "PYTHON" in page
        said = await asked.change("/group/reset", name=group, topic=topic, time="2020-01-01 00:00")
        assert "The members were told" in said
        await until(lambda: len(seen) == 6, "all come once more")
