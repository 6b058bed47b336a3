"""A topic that a message makes is on the disk before the sender is told that the message is
stored."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.store.model.config import FlushDiskType
from aiorocketmq.store.model.errors import StoreFileError

from ...sim import turns
from ..sim_broker import SimBroker, SimClient, sim_broker, store_config


class Gate:
    """``topics.json`` is written when the test says so, or not at all."""

    def __init__(self, sim: SimBroker) -> None:
        self.opened = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.broken = False
        self.begun = 0
        self.while_it_is_written: Callable[[], None] | None = None
        """Called once, in the loop, when a file with what has changed so far is being written."""
        self._file = sim.broker.tables.topics_file
        self._save = self._file.save
        self._write = self._file._write
        self._file.save = self._held  # type: ignore[method-assign]
        self._file._write = self._write_or_fail  # type: ignore[method-assign]

    async def _held(self) -> None:
        self.begun += 1
        await self.opened.wait()
        await self._save()

    def _write_or_fail(self, number: int, record: Record) -> None:
        if self.broken:
            raise StoreFileError(Path("topics.json"), "no space left on device")
        if (hook := self.while_it_is_written) is not None:
            self.while_it_is_written, done = None, threading.Event()

            def call() -> None:
                hook()
                done.set()

            self._loop.call_soon_threadsafe(call)
            assert done.wait(30)
        self._write(number, record)


@asynccontextmanager
async def gated(folder: Path, **store: Any) -> AsyncIterator[tuple[SimBroker, SimClient, Gate]]:
    settings = store_config(folder, **store)
    async with asyncio.timeout(30), sim_broker(folder, store=settings) as sim:
        services = asyncio.create_task(sim.broker.store.run())
        await sim.connect().send("known", b"0")
        yield sim, sim.connect(), Gate(sim)
        services.cancel()
        await asyncio.gather(services, return_exceptions=True)


def message(topic: str, **change: Any) -> SendMessageRequest:
    usual: dict[str, Any] = {
        "producer_group": "p", "topic": topic, "default_topic": "TBW102",
        "default_topic_queue_nums": 4, "queue_id": 0,
        "sys_flag": 0, "born_timestamp": 1, "flag": 0,
        "properties": "UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF",
    }  # fmt: skip
    return SendMessageRequest(**usual | change)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def topics_in(folder: Path) -> set[str]:
    return set(json.loads((folder / "config" / "topics.json").read_text())["topicConfigTable"])


def send(client: SimClient, topic: str, **change: Any) -> asyncio.Future[Any]:
    return asyncio.ensure_future(
        client.ask(RequestCode.SEND_MESSAGE, message(topic, **change), b"body")
    )


def test_an_answer_means_that_the_topic_is_on_the_disk(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (_, client, gate):
            asked = [
                send(client, "new"),
                send(client, "new"),
                send(client, "new", properties="DELAY\x013"),
            ]
            await until(lambda: gate.begun > 0)
            await turns()
            assert not any(each.done() for each in asked)
            assert "new" not in topics_in(tmp_path)
            gate.opened.set()
            assert {(await each).check().code for each in asked} == {0}
            assert "new" in topics_in(tmp_path)

    asyncio.run(scene())


def set_queues(sim: SimBroker, queues: int) -> None:
    known = sim.broker.state.topics.get("known")
    assert known is not None
    wanted = replace(known.config, write_queue_nums=queues, read_queue_nums=queues)
    sim.broker.state.topics.update(wanted)


@contextmanager
def standing_time() -> Iterator[Callable[[float], None]]:
    """The time of the loop, by which ``asyncio.timeout`` goes, stands still. What is given puts it
    to so many seconds from the begin."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with mock.patch.object(loop, "time", return_value=began) as time:

        def put_to(seconds: float) -> None:
            time.return_value = began + seconds

        yield put_to


def told_by(sim: SimBroker) -> list[str]:
    """The topics that name servers are told of from now on."""
    told: list[str] = []
    link = type("Link", (), {"register_topic": staticmethod(told.append)})
    sim.broker.registry.name_servers.links.append(link)  # type: ignore[arg-type]
    return told


def test_consumers_hear_of_a_topic_that_is_on_the_disk(tmp_path: Path) -> None:
    """Else one reads a message that is gone with the topic, when the broker is killed now."""

    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            told = told_by(sim)
            asked = send(client, "new")
            await until(lambda: gate.begun > 0)
            await turns()
            assert told == []
            gate.opened.set()
            (await asked).check()
            assert told == ["new"]
            assert "new" in topics_in(tmp_path)

    asyncio.run(scene())


def test_nor_do_they_by_a_registration_of_all_topics_that_is_due_meanwhile(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            asked = send(client, "new")
            await until(lambda: gate.begun > 0)
            due = asyncio.create_task(sim.broker.registry.name_servers.all_topics())
            await turns()
            assert not due.done()
            gate.opened.set()
            assert "new" in (await due).topic_config_table
            assert "new" in topics_in(tmp_path)
            (await asked).check()

    asyncio.run(scene())


def test_a_registration_waits_ten_seconds_for_a_disk_that_takes_its_time(tmp_path: Path) -> None:
    """Then the broker tells all that it knows: who is not heard of for two minutes is forgotten."""

    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            asked = send(client, "new")
            await until(lambda: gate.begun > 0)
            with standing_time() as put_to:
                due = asyncio.create_task(sim.broker.registry.name_servers.all_topics())
                await turns()
                put_to(9.9)
                await turns()
                assert not due.done()
                put_to(10.1)
                await turns()
                assert due.done()
            assert {"known", "new"} <= (await due).topic_config_table.keys()
            assert "new" not in topics_in(tmp_path)
            assert not asked.done(), "who sent still waits"
            gate.opened.set()
            (await asked).check()
            assert "new" in topics_in(tmp_path)

    asyncio.run(scene())


def test_a_disk_that_takes_no_topics_does_not_keep_the_broker_from_being_known(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            gate.broken = True
            gate.opened.set()
            asked = send(client, "new")
            await until(lambda: gate.begun > 0)
            assert (
                "known" in (await sim.broker.registry.name_servers.all_topics()).topic_config_table
            )
            assert (await asked).code == ResponseCode.FLUSH_DISK_TIMEOUT

    asyncio.run(scene())


def test_each_of_two_new_topics_is_told_with_its_own_version(tmp_path: Path) -> None:
    """A name server that has a version takes in nothing else that comes with it."""

    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            told: dict[str, object] = {}
            name_servers = sim.broker.registry.name_servers

            def register_topic(name: str) -> None:
                told[name] = name_servers.told_version

            link = type("Link", (), {"register_topic": staticmethod(register_topic)})
            name_servers.links.append(link)  # type: ignore[arg-type]
            asked = [send(client, "first")]
            gate.while_it_is_written = lambda: asked.append(send(client, "second"))
            gate.opened.set()
            await until(lambda: len(asked) == 2)
            assert {(await each).check().code for each in asked} == {0}
            first, second = told["first"], told["second"]
            assert first != second == sim.broker.state.topics.data_version

    asyncio.run(scene())


def test_a_message_in_a_queue_that_was_added_waits_for_the_file_too(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            told = told_by(sim)
            set_queues(sim, 8)
            first = send(client, "known", queue_id=7)
            second: list[asyncio.Future[Any]] = []

            def another_change() -> None:
                set_queues(sim, 9)
                second.append(send(client, "known", queue_id=8))

            gate.while_it_is_written = another_change
            await until(lambda: gate.begun > 0)
            await turns()
            assert not first.done()
            assert told == []
            gate.opened.set()
            await until(lambda: gate.begun > 1)
            assert second
            assert not second[0].done(), "the file has eight queues"
            assert told == []
            (await first).check()
            (await second[0]).check()
            assert told == ["known"], "once, with both changes"

    asyncio.run(scene())


def test_nobody_else_waits_and_nothing_is_slower_afterwards(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            first = send(client, "new")
            await until(lambda: gate.begun > 0)
            assert (await sim.connect().send("known", b"1")).queue_offset == 1
            assert not first.done()
            gate.opened.set()
            (await first).check()
            handler = sim.broker.table[RequestCode.SEND_MESSAGE]
            assert not handler.__self__._answers.waits  # type: ignore[union-attr]

    asyncio.run(scene())


def test_order_stays_as_it_came(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (_, client, gate):
            asked = [send(client, "new") for _ in range(10)]
            await until(lambda: gate.begun > 0)
            gate.opened.set()
            asked += [send(client, "new") for _ in range(10)]
            assert [(await each).check().header.queue_offset for each in asked] == list(range(20))

    asyncio.run(scene())


def test_a_file_that_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            gate.broken = True
            gate.opened.set()
            for _ in range(2):
                answer = await send(client, "new")
                assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
                assert answer.header is not None
            assert (await send(client, "known")).code == 0
            gate.broken = False
            sim.clock.advance(60)
            await until(lambda: not sim.broker.sends.new_topics._held)
            assert "new" in topics_in(tmp_path)
            answer = (await send(client, "new")).check()
            assert answer.header.queue_offset == 2, "the first ones were kept"

    asyncio.run(scene())


def test_with_sync_flush_both_count(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as (_, client, gate):
            asked = send(client, "new")
            await until(lambda: gate.begun > 0)
            await turns()
            assert not asked.done()
            gate.opened.set()
            (await asked).check()

    asyncio.run(scene())


def give_up(client: SimClient, phy_offset: int) -> asyncio.Future[Any]:
    """After the last attempt of group ``g``."""
    request = ConsumerSendMsgBackRequest(
        group="g", offset=phy_offset, delay_level=-1, origin_msg_id="", origin_topic="known"
    )
    return asyncio.ensure_future(client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, request))


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("by_its_producer", [False, True])
def test_a_dead_letter_is_in_a_topic_that_is_on_the_disk(
    tmp_path: Path, by_its_producer: bool, flush: FlushDiskType
) -> None:
    """Its consumer goes past the message when it is answered."""

    async def scene() -> None:
        async with gated(tmp_path, flush_disk_type=flush) as (sim, client, gate):
            gate.opened.set()
            (await client.heartbeat("c", "g")).check()
            (await send(client, "%RETRY%g")).check()
            gate.opened.clear()
            gate.begun = 0
            if by_its_producer:
                asked = send(client, "%RETRY%g", reconsume_times=16, max_reconsume_times=16)
            else:
                asked = give_up(client, 0)
            await until(lambda: gate.begun > 0)
            if flush is FlushDiskType.SYNC_FLUSH:
                await sim.broker.store.sync()
            await turns()
            assert "%DLQ%g" in sim.broker.state.topics
            assert not asked.done()
            assert (await send(client, "known")).code == 0
            gate.opened.set()
            (await asked).check()
            assert "%DLQ%g" in topics_in(tmp_path)
            assert sim.broker.store.max_offset("%DLQ%g", 0) == 1

    asyncio.run(scene())


def test_a_dead_letter_topic_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            gate.opened.set()
            (await client.heartbeat("c", "g")).check()
            await sim.broker.tables.topics_file.saved()
            gate.broken = True
            for _ in range(2):
                assert (await give_up(client, 0)).code == ResponseCode.SYSTEM_ERROR
            gate.broken = False
            sim.clock.advance(60)
            await until(lambda: not sim.broker.sends.new_topics._held)
            assert (await give_up(client, 0)).code == 0

    asyncio.run(scene())


def test_connections_that_are_gone_get_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            other = sim.connect()
            lost, asked = send(other, "new"), send(client, "new")
            await until(lambda: gate.begun > 0)
            other.connection.close()
            gate.opened.set()
            assert (await asked).code == 0
            assert (await asyncio.gather(lost, return_exceptions=True))[
                0
            ].__class__.__name__ != "Response"
            assert other.at_broker.in_flight == 0

    asyncio.run(scene())


def test_oneway_messages_are_stored_without_an_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        async with gated(tmp_path) as (sim, client, gate):
            client.connection.invoke_oneway(RequestCode.SEND_MESSAGE, message("new"), b"body")
            await until(lambda: gate.begun > 0)
            gate.opened.set()
            assert (await send(client, "new")).check().header.queue_offset == 1
            assert sim.broker.state.topics.get("new") is not None

    asyncio.run(scene())
