"""What is wrong stands first, in words: each sentence once, on the page of a real cluster."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from aiorocketmq import Message, Producer, PushConsumer, StartFrom
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import Cluster, DaemonProcess, asynchronous, create_topic, until
from .console_client import Asked, a_console

Figures = dict[str, str]


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[DaemonProcess, DaemonProcess, str]]:
    """A master, its slave, and their name server."""
    with Cluster(tmp_path_factory.mktemp("console-pair")) as cluster:
        master = cluster.start_broker()
        yield master, cluster.start_slave(), cluster.namesrv


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Figures], Figures]]:
    """What brokers tell of themselves, made worse on its way: by address."""
    invoke = RemotingClient.invoke
    worse: dict[str, Callable[[Figures], Figures]] = {}

    async def altered(
        self: RemotingClient, address: str, code: RequestCode, *args: Any, **kwargs: Any
    ) -> Response:
        answer = await invoke(self, address, code, *args, **kwargs)
        if code is not RequestCode.GET_BROKER_RUNTIME_INFO or address not in worse:
            return answer
        table = worse[address](dict(decode_body(KVTable, answer.body).table))
        return msgspec.structs.replace(answer, body=encode_body(KVTable(table=table)))

    monkeypatch.setattr(RemotingClient, "invoke", altered)
    return worse


async def troubles(asked: Asked) -> list[str]:
    """What the page says first."""
    page = await asked.page("/")
    assert page.index('id="wrong"') < page.index('id="name-servers"') < page.index("<table")
    found = re.findall(r'<li class="(?:bad|warning)">(.*?)</li>', page, re.DOTALL)
    return [" ".join(html.unescape(re.sub("<[^>]+>", "", each)).split()) for each in found]


@asynchronous
async def test_a_cluster_that_is_well(pair: tuple[DaemonProcess, DaemonProcess, str]) -> None:
    master, slave, namesrv = pair
    async with a_console(namesrv) as asked:

        async def both() -> bool:
            page = await asked.page("/")
            return "Nothing is wrong" in page and master.address in page and slave.address in page

        await until(both, "both are shown, and nothing is wrong")
        page = await asked.page("/")
        assert ">master<" in page
        assert ">slave<" in page
        assert 'data-label="Version">V4_9_8' in page
        assert re.search(r'data-label="Disk">\d+ %', page)
        assert re.search(r'data-label="Behind">[\d.]+ B<', page)


@asynchronous
async def test_what_a_slave_copies_has_come_in_once(
    pair: tuple[DaemonProcess, DaemonProcess, str], told: dict[str, Callable[[Figures], Figures]]
) -> None:
    master, slave, namesrv = pair
    today = {"msgPutTotalTodayMorning": "0", "msgPutTotalTodayNow": "50"}
    told |= {
        master.address: lambda figures: figures | today | {"putTps": "30.0 1.0 1.0"},
        slave.address: lambda figures: figures | today | {"putTps": "20.0 1.0 1.0"},
    }
    async with a_console(namesrv) as asked:
        page = await asked.page("/")
        found = re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page)
        assert found[0] == ("messages/s in, over ten seconds", "30")
        assert found[2] == ("messages in today", "50")
        assert re.findall(r'data-label="In/s">([^<]+)<', page) == ["30", "20"]


def disk(ratio: str) -> Callable[[Figures], Figures]:
    return lambda figures: figures | {"commitLogDiskRatio": ratio}


def an_hour_off(figures: Figures) -> Figures:
    return figures | {"bootTimestamp": str(int(figures["bootTimestamp"]) + 3_600_000)}


def no_byte(figures: Figures) -> Figures:
    return figures | {"commitLogMaxOffset": "0"}


def many_bytes(figures: Figures) -> Figures:
    return figures | {"commitLogMaxOffset": str(5 << 20)}


@pytest.mark.parametrize(
    ("of_master", "of_slave", "said"),
    [
        (many_bytes, no_byte, "Look at: broker-a (slave, {slave}) is 5.0 MiB behind its master."),
        (disk("0.76"), None, "Look at: The disk of broker-a (master, {master}) is 76 % full"),
        (disk("0.86"), None, "Wrong: The disk of broker-a (master, {master}) is 86 % full"),
        (None, disk("0.95"), "Wrong: The disk of broker-a (slave, {slave}) is 95 % full"),
        (an_hour_off, None, "Look at: The clock of broker-a (master, {master}) is 60 min ahead of"),
    ],
)
@asynchronous
async def test_what_brokers_tell(
    pair: tuple[DaemonProcess, DaemonProcess, str],
    told: dict[str, Callable[[Figures], Figures]],
    of_master: Callable[[Figures], Figures] | None,
    of_slave: Callable[[Figures], Figures] | None,
    said: str,
) -> None:
    master, slave, namesrv = pair
    told |= {master.address: of_master} if of_master else {}
    told |= {slave.address: of_slave} if of_slave else {}
    async with a_console(namesrv) as asked:
        (found,) = await troubles(asked)
        assert found.startswith(said.format(master=master.address, slave=slave.address))


@asynchronous
async def test_a_group_that_falls_behind_and_nobody_is_there(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    seen: list[bytes] = []

    async def handle(message: Any) -> None:
        seen.append(message.body)

    async def send(count: int) -> None:
        async with Producer("p", namesrv=shared.namesrv) as producer:
            for _ in range(count):
                await producer.send(Message(topic, b"x"))

    consumer = PushConsumer(group, namesrv=shared.namesrv, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    consumer.on_message(handle)
    async with a_console(shared.namesrv) as asked:
        view = await asked.console.views.of(None)

        async def lag() -> int:
            view.lags.forget()
            return (await view.lags.get()).value.by_group.get(group, (-1, 0, 0))[0]

        async with consumer:
            await send(1)
            await until(lambda: seen, "the message is consumed")
        await until(lambda: _is(lag, 0), "the group has told how far it is")
        await until(lambda: _is(partial(view.has_members, group), False), "nobody is there")
        await send(3)
        await until(lambda: _is(lag, 3), "the group is behind")
        said = f"The group {group} falls behind and nobody of it is connected: 3 messages wait."
        assert [each for each in await troubles(asked) if group in each] == [f"Wrong: {said} Look"]
        assert f'href="/group?name={group}">Look' in await asked.page("/")
        assert "falls behind, nobody is connected" in await asked.page("/groups", q=group)
        await lag()  # still behind, but not further
        assert not [each for each in await troubles(asked) if group in each]


async def _is(figure: Callable[[], Any], wanted: int) -> bool:
    return bool(await figure() == wanted)


@asynchronous
async def test_a_broker_and_a_name_server_that_are_gone(cluster: Cluster) -> None:
    second = await asyncio.to_thread(cluster.second_name_server)
    both = f"{cluster.namesrv};{second.address}"
    await asyncio.to_thread(cluster.start_broker, namesrvAddr=both)
    async with a_console(both) as asked:
        view = await asked.console.views.of(None)

        async def said(text: str) -> bool:
            view.overview.forget()
            return any(text in each for each in await troubles(asked))

        await until(lambda: asked.page("/"), "there is a page")
        second.end()
        await until(
            lambda: said(f"Wrong: The name server {second.address} does not answer"),
            "the page says that a name server is gone",
        )
        cluster.kill_broker("broker-a")
        await until(lambda: said("broker-a is gone"), "the page says that the broker is gone")
        found = await troubles(asked)
        assert any("knows no broker" in each for each in found)
