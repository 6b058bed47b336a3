"""Sums and rates over windows, and what requests 315, 317 and 208 make of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.stats.stats_windows import DAY, HOUR, MINUTE, Count, StatsWindows
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.admin import ViewBrokerStatsDataRequest
from aiorocketmq.remoting.protocol.commands.group import (
    GetConsumeStatsInBrokerRequest,
    GetConsumeStatsRequest,
)
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.slices import at_once

from ...sim import ManualClock, turns_during
from ..sim_broker import SimBroker, SimClient, sim_broker


def ticks(windows: StatsWindows, clock: ManualClock, count: int = 1) -> None:
    for _ in range(count):
        clock.advance(10)
        for _step in windows.steps():
            pass


def data_of(windows: StatsWindows, key: str) -> BrokerStatsData | None:
    return at_once(windows.data("N", key))


def test_a_minute_is_the_difference_of_seven_snapshots() -> None:
    clock, counted = ManualClock(), {"a": [0, 0]}
    windows = StatsWindows(
        clock, [lambda: [("N", key, value, calls) for key, (value, calls) in counted.items()]]
    )
    ticks(windows, clock)
    assert data_of(windows, "a") is None  # never counted
    for _ in range(20):
        counted["a"][0] += 30
        counted["a"][1] += 10
        ticks(windows, clock)
    data = data_of(windows, "a")
    assert data is not None
    assert data.stats_minute == BrokerStatsItem(sum=180, tps=3.0, avgpt=3.0)
    assert data.stats_hour == BrokerStatsItem()
    assert windows.tps("N", "a") == 3.0
    assert windows.tps("N", "b") == 0.0


def test_what_was_counted_since_the_last_tick_has_zeros() -> None:
    counts: list[Count] = [("N", str(key), key, key) for key in range(300)]
    windows = StatsWindows(ManualClock(), [lambda: counts])
    assert data_of(windows, "299") == BrokerStatsData()
    assert data_of(windows, "0") is None
    assert data_of(windows, "300") is None


def test_the_first_snapshot_counts_from_zero() -> None:
    clock, value = ManualClock(), 0
    windows = StatsWindows(clock, [lambda: [("N", "a", value, 1)]])
    value = 50
    ticks(windows, clock)
    data = data_of(windows, "a")
    assert data is not None
    assert data.stats_minute == BrokerStatsItem(sum=50, tps=5.0, avgpt=50.0)


def test_hours_and_days_take_theirs_less_often() -> None:
    assert (MINUTE, HOUR, DAY) == ((1, 7), (60, 7), (360, 25))
    clock, value = ManualClock(), 0
    windows = StatsWindows(clock, [lambda: [("N", "a", value, value)]])
    for hour in range(1, 31):
        for _ in range(360):
            value += 1
            ticks(windows, clock)
        data = data_of(windows, "a")
        assert data is not None
        assert data.stats_day.sum == 360 * min(hour, 24)
        assert data.stats_hour.sum == 360
        assert data.stats_minute.sum == 6
        assert abs(data.stats_day.tps - 0.1) < 1e-9


@pytest.mark.parametrize("between", [None, 0])
def test_a_counter_that_begins_anew_has_no_rate_below_zero(between: int | None) -> None:
    """A topic that is deleted and made again between two ticks."""
    clock, value = ManualClock(), 1000
    windows = StatsWindows(clock, [lambda: [("N", "a", value, value)]])
    ticks(windows, clock, 2)
    if between is not None:
        value = between
        ticks(windows, clock)
        assert data_of(windows, "a") is None
    for value in (5, 10, 15):
        ticks(windows, clock)
        data = data_of(windows, "a")
        assert data is not None
        assert data.stats_minute == BrokerStatsItem(sum=value, tps=0.5, avgpt=1.0)


@pytest.mark.parametrize("seconds", [-55, 3600])
def test_a_clock_that_is_put_changes_no_rate(seconds: float) -> None:
    clock, value = ManualClock(), 0
    windows = StatsWindows(clock, [lambda: [("N", "a", value, value)]])
    for number in range(7):
        value += 10
        if number == 3:
            clock.put_forward(seconds)
        ticks(windows, clock)
    data = data_of(windows, "a")
    assert data is not None
    assert data.stats_minute == BrokerStatsItem(sum=60, tps=1.0, avgpt=1.0)


def test_what_is_gone_is_forgotten() -> None:
    clock = ManualClock()
    counts: list[Count] = [("N", "a", 1, 1), ("N", "b", 1, 1)]
    windows = StatsWindows(clock, [lambda: counts])
    ticks(windows, clock)
    counts.pop()
    ticks(windows, clock)
    assert len(windows) == 1
    assert data_of(windows, "b") is None


def test_other_work_goes_on_while_many_counters_are_sampled() -> None:
    async def run() -> None:
        clock = ManualClock()
        windows = StatsWindows(clock, [lambda: (("N", str(key), 1, 1) for key in range(1000))])
        assert await turns_during(windows.sample()) >= 3
        assert len(windows) == 1000

    asyncio.run(run())


# -- of a broker


def pull(topic: str, group: str, offset: int, queue_id: int = 0) -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group=group, topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
    )  # fmt: skip


async def view(client: SimClient, name: str, key: str) -> BrokerStatsData | str:
    found = await client.ask(
        RequestCode.VIEW_BROKER_STATS_DATA,
        ViewBrokerStatsDataRequest(stats_name=name, stats_key=key),
    )
    if found.code:
        assert found.code == 1
        return found.remark or ""
    return decode_body(BrokerStatsData, found.body)


async def traffic(world: SimBroker, client: SimClient) -> None:
    """5 messages to queue 0 of T, 2 to queue 1; g reads three and all of queue 1, h nothing."""
    for _ in range(5):
        await client.send("T", b"0123456789")
    for _ in range(2):
        await client.send("T", b"0123456789", queue_id=1)
    await client.ask(RequestCode.PULL_MESSAGE, pull("T", "g", 2))
    await client.ask(RequestCode.PULL_MESSAGE, pull("T", "g", 0, 1))
    await client.ask(RequestCode.PULL_MESSAGE, pull("T", "h", 5))
    world.clock.advance(10)
    await world.broker.monitoring.windows.sample()


def test_the_statistics_of_a_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            await traffic(world, client)
            stored = world.broker.store.max_phy_offset
            expected = {
                ("TOPIC_PUT_NUMS", "T"): (7, 7),
                ("TOPIC_PUT_SIZE", "T"): (stored, 7),
                ("GROUP_GET_NUMS", "T@g"): (5, 2),
                ("GROUP_GET_SIZE", "T@g"): (stored * 5 // 7, 2),
                ("QUEUE_GET_NUMS", "T@0@g"): (3, 1),
                ("QUEUE_GET_NUMS", "T@1@g"): (2, 1),
                ("BROKER_PUT_NUMS", "C"): (7, 7),
                ("BROKER_GET_NUMS", "C"): (5, 2),
            }
            for (name, key), (total, calls) in expected.items():
                data = await view(client, name, key)
                assert isinstance(data, BrokerStatsData), (name, data)
                item = BrokerStatsItem(sum=total, tps=total / 10, avgpt=total / calls)
                assert data == BrokerStatsData(stats_minute=item), name
            assert (
                await view(client, "GROUP_GET_NUMS", "T@h")
                == "The stats <GROUP_GET_NUMS> <T@h> not exist"
            )
            assert await view(client, "NOTHING", "T") == "The stats <NOTHING> <T> not exist"

    asyncio.run(run())


def test_a_batch_is_one_call(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            one = b"\0\0\0\x17" + b"\0" * 12 + b"\0\0\0\1x" + b"\0\0"
            header = SendMessageRequest(
                producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=1,
                queue_id=0, sys_flag=0,
                born_timestamp=1, flag=0, batch=True,
            )  # fmt: skip
            (await client.ask(RequestCode.SEND_MESSAGE, header, one * 6)).check()
            await client.send("T", b"x")
            await client.send("T", b"x")
            world.clock.advance(10)
            await world.broker.monitoring.windows.sample()
            data = await view(client, "TOPIC_PUT_NUMS", "T")
            assert isinstance(data, BrokerStatsData)
            assert (data.stats_minute.sum, data.stats_minute.avgpt) == (8, 8 / 3)

    asyncio.run(run())


def test_without_detail_there_are_no_queues(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path, enable_detail_stat=False) as world:
            client = world.connect()
            client_send_times = [await client.send("T", b"x") for _ in range(2)]
            assert len(client_send_times) == 2
            world.clock.advance(0.5)  # as if the read took so long
            world.broker.monitoring.stats.pull_counter("T", "g", 0).latency_ms = 8
            await client.ask(RequestCode.PULL_MESSAGE, pull("T", "g", 0))
            world.clock.advance(10)
            await world.broker.monitoring.windows.sample()
            assert isinstance(await view(client, "QUEUE_GET_NUMS", "T@0@g"), str)
            data = await view(client, "GROUP_GET_LATENCY", "T@g")
            assert isinstance(data, BrokerStatsData)
            assert data.stats_minute.sum == 8

    asyncio.run(run())


def test_how_far_a_group_is_behind(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            for _ in range(40):
                await client.send("T", b"x")
            size = world.broker.store.max_phy_offset // 40
            world.clock.advance(3)
            await client.ask(RequestCode.PULL_MESSAGE, pull("T", "g", 0))  # 32 of them
            fall = await view(client, "GROUP_GET_FALL_SIZE", "0@T@g")
            assert isinstance(fall, BrokerStatsData)
            assert fall.stats_minute.sum == fall.stats_day.sum == 8 * size
            late = await view(client, "GROUP_GET_FALL_TIME", "0@T@g")
            assert isinstance(late, BrokerStatsData)
            assert late.stats_minute.sum == 3000
            for key in ("1@T@g", "T@g", "x@T@g", ""):
                assert isinstance(await view(client, "GROUP_GET_FALL_SIZE", key), str)

    asyncio.run(run())


def test_counters_of_a_deleted_topic_go(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            await traffic(world, client)
            assert world.broker.monitoring.stats.pull_counters == 2
            world.broker.state.topics.delete("T")
            assert not world.broker.monitoring.stats.pulls
            assert world.broker.monitoring.stats.pull_counters == 0
            await world.broker.monitoring.windows.sample()
            assert isinstance(await view(client, "TOPIC_PUT_NUMS", "T"), str)
            assert isinstance(await view(client, "GROUP_GET_NUMS", "T@g"), str)

    asyncio.run(run())


def test_messages_given_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            await client.send("T", b"x")
            back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
            (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()
            world.clock.advance(10)
            await world.broker.monitoring.windows.sample()
            for name, key in (
                ("SNDBCK_PUT_NUMS", "T@g"),
                ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2"),
            ):
                data = await view(client, name, key)
                assert isinstance(data, BrokerStatsData)
                assert data.stats_minute.sum == 1

    asyncio.run(run())


def test_messages_are_counted_by_delay_level(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            for level in (1, 3, 3):
                await client.send("T", b"x", properties=f"DELAY\x01{level}")
            world.clock.advance(10)
            await world.broker.monitoring.windows.sample()
            for queue_id, expected in ((0, 1), (2, 2)):
                data = await view(client, "QUEUE_PUT_NUMS", f"SCHEDULE_TOPIC_XXXX@{queue_id}")
                assert isinstance(data, BrokerStatsData)
                assert data.stats_minute.sum == expected
            size = await view(client, "QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@0")
            assert isinstance(size, BrokerStatsData)
            assert size.stats_minute.sum > 88

    asyncio.run(run())


def test_the_rate_of_a_group_and_all_groups_of_a_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            await traffic(world, client)
            commit: dict[str, Any] = {"consumer_group": "g", "topic": "T"}
            for queue_id, offset in ((0, 3), (1, 2)):
                header = UpdateConsumerOffsetRequest(
                    queue_id=queue_id, commit_offset=offset, **commit
                )
                (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).check()
            found = await client.ask(
                RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g")
            )
            stats = decode_body(ConsumeStats, found.body)
            assert (stats.consume_tps, stats.total_diff) == (0.5, 2)
            found = await client.ask(
                RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerRequest(is_order=False)
            )
            everything = decode_body(ConsumeStatsList, found.body)
            assert (everything.total_diff, everything.broker_addr) == (
                2,
                world.broker.identity().broker_addr,
            )
            tables = {
                name: stats
                for each in everything.consume_stats_list
                for name, stats in each.items()
            }
            assert tables["SELF_TEST_C_GROUP"] == []
            (of_g,) = tables["g"]
            assert (of_g.consume_tps, of_g.total_diff, len(of_g.offset_table)) == (0.5, 2, 4)
            ordered = await client.ask(
                RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerRequest(is_order=True)
            )
            assert decode_body(ConsumeStatsList, ordered.body).total_diff == 0

    asyncio.run(run())


def test_the_runtime_table_of_a_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with sim_broker(tmp_path) as world:
            client = world.connect()
            await traffic(world, client)
            found = json.loads((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body)[
                "table"
            ]
            assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"]) == ("7", "5")
            assert found["sendThreadPoolQueueSize"] == "0"

    asyncio.run(run())
