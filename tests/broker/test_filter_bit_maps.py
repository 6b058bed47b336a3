"""Bit maps in the extension of the consume queue: messages that a group does not want are not
looked at."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiorocketmq.broker.filter.bloom import BloomFilter
from aiorocketmq.broker.state.clients import Subscription
from aiorocketmq.broker.state.consumer_filters import ConsumerFilters
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import GetResult
from tests.stored import decode_messages

from ..sim import ManualClock, told_of
from ..store.world import Filter
from .sim_broker import sim_broker, store_config

HOST = pack_host("127.0.0.1", 10911)
BORN = 1000


def open_store(folder: Path, filters: ConsumerFilters) -> MessageStore:
    config = store_config(
        folder, mapped_file_size_consume_queue_ext=1 << 16, enable_consume_queue_ext=True
    )
    return MessageStore.open(config, ManualClock(), store_host=HOST, bitmap_of=filters.bit_map)


def put(store: MessageStore, values: range, stored_ms: int = BORN + 1) -> None:
    for value in values:
        store.put_message(PutMessage("T", 0, b"%d" % value, b"a\x01%d" % value, HOST, 1, stored_ms))


def filters_of(group: str, expression: str) -> ConsumerFilters:
    filters = ConsumerFilters(BloomFilter.for_groups(32, 20), told_of())
    at_once(filters.register(group, [wanted(expression)], lambda: BORN))
    return filters


def wanted(expression: str) -> Subscription:
    return Subscription(
        SubscriptionData(topic="T", sub_string=expression, sub_version=1, expression_type="SQL92")
    )


class Looking:
    """A pull by the registered filter; ``seen`` are the messages that were looked at themselves."""

    def __init__(self, store: MessageStore, filters: ConsumerFilters, group: str = "g") -> None:
        found = filters.get("T", group)
        assert found is not None
        self.seen = 0

        def accepts(data: bytes, start: int, stop: int) -> bool:
            self.seen += 1
            return found.accepts(data, start, stop)

        self.result: GetResult = store.get(
            "T", 0, 0, record_filter=Filter(accepts, found.accepts_ext)
        )

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in decode_messages(self.result.body)]


def test_only_messages_with_the_bits_are_looked_at(tmp_path: Path) -> None:
    filters = filters_of("g", "a > 17")
    store = open_store(tmp_path, filters)
    put(store, range(20))
    look = Looking(store, filters)
    assert (look.bodies, look.seen, look.result.next_begin_offset) == ([b"18", b"19"], 2, 20)
    store.close()


def test_messages_from_before_the_filter_are_all_looked_at(tmp_path: Path) -> None:
    filters = filters_of("g", "a > 17")
    store = open_store(tmp_path, filters)
    put(store, range(20), stored_ms=BORN)
    assert Looking(store, filters).seen == 20
    store.close()


def test_bits_are_there_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    filters = filters_of("g", "a > 17")
    store = open_store(tmp_path, filters)
    put(store, range(20))
    store.close()
    again = open_store(tmp_path, filters)
    assert Looking(again, filters).seen == 2
    put(again, range(20, 24))
    again._close_files()  # no orderly stop: queue and extension are made again from the log
    for path in [*tmp_path.glob("consumequeue/T/0/*"), *tmp_path.glob("consumequeue_ext/T/0/*")]:
        path.unlink()
    (tmp_path / "abort").touch()
    recovered = open_store(tmp_path, filters)
    look = Looking(recovered, filters)
    assert look.bodies == [b"18", b"19", b"20", b"21", b"22", b"23"]
    assert look.seen == 6
    recovered.close()


def test_what_a_clock_that_was_ahead_has_stored_is_looked_at_after_a_restart(
    tmp_path: Path,
) -> None:
    """The clock is right again, and an expression new: what is stored has no bits of it."""
    clock = ManualClock()
    store = open_store(tmp_path, filters_of("another", "a > 30"))
    put(store, range(20), stored_ms=clock.time_ms() + 3_600_000)
    store.close()

    async def main() -> None:
        async with sim_broker(tmp_path, store=store.config, clock=clock) as world:
            filters = world.broker.state.filters
            at_once(filters.register("g", [wanted("a > 17")], clock.time_ms))
            assert Looking(world.broker.store, filters).bodies == [b"18", b"19"]

    asyncio.run(main())
