"""The filters that groups bring with their heartbeats (``broker-services.md`` §7.4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.filter.bloom import BloomFilter, mask_of
from aiorocketmq.broker.state.clients import Subscription
from aiorocketmq.broker.state.config_files import ConfigFiles
from aiorocketmq.broker.state.consumer_filter_file import FilterPersistence, load_filters
from aiorocketmq.broker.state.consumer_filters import ConsumerFilters, RetryFilter
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.queues.consume_queue_ext import ExtUnit

from ...golden_files import golden_member
from ...sim import ManualClock, told_of

BLOOM = BloomFilter.for_groups(32, 20)
DAY_MS = 24 * 3600 * 1000


def sql(topic: str, expression: str, version: int = 1, kind: str = "SQL92") -> Subscription:
    return Subscription(
        SubscriptionData(
            topic=topic, sub_string=expression, sub_version=version, expression_type=kind
        )
    )


def filters_with(
    *subscriptions: Subscription, group: str = "g", now_ms: int = 100
) -> ConsumerFilters:
    filters = ConsumerFilters(BLOOM, told_of())
    at_once(filters.register(group, subscriptions, lambda: now_ms))
    return filters


def expression_of(filters: ConsumerFilters, topic: str = "T", group: str = "g") -> str | None:
    found = filters.get(topic, group)
    return None if found is None else found.filter.text


def test_a_filter_is_born_when_it_is_known_and_not_when_its_heartbeat_came() -> None:
    """What is stored in between has no bits of it, and has to be looked at itself."""
    filters, clock = ConsumerFilters(BLOOM, told_of()), ManualClock()
    wanted = [sql(f"T{number}", f"a = '{'x' * 1500}'") for number in range(3)]
    for _ in filters.register("g", wanted, clock.time_ms):
        clock.advance(1)
    last = filters.get("T2", "g")
    assert last is not None
    before = last.born_time_ms
    assert before == clock.time_ms() > ManualClock().time_ms()
    assert last.accepts_ext(ExtUnit(0, before, bytes(BLOOM.size_bytes)))
    assert not last.accepts_ext(ExtUnit(0, before + 1, bytes(BLOOM.size_bytes)))


def test_what_is_stored_already_has_no_bits_whatever_the_clock_says_now() -> None:
    """It was put back, or the messages have come from a master whose clock is ahead."""
    filters = filters_with(sql("T", "a > 1"))
    filters.bit_map("T", b"b\x011", 0, 5000)
    filters.bit_map("Other", b"", 0, 4000)
    at_once(filters.register("new", [sql("T", "b = 1")], lambda: 1000))
    new = filters.get("T", "new")
    assert new is not None
    assert new.accepts_ext(ExtUnit(0, 5000, bytes(BLOOM.size_bytes)))
    assert not new.accepts_ext(ExtUnit(0, 5001, bytes(BLOOM.size_bytes)))
    filters.unregister("new", 1500)
    assert new.is_dead


def test_a_heartbeat_brings_filters_and_tags_are_none() -> None:
    filters = filters_with(sql("T", "a > 1"), sql("U", "TagA", kind="TAG"))
    assert expression_of(filters) == "a > 1"
    assert filters.get("U", "g") is None
    assert len(filters) == 1


@pytest.mark.parametrize(
    ("version", "expression", "expected"),
    [
        (4, "a > 2", "a > 2"),
        (5, "a > 2", "a > 2"),
        (6, "a > 2", "a > 2"),
        (6, "a >", None),
        (4, "a >", None),
        (4, "a > 1", "a > 1"),
    ],
)
def test_another_expression_of_the_group_replaces_a_filter_whatever_its_version(
    version: int, expression: str, expected: str | None
) -> None:
    filters = filters_with(sql("T", "a > 1", 5))
    at_once(filters.register("g", [sql("T", expression, version)], lambda: 200))
    assert expression_of(filters) == expected


def test_what_does_not_compile_is_told_and_leaves_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    filters = filters_with(sql("T", "a >"), sql("U", "b = 1"), sql("V", "b = 1", kind="XPATH"))
    assert (expression_of(filters, "T"), expression_of(filters, "U"), len(filters)) == (
        None,
        "b = 1",
        1,
    )
    assert "position 4" in caplog.text
    assert "there is no expression type XPATH" in caplog.text


def test_what_does_not_compile_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    filters = ConsumerFilters(BLOOM, Outages(clock))
    for version in range(1, 6):  # a heartbeat each
        at_once(filters.register("g", [sql("T", "a >", version)], lambda: 5))
    assert len(caplog.records) == 1
    at_once(filters.register("g", [sql("T", "a = ", 6)], lambda: 6))
    assert len(caplog.records) == 2
    at_once(filters.register("g", [sql("T", "a = 1", 7)], lambda: 7))
    assert expression_of(filters) == "a = 1"
    clock.advance(60)
    at_once(filters.register("g", [sql("T", "a >", 8)], lambda: 8))
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 3


def test_a_filter_dies_with_its_subscription_or_group_and_comes_back() -> None:
    filters = filters_with(sql("T", "a > 1", 5), sql("U", "a > 1", 5))
    at_once(filters.register("g", [sql("T", "a > 1", 5)], lambda: 200))
    living, dead = filters.get("T", "g"), filters.get("U", "g")
    assert living is not None
    assert dead is not None
    assert (living.is_dead, dead.is_dead, dead.dead_time_ms) == (False, True, 200)
    filters.unregister("g", 300)
    assert (living.is_dead, living.dead_time_ms, dead.dead_time_ms) == (True, 300, 200)
    at_once(filters.register("g", [sql("T", "a > 1", 5)], lambda: 400))
    assert (living.is_dead, living.dead_time_ms, living.born_time_ms) == (False, 0, 100)


def test_a_dead_filter_gives_way_to_another_expression_whatever_the_version() -> None:
    filters = filters_with(sql("T", "a > 1", 5))
    filters.unregister("g", 200)
    at_once(filters.register("g", [sql("T", "a > 2", 3)], lambda: 300))
    found = filters.get("T", "g")
    assert found is not None
    assert (found.filter.text, found.version, found.born_time_ms, found.is_dead) == (
        "a > 2",
        3,
        300,
        False,
    )


def test_the_dead_are_forgotten_after_a_while() -> None:
    filters = filters_with(sql("T", "a > 1"), sql("U", "a > 1"))
    at_once(filters.register("g", [sql("U", "a > 1")], lambda: 1000))
    filters.clean(1000 + DAY_MS - 1, DAY_MS)
    assert len(filters) == 2
    filters.clean(1000 + DAY_MS, DAY_MS)
    assert [filters.get("T", "g"), expression_of(filters, "U")] == [None, "a > 1"]


def test_all_expressions_together_have_a_limit() -> None:
    filters = ConsumerFilters(BLOOM, told_of())
    long = "a IN (" + ",".join(["'" + "x" * 100 + "'"] * 78) + ")"
    for number in range(200):
        at_once(filters.register(f"g{number}", [sql("T", long)], lambda: 100))
    assert len(filters) == (1 << 20) // len(long) < 200
    filters.unregister("g0", 200)
    filters.clean(200 + DAY_MS, DAY_MS)
    at_once(filters.register("late", [sql("T", long)], lambda: 300))
    assert expression_of(filters, group="late") == long


def test_the_bit_map_of_a_message_has_the_groups_that_want_it() -> None:
    filters = filters_with(sql("T", "a > 1"), group="one")
    at_once(filters.register("two", [sql("T", "a > 5")], lambda: 100))
    one, two = filters.get("T", "one"), filters.get("T", "two")
    assert one is not None
    assert two is not None
    assert filters.bit_map("U", b"a\x019") is None
    for properties, wanted in ((b"a\x019", (one, two)), (b"a\x013", (one,)), (b"a\x010", ())):
        bits = filters.bit_map("T", properties)
        positions = {position for each in wanted for position in each.positions}
        assert bits == mask_of(positions).to_bytes(BLOOM.size_bytes, "little")
        assert [each.accepts_ext(ExtUnit(0, 101, bits)) for each in (one, two)] == [
            one in wanted,
            two in wanted,
        ]


@pytest.mark.parametrize(
    ("stored_ms", "bits"), [(100, bytes(14)), (99, bytes(14)), (101, b""), (101, bytes(13))]
)
def test_bits_count_only_when_the_filter_was_there_and_they_are_of_this_bloom_filter(
    stored_ms: int, bits: bytes
) -> None:
    found = filters_with(sql("T", "a > 1"), now_ms=100).get("T", "g")
    assert found is not None
    assert found.accepts_ext(ExtUnit(0, stored_ms, bits))
    assert not found.accepts_ext(ExtUnit(0, 101, bytes(14)))


def test_a_retried_message_is_filtered_as_the_topic_it_comes_from() -> None:
    filters = filters_with(sql("T", "a > 1"))
    retry = RetryFilter(filters, "g")
    costly = RetryFilter(filters_with(sql("T", " OR ".join(f"a = {n}" for n in range(100)))), "g")
    assert costly.scan_limit < retry.scan_limit
    assert RetryFilter(filters, "others").scan_limit == 100

    def wanted(**properties: str) -> bool:
        data = encode_record(NewRecord(
            "%RETRY%g", 0, b"", encode_properties(properties), queue_offset=0, phy_offset=0,
            sys_flag=0, born_timestamp=1,
            born_host=bytes(8), store_timestamp=1, store_host=bytes(8),
        ))  # fmt: skip
        return retry.accepts(data, 0, len(data))

    assert wanted(RETRY_TOPIC="T", a="2")
    assert not wanted(RETRY_TOPIC="T", a="1")
    assert wanted(RETRY_TOPIC="Other", a="1")
    assert wanted(a="1")


# --- the file
# --------------------------------------------------------------------------------------------------


def persistence(
    folder: Path, clock: ManualClock, **config: Any
) -> tuple[ConsumerFilters, FilterPersistence, ConfigFiles]:
    settings = BrokerConfig(broker_ip1="127.0.0.1", **config)
    files = ConfigFiles(folder, clock)
    filters = load_filters(settings, files, clock)
    return (
        filters,
        FilterPersistence(
            settings, filters, files.add("consumerFilter.json", filters.record), clock
        ),
        files,
    )


def test_filters_survive_a_restart_dead(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        now = clock.time_ms()
        filters, service, files = persistence(tmp_path, clock)
        at_once(filters.register("g", [sql("T", "a > 1", 7)], lambda: now - 60_000))
        service.check()
        files.save_now()
        loaded = load_filters(BrokerConfig(), files, clock).get("T", "g")
        assert loaded is not None
        assert (loaded.filter.text, loaded.version, loaded.born_time_ms) == (
            "a > 1",
            7,
            now - 60_000,
        )
        assert (loaded.is_dead, loaded.dead_time_ms) == (True, now - 30_000)
        earlier = load_filters(BrokerConfig(), files, ManualClock(now - 50_000)).get("T", "g")
        assert earlier is not None
        assert earlier.dead_time_ms == now - 60_000

    asyncio.run(main())


def test_another_bloom_filter_drops_what_was_persisted(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        filters, service, files = persistence(tmp_path, clock)
        at_once(filters.register("g", [sql("T", "a > 1")], lambda: clock.time_ms()))
        service.check()
        files.save_now()
        assert len(load_filters(BrokerConfig(expect_consumer_num_use_filter=64), files, clock)) == 0
        assert len(load_filters(BrokerConfig(), files, clock)) == 1

    asyncio.run(main())


def test_nothing_is_written_when_nothing_changes(tmp_path: Path) -> None:
    async def main() -> None:
        filters, service, files = persistence(tmp_path, ManualClock())
        at_once(filters.register("g", [sql("T", "TagA", kind="TAG")], lambda: 1))
        service.check()
        files.save_now()
        assert not (tmp_path / "consumerFilter.json").exists()

    asyncio.run(main())


def test_a_file_of_the_original_is_read_and_written_alike(tmp_path: Path) -> None:
    original = golden_member("store-clean-master", "master/config/consumerFilter.json")
    (tmp_path / "consumerFilter.json").write_bytes(original)

    async def main() -> None:
        filters, service, tables = persistence(tmp_path, ManualClock(1_795_212_700_000))
        loaded = filters.get("GoldNormal", "GID_gold_sql")
        assert loaded is not None
        assert loaded.filter.text == "(a > 5 AND b = 'x') OR TAGS IN ('TagZ')"
        filters.changes += 1
        (tmp_path / "consumerFilter.json").unlink()
        service.check()
        tables.save_now()
        assert (tmp_path / "consumerFilter.json").read_bytes() == original

    asyncio.run(main())
