"""What a deletion costs depends on what is deleted, not on what else there is: thousands are no
thousands squared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiorocketmq.broker.pulls.long_polling import HeldPull, HeldPulls
from aiorocketmq.broker.stats.broker_stats import BrokerStats
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.queues.consume_queues import ConsumeQueues

from ..steps import steps

QUEUES = 8
FEW, MANY = 10, 80
"""Topics that are there, and deleted one by one."""

Deletion = Callable[[str], object]


def of_store(topics: list[str], folder: Path) -> Deletion:
    queues = ConsumeQueues(folder, 6000, PosixDisk())
    for topic in topics:
        for queue_id in range(QUEUES):
            queues.get_or_create(topic, queue_id)

    def delete(topic: str) -> None:
        assert at_once(queues.delete_topic(topic))
        assert not queues.of_topic(topic)

    return delete


def of_held_pulls(topics: list[str], _folder: Path) -> Deletion:
    pulls, ctx = HeldPulls(), SimpleNamespace(raw_header=b"")
    for topic in topics:
        for queue_id in range(QUEUES):
            pulls.hold(
                HeldPull(topic, queue_id, 0, 1.0, cast(Any, f"of {topic}"), cast(Any, ctx), None, 1)
            )

    def delete(topic: str) -> None:
        held = pulls.take_topic(topic)
        assert [each.queue_id for each in held] == list(range(QUEUES))
        for each in held:
            pulls.release(each)
        assert not pulls.take_topic(topic)

    return delete


def filled_stats(topics: list[str]) -> BrokerStats:
    stats = BrokerStats()
    for topic in topics:
        for queue_id in range(QUEUES):
            stats.pull_counter(topic, f"g-{topic}", queue_id)
        stats.sent_back(topic, f"g-{topic}")
        stats.sent_back(topic, f"h-{topic}")
    return stats


def of_statistics(topics: list[str], _folder: Path) -> Deletion:
    return filled_stats(topics).forget_topic


def of_statistics_of_groups(topics: list[str], _folder: Path) -> Deletion:
    stats = filled_stats(topics)
    return lambda topic: stats.forget_group(f"g-{topic}")


@pytest.mark.parametrize("make", [of_store, of_held_pulls, of_statistics, of_statistics_of_groups])
def test_each_costs_the_same_however_many_there_are(
    make: Callable[[list[str], Path], Deletion], tmp_path: Path
) -> None:
    def costs(count: int) -> float:
        topics = [f"T{number}" for number in range(count)]
        delete = make(topics, tmp_path)

        def delete_all() -> None:
            for topic in topics:
                delete(topic)

        return steps(delete_all) / count

    assert costs(MANY) < 1.2 * costs(FEW)
