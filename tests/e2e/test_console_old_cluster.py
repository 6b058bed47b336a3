"""The console of a cluster that does not know everything, and of none at all."""

from __future__ import annotations

import re
import socket
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import Cluster, asynchronous, create_topic, sent
from .console_client import PAGES, a_console

EVERYBODY_KNOWS = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)


@asynchronous
async def test_a_cluster_that_knows_none_of_it(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 3 for every request but those that make a cluster."""
    await create_topic(shared.namesrv, topic, 1)
    await sent(shared, topic, b"x", "k")
    invoke = RemotingClient.invoke
    refused: set[RequestCode] = set()

    async def old(
        self: RemotingClient, address: str, code: RequestCode, *args: Any, **kwargs: Any
    ) -> Response:
        answer = await invoke(self, address, code, *args, **kwargs)
        if code in EVERYBODY_KNOWS:
            return answer
        refused.add(code)
        return msgspec.structs.replace(answer, code=3, remark="not supported", body=b"")

    monkeypatch.setattr(RemotingClient, "invoke", old)
    async with a_console(shared.namesrv) as asked:
        for path in PAGES:
            await asked.page(path)
        page = await asked.page("/topic", name=topic)
        assert "it does not know this request" in page
        assert "gives no figures: it does not know this request" in await asked.page("/")
        for path, query in (("/group", {"name": "g"}), ("/messages", {"topic": topic, "way": "key",
                            "text": "k"})):  # fmt: skip
            answer = await asked.client.get(path, params=query)
            assert answer.status_code in (200, 502)
    assert len(refused) > 8


@asynchronous
async def test_a_broker_that_takes_no_messages_is_not_asked_for_rates(
    shared: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of fifty topics on a page, one by one."""
    await create_topic(shared.namesrv, topic, 1)
    invoke = RemotingClient.invoke
    asked_for: set[RequestCode] = set()
    rates = b"0.0 0.0 0.0"

    async def noted(
        self: RemotingClient, address: str, code: RequestCode, *args: Any, **kwargs: Any
    ) -> Response:
        asked_for.add(code)
        answer = await invoke(self, address, code, *args, **kwargs)
        if code is RequestCode.GET_BROKER_RUNTIME_INFO:
            body = re.sub(rb'"putTps":"[^"]*"', b'"putTps":"%b"' % rates, bytes(answer.body))
            return msgspec.structs.replace(answer, body=body)
        return answer

    monkeypatch.setattr(RemotingClient, "invoke", noted)
    async with a_console(shared.namesrv) as asked:
        view = await asked.console.views.of(None)
        await view.put_rate.of(topic).get()
        assert RequestCode.GET_BROKER_RUNTIME_INFO in asked_for
        assert RequestCode.VIEW_BROKER_STATS_DATA not in asked_for
        rates = b"0.0 0.1 0.1"
        view.overview.forget()
        view.put_rate.of(topic).forget()
        await view.put_rate.of(topic).get()
        assert RequestCode.VIEW_BROKER_STATS_DATA in asked_for


@asynchronous
async def test_no_name_server_at_all() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # nothing else can listen there meanwhile
        async with a_console(f"127.0.0.1:{nobody.getsockname()[1]}") as asked:
            answer = await asked.client.get("/")
            assert answer.status_code == 502
            assert "no name server answers" in answer.text
