"""Consumers that come, go and die while messages flow; the long form is ``python -m
benchmarks.consumers``."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from aiorocketmq import Message, MessageQueue, Producer, PushConsumer
from benchmarks.consumers import Campaign, Options
from benchmarks.consumers_ledger import RECORD, Kind, judge_ordered, judge_unordered

from .. import forked
from .cluster import Cluster, asynchronous, create_topic, until
from .ordered_group import OrderedGroup, ordered_consumer


@asynchronous
async def test_nothing_is_lost_and_order_is_kept_when_members_die(
    shared: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed comes back under its client id, or its locks would have to expire (60
    s)."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", forked.create_subprocess_exec)
    await create_topic(shared.namesrv, topic, 4)
    options = Options(
        messages=6000, seconds=5.0, members=2, queues=4, seed=3, every_s=1.5, same_ids=True
    )
    campaign = Campaign(tmp_path, shared.namesrv, topic, options)
    await campaign.run()
    report = "\n".join(campaign.report())
    assert not campaign.problems, [*campaign.problems, report]
    assert campaign.events["killed"] >= 2
    assert {verdict.handled for verdict in campaign.verdicts().values()} == {6000}


def journal(path: Path, *events: tuple[Kind, int, int, int]) -> Path:
    path.write_bytes(b"".join(RECORD.pack(*event) for event in events))
    return path


BEGIN, END, ANY = Kind


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([(0, 1, 2), (1, 3, 4)], [(2, 5, 6)], (3, 0, 0, 0, 0)),
        (
            [(0, 1, 2), (1, 3, 4)],
            [(1, 5, 6), (2, 7, 8)],
            (3, 0, 1, 0, 0),
        ),  # again at the next owner: allowed
        ([(0, 1, 4)], [(1, 3, 5), (2, 6, 7)], (3, 0, 0, 1, 0)),  # two at once
        ([(0, 1, 2), (2, 3, 4)], [(1, 5, 6)], (3, 0, 0, 0, 1)),  # overtaken
        (
            [(0, 1, 2), (1, 3, 4), (0, 5, 6)],
            [(2, 7, 8)],
            (3, 0, 1, 0, 1),
        ),  # back without another owner
        ([(0, 1, 2), (1, 3, 4)], [], (2, 1, 0, 0, 0)),  # lost
    ],
)
def test_the_ledger_sees_what_is_wrong(
    tmp_path: Path,
    first: list[tuple[int, int, int]],
    second: list[tuple[int, int, int]],
    expected: tuple[int, ...],
) -> None:
    """Of (offset, begin, end): handled, lost, duplicates, two at once, out of order."""
    paths = []
    for name, runs in (("a", first), ("b", second)):
        events = [((BEGIN, 0, at, begin), (END, 0, at, end)) for at, begin, end in runs]
        paths.append(journal(tmp_path / name, *itertools.chain.from_iterable(events)))
    assert judge_ordered(paths, {0: 3}, {})[:5] == expected


def test_the_ledger_counts_what_a_killed_member_had_begun(tmp_path: Path) -> None:
    dead = journal(tmp_path / "dead", (BEGIN, 0, 0, 10))
    heir = journal(tmp_path / "heir", (BEGIN, 0, 0, 30), (END, 0, 0, 31))
    assert judge_ordered([dead, heir], {0: 1}, {dead: 20})[:5] == (1, 0, 1, 0, 0)
    assert judge_ordered([dead, heir], {0: 1}, {dead: 40})[:5] == (1, 0, 1, 1, 0)
    assert judge_unordered([journal(tmp_path / "any", (ANY, 0, 0, 1), (ANY, 0, 0, 2))], {0: 2})[
        :3
    ] == (1, 1, 1)


@asynchronous
async def test_a_broker_that_dies_with_the_locks_ends_no_order(
    cluster: Cluster, topic: str, group: str
) -> None:
    """It has forgotten every lock when it comes back; two members go on, each with queues of its
    own."""
    await asyncio.to_thread(cluster.start_broker)
    await create_topic(cluster.namesrv, topic, 4)
    members = OrderedGroup(topic, group, namesrv=cluster.namesrv, commit_interval=0.2)
    async with (
        Producer("p", namesrv=cluster.namesrv) as producer,
        members.member("first") as first,
        members.member("second") as second,
    ):
        await until(
            lambda: len(first.assignment()) >= 2 and len(second.assignment()) >= 2,
            "both have queues",
        )
        for number in range(200):
            await producer.send(Message(topic, b"%d" % number), sharding_key=number)
        await until(lambda: members.handled() > 20, "some are handled")
        await asyncio.to_thread(cluster.kill_broker, "broker-a")
        await asyncio.to_thread(cluster.start_broker, "broker-a")
        await until(
            lambda: producer.send(Message(topic, b"200")), "the broker takes messages again"
        )
        await until(lambda: members.handled() == 201, "every message")
    members.assert_in_order()


@asynchronous
async def test_a_queue_of_an_ordered_group_is_told_to_go_before_it_is_told_to_come(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 4)
    events: list[tuple[str, str, int]] = []

    def member(name: str) -> PushConsumer:
        async def on_assign(queues: tuple[MessageQueue, ...]) -> None:
            events.extend((name, "comes", q.queue_id) for q in queues if q.topic == topic)

        async def on_revoke(queues: tuple[MessageQueue, ...]) -> None:
            await asyncio.sleep(0.2)
            events.extend((name, "goes", q.queue_id) for q in queues if q.topic == topic)

        consumer = ordered_consumer(
            topic, group, namesrv=shared.namesrv, on_assign=on_assign, on_revoke=on_revoke
        )
        consumer.on_message(lambda _message: None)
        return consumer

    async def divided() -> bool:
        return [sum(q.topic == topic for q in each.assignment()) for each in (first, second)] == [
            2,
            2,
        ]

    async with member("first") as first:
        await until(lambda: _is(len(events) == 4), "the first has all queues")
        async with member("second") as second:
            await until(divided, "each has two queues")
    comes = [event for event in events if event[:2] == ("second", "comes")]
    assert len(comes) == 2
    for _, _, queue in comes:
        assert events.index(("first", "goes", queue)) < events.index(("second", "comes", queue))
    assert sum(event[1] == "goes" for event in events) == sum(e[1] == "comes" for e in events)


async def _is(true: bool) -> bool:
    return true
