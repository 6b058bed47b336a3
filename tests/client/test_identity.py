"""Names and ids: clients that never collide, groups that may be used, message ids (client.md §1.1,
§3.2, §3.9)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.client.offsets.start_offset import milliseconds
from aiorocketmq.client.options import client_id
from aiorocketmq.client.producer.message_ids import month_of, next_message_id
from aiorocketmq.client.usage_errors import checked_group, checked_topic, positive


def test_no_two_clients_have_one_id() -> None:
    ids = {client_id(None, None) for _ in range(10_000)}
    assert len(ids) == 10_000


def test_a_client_id_is_address_and_instance() -> None:
    assert client_id("10.0.0.1", "me") == "10.0.0.1@me"
    assert client_id("10.0.0.1", "me", "unit", stream=True) == "10.0.0.1@me@unit@STREAM"
    address, _, instance = client_id("10.0.0.1", None).partition("@")
    assert address == "10.0.0.1"
    assert instance.partition("#")[0].isdecimal()


@pytest.mark.parametrize(
    "group", ["", " ", "a b", "g" * 256, "DEFAULT_PRODUCER", "DEFAULT_CONSUMER"]
)
def test_groups_that_cannot_be_used(group: str) -> None:
    with pytest.raises(ConfigError):
        checked_group(group)


def test_names_that_can_be_used() -> None:
    assert checked_group("%RETRY%my|group-1_A") == "%RETRY%my|group-1_A"
    assert checked_topic("T") == "T"


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_options_that_must_be_positive(value: float) -> None:
    with pytest.raises(ConfigError, match="send_timeout"):
        positive("send_timeout", value)


def test_there_are_two_access_channels() -> None:
    with pytest.raises(ConfigError, match="LOCAL, CLOUD"):
        ClientInstance(namesrv="ns:1", access_channel="cloud")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "now",
    ["2026-11-21T13:14:15", "2026-12-31T23:59:59", "2024-02-29T00:00:00", "2026-01-01T00:00:00"],
)
def test_the_month_of_an_instant(now: str) -> None:
    when = datetime.fromisoformat(now)
    start, end = month_of(int(when.timestamp() * 1000))
    first = when.replace(day=1, hour=0, minute=0, second=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    assert (start, end) == (int(first.timestamp() * 1000), int(following.timestamp() * 1000))


def test_threads_never_get_the_same_message_id() -> None:
    now_ms = time.time_ns() // 1_000_000
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: [next_message_id(now_ms) for _ in range(5000)], range(8)))
    assert len({each for ids in found for each in ids}) == 40_000


def test_message_ids_are_unique_and_look_like_javas() -> None:
    now_ms = time.time_ns() // 1_000_000
    ids = {next_message_id(now_ms) for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(found) in (32, 56) and found == found.upper() for found in ids)


@pytest.mark.parametrize("time_ms", [0, 1, 1_795_269_319_825, 1_795_269_319_829, 4_102_444_799_999])
def test_a_point_in_time_keeps_its_milliseconds(time_ms: int) -> None:
    assert milliseconds(datetime.fromtimestamp(time_ms / 1000, UTC)) == time_ms
