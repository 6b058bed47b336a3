"""A topic as messages come, filtered, and no group knows of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

pytest.importorskip("starlette")

from aiorocketmq import Admin, Message, Producer, PullConsumer, StartFrom

from .cluster import (
    PATIENCE_S,
    SUSPEND,
    Cluster,
    asynchronous,
    create_topic,
    total_of,
    until,
)
from .console_client import served


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("console-tail")) as cluster:
        cluster.start_broker(enablePropertyFilter="true")
        yield cluster


class Events:
    """What a tail tells, as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.rows = ""
        """All messages that came."""

    async def of(self, part: str) -> str:
        """The next text of one part."""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if line.startswith("data: "):
                    found = json.loads(line.removeprefix("data: "))
                    self.rows += found["text"] if found["id"] == "tail" else ""
                    if found["id"] == part and found["text"]:
                        return str(found["text"])
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def tail(namesrv: str, topic: str, **query: str) -> AsyncIterator[Events]:
    """Watching, from now on."""
    async with (
        served(namesrv) as port,
        httpx.AsyncClient(base_url=f"http://localhost:{port}", timeout=PATIENCE_S) as client,
        client.stream("GET", "/live/tail", params={"topic": topic, **query}) as response,
    ):
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response)


async def send(cluster: Cluster, topic: str, *amounts: int, tags: str = "A") -> None:
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        for amount in amounts:
            await producer.send(
                Message(topic, b"<b>%d</b>" % amount, tags=tags, properties={"amount": str(amount)})
            )


@asynchronous
async def test_with_sql92_and_without_any_group(cluster: Cluster, topic: str, group: str) -> None:
    await create_topic(cluster.namesrv, topic, 1)
    await send(cluster, topic, 99, 101)
    async with PullConsumer(
        group, topic, namesrv=cluster.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    ) as consumer:
        await total_of(consumer, 1)
        async with (
            Admin(namesrv=cluster.namesrv) as admin,
            tail(cluster.namesrv, topic, kind="SQL92", filter="amount > 100") as events,
        ):
            assert await events.of("tail-state") == "watching 1 queues from the end on"
            # it may have joined a moment ago
            await until(lambda: admin.consume_stats(group), "the name server knows the group")
            groups = await admin.query_topic_consume_by_who(topic)
            stats = await admin.consume_stats(group)
            await send(cluster, topic, 5, 102, 7, 103)
            while "&gt;103&lt;" not in events.rows:
                await events.of("tail")
            seen = events.rows
            assert "&lt;b&gt;102&lt;/b&gt;" in seen
            for other in ("5", "7", "99", "101"):  # too small, or from before
                assert f"&gt;{other}&lt;" not in seen
            assert await admin.query_topic_consume_by_who(topic) == groups
            after = await admin.consume_stats(group)
            assert {q: each.consumer_offset for q, each in after.offset_table.items()} == {
                q: each.consumer_offset for q, each in stats.offset_table.items()
            }


@asynchronous
async def test_with_tags(cluster: Cluster, topic: str) -> None:
    await create_topic(cluster.namesrv, topic, 1)
    async with tail(cluster.namesrv, topic, filter="B || C") as events:
        await events.of("tail-state")
        await send(cluster, topic, 1, tags="A")
        await send(cluster, topic, 2, tags="B")
        seen = await events.of("tail")
        assert ("&gt;2&lt;" in seen, "&gt;1&lt;" in seen) == (True, False)


@asynchronous
async def test_an_expression_that_cannot_be_used(cluster: Cluster, topic: str) -> None:
    """In the broker's words, with the place."""
    await create_topic(cluster.namesrv, topic, 1)
    async with tail(cluster.namesrv, topic, kind="SQL92", filter="amount >") as events:
        said = await events.of("tail-state")
        assert "SUBSCRIPTION_PARSE_FAILED" in said
        assert "position 9" in said


@asynchronous
async def test_a_broker_that_does_not_filter_by_sql92(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with tail(shared.namesrv, topic, kind="SQL92", filter="a = 1") as events:
        assert "SQL92" in await events.of("tail-state")
