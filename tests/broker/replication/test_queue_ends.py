"""A replica asks where the queues end of which its log has nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.queue_ends import take_from_others
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.model.errors import StoreFileError

from .slave_scenes import Pair, play

BIG = bytes(400_000)
FILE = 1 << 20


async def with_expired(pair: Pair) -> None:
    """Of Old nothing is left at the master; the slave begins behind it."""
    for _ in range(3):
        await pair.at_master.send("Old", b"")
    for _ in range(3):
        await pair.at_master.send("T", BIG)
    store = pair.master.broker.store
    await store.sync()
    store._log.files.drop_first().delete()
    await store.cleaning._follow_log()
    data = store.read(FILE, store.max_phy_offset - FILE)
    assert data is not None
    pair.slave.broker.store.replica.append(FILE, data)


def counted(pair: Pair, then: Callable[[], object] = lambda: None) -> list[RequestCode]:
    """What is asked from now on; ``then`` happens while queues are asked for."""
    asked: list[RequestCode] = []
    invoke = pair.network.invoke

    async def counting(address: str, code: RequestCode, *args: Any, **how: Any) -> Response:
        asked.append(code)
        response = await invoke(address, code, *args, **how)
        if code is RequestCode.GET_QUEUE_ENDS:
            then()
        return response

    pair.network.invoke = counting  # type: ignore[method-assign]
    return asked


def known(pair: Pair) -> tuple[int, int]:
    store = pair.slave.broker.store
    return store.min_offset("Old", 0), store.max_offset("Old", 0)


def test_a_slave_tells_consumers_what_its_master_does(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        asked = counted(pair)
        for _ in range(3):
            await pair.once()
        assert asked.count(RequestCode.GET_QUEUE_ENDS) == 1, "once after a start"
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            request = QueueRequest(topic="Old", queue_id=0)
            answers = [
                (await client.ask(code, request)).check().header.offset
                for client in (pair.at_master, pair.at_slave)
            ]
            assert answers == [3, 3]
        await pair.at_master.send("Old", b"new")
        pair.replicate()
        assert known(pair) == (3, 4)

    play(tmp_path, scene)


def test_nothing_is_asked_while_there_is_no_log(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        asked = counted(pair)
        await pair.once()
        assert RequestCode.GET_QUEUE_ENDS not in asked
        await with_expired(pair)
        await pair.once()
        assert known(pair) == (3, 3)

    play(tmp_path, scene)


def test_a_master_of_the_original_does_not_know_the_question(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        pair.network.original = True
        asked = counted(pair)
        for _ in range(3):
            await pair.once()
        assert asked.count(RequestCode.GET_QUEUE_ENDS) == 1
        assert known(pair) == (0, 0)

    play(tmp_path, scene)


def test_what_fails_is_tried_again(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        invoke = pair.network.invoke

        async def in_vain(address: str, code: RequestCode, *args: Any, **how: Any) -> Response:
            if code is RequestCode.GET_QUEUE_ENDS:
                raise ConnectError("closed")
            return await invoke(address, code, *args, **how)

        pair.network.invoke = in_vain  # type: ignore[method-assign]
        await pair.once()
        assert known(pair) == (0, 0)
        pair.network.invoke = invoke  # type: ignore[method-assign]
        await pair.once()
        assert known(pair) == (3, 3)

    play(tmp_path, scene)


def test_who_is_interrupted_asks_again(tmp_path: Path) -> None:
    """As a member of a group whose leader is lost meanwhile."""

    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        asked = counted(pair, lambda: asking.cancel())
        asking = asyncio.create_task(pair.once())
        await asyncio.wait((asking,))
        assert asking.cancelled()
        assert asked.count(RequestCode.GET_QUEUE_ENDS) == 1
        for _ in range(2):
            await pair.once()
        assert known(pair) == (3, 3)
        assert asked.count(RequestCode.GET_QUEUE_ENDS) == 2

    play(tmp_path, scene)


@pytest.mark.parametrize("times", [1, 2])
def test_what_was_told_counts_once_it_is_on_the_disk(tmp_path: Path, times: int) -> None:
    """A member notes that it knows; after a power failure it would not, and ask nobody."""

    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        asked, flush = counted(pair), pair.slave.broker.store.flush
        sync = flush._sync_queues_and_checkpoint

        def fails(*_work: object) -> None:
            raise StoreFileError(tmp_path, "cannot be synced")

        flush._sync_queues_and_checkpoint = fails  # type: ignore[method-assign, assignment]
        for _ in range(times):
            await pair.once()
            assert pair.slave.broker.store.gone_queues.wanted
        flush._sync_queues_and_checkpoint = sync  # type: ignore[method-assign]
        for _ in range(2):
            await pair.once()
        assert known(pair) == (3, 3)
        assert asked.count(RequestCode.GET_QUEUE_ENDS) == times + 1
        assert not pair.slave.broker.store.gone_queues.wanted

    play(tmp_path, scene)


CHANGES: dict[str, Callable[[Pair], object]] = {
    "a topic": lambda pair: pair.slave.broker.state.topics.update(TopicConfig(topic_name="T2")),
    "the master": lambda pair: pair.sync.forget_master(),
    "the process": lambda pair: setattr(pair.network, "client", pair.master.connect()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_meanwhile_is_asked_for_again(
    tmp_path: Path, change: Callable[[Pair], object]
) -> None:
    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        happens = [change]
        counted(pair, lambda: happens.pop()(pair) if happens else None)
        pair.slave.clock.advance(1)  # or versions would be the same
        await pair.once()
        assert known(pair) == (0, 0)
        await pair.once()
        assert known(pair) == (3, 3)

    play(tmp_path, scene)


async def _address(address: str | None) -> str | None:
    return address


def test_who_leads_and_does_not_know_asks_all_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(pair: Pair) -> None:
        await with_expired(pair)
        store, remoting, current = pair.slave.broker.store, pair.network, True

        async def take(*addresses: str | None) -> None:
            found = map(_address, addresses)
            await take_from_others(store, remoting, found, lambda: current)  # type: ignore[arg-type]

        pair.network.backs_off = True
        await take("10.0.0.1:10911", None)
        assert known(pair) == (0, 0)
        assert "their numbers begin at 0 again" in caplog.text
        caplog.clear()
        pair.network.backs_off, current = False, False
        await take("10.0.0.1:10911")
        assert known(pair) == (0, 0), "it does not lead any more"
        current = True
        caplog.clear()
        await take(None, "10.0.0.1:10911")
        assert known(pair) == (3, 3)
        assert "begin at 0" not in caplog.text

    play(tmp_path, scene)


def test_others_have_a_turn_while_queues_are_looked_at(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        gone = pair.master.broker.store.gone_queues
        for number in range(300):
            gone.take("Old", number, 3)
        assert len(list(gone.ends_before(0))) == 3
        await with_expired(pair)
        await pair.once()
        store = pair.slave.broker.store
        assert [store.max_offset("Old", number) for number in range(300)] == [6] + [3] * 299

    play(tmp_path, scene)
