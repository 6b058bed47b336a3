"""Topics, groups and offsets fit into the one frame that carries each of these tables to a
slave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets, OffsetTableFullError
from aiorocketmq.broker.state.frame_limit import BUDGET_BYTES, FrameBudget
from aiorocketmq.broker.state.lmq import LightConsumerOffsets
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.broker.state.topics import Topics
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.frames.frame import MAX_FRAME_BYTES
from aiorocketmq.remoting.slices import at_once

from ...sim import ManualClock
from ..sim_broker import sim_broker

CONFIG = BrokerConfig(broker_name="b", broker_cluster_name="C")
HEAD = 200
"""What there is around the entries of a table."""
NAMES = st.sampled_from(["T", "U", "a-much_longer|name%"])
NUMBERS = st.sampled_from([0, 1, 7, 65_536])
OFFSETS = st.sampled_from([-1, 0, 5, 10**11, 10**12, 2**63 - 1])
GROUPS = st.sampled_from(["g", "%LMQ%h", "another-group"])


def test_the_frame_has_room_for_the_rest() -> None:
    assert BUDGET_BYTES + HEAD < MAX_FRAME_BYTES - 60_000


@given(
    st.lists(
        st.tuples(st.sampled_from(["update", "send", "delete", "order", "reload"]), NAMES, NUMBERS),
        max_size=12,
    )
)
def test_topics_never_take_more_than_is_counted(steps: list[tuple[str, str, int]]) -> None:
    topics = Topics(CONFIG, ManualClock())
    for what, name, number in steps:
        if what == "update":
            topics.update(
                TopicConfig(
                    topic_name=name,
                    read_queue_nums=number,
                    write_queue_nums=7,
                    topic_sys_flag=number,
                )
            )
        elif what == "send":
            topics.create_on_send(name, default_topic="TBW102", queue_nums=number)
        elif what == "delete":
            topics.delete(name)
        elif what == "order":
            topics.set_order_topics([name])
        elif number:
            topics.replace(topics.record())
        else:
            topics.load(topics.record())
    size = len(encode_body(topics.record()))
    assert size - HEAD <= topics.frame_budget.taken_bytes <= size


@given(
    st.lists(
        st.tuples(st.sampled_from(["update", "use", "delete", "reload"]), GROUPS, NUMBERS),
        max_size=12,
    )
)
def test_groups_never_take_more_than_is_counted(steps: list[tuple[str, str, int]]) -> None:
    groups = SubscriptionGroups(CONFIG, ManualClock())
    for what, name, number in steps:
        if what == "update":
            groups.update(SubscriptionGroupConfig(group_name=name, retry_queue_nums=number))
        elif what == "use":
            groups.get(name)
        elif what == "delete":
            groups.delete(name)
        elif number:
            groups.replace(groups.record())
        else:
            groups.load(groups.record())
    size = len(encode_body(groups.record()))
    assert size - HEAD <= groups.frame_budget.taken_bytes <= size


COMMITS = st.tuples(
    st.sampled_from(["commit", "take", "clone", "clamp", "remove", "reload"]),
    NAMES,
    GROUPS,
    NUMBERS,
    OFFSETS,
)


@pytest.mark.parametrize("kind", [ConsumerOffsets, LightConsumerOffsets])
@given(st.lists(COMMITS, max_size=20))
@example(
    [("commit", "T", "g", 0, 10**12), ("commit", "T", "g", 0, -1), ("remove", "T", "g", 0, -1)]
)
@example([("commit", "T", "g", 0, 10**12), ("clamp", "T", "g", 0, -1), ("remove", "T", "g", 0, -1)])
@example([("take", "T", "g", 0, 10**12), ("commit", "T", "g", 0, -1)])
def test_offsets_never_take_more_than_is_counted(
    kind: type[ConsumerOffsets], steps: list[tuple[str, str, str, int, int]]
) -> None:
    offsets = kind()
    for what, topic, group, queue_id, offset in steps:
        if what == "commit":
            offsets.commit(group, topic, queue_id, offset)
        elif what == "take":
            offsets.commit(group, topic, queue_id, offset, limited=False)
        elif what == "clone":
            offsets.clone(group, "another-group", topic)
        elif what == "clamp":
            offsets.clamp(lambda _topic, _queue_id, end=offset: end)  # type: ignore[misc]
        elif what == "remove":
            at_once(offsets.remove_group(group))
        else:
            offsets.load(offsets.record())
    size = len(encode_body(offsets.record()))
    assert size - HEAD <= offsets.frame_budget.taken_bytes
    if not list(offsets.each()):
        assert offsets.frame_budget.taken_bytes == 0


def test_what_has_no_room_is_refused_in_words_and_what_is_there_goes_on() -> None:
    topics, groups, offsets = (
        Topics(CONFIG, ManualClock()),
        SubscriptionGroups(CONFIG, ManualClock()),
        ConsumerOffsets(),
    )
    topics.update(TopicConfig(topic_name="known"))
    groups.get("known")
    offsets.commit("g", "known", 0, 1)
    for budget in (topics.frame_budget, groups.frame_budget, offsets.frame_budget):
        budget.budget_bytes = budget.taken_bytes
    makes: tuple[Callable[[], object], ...] = (
        lambda: topics.update(TopicConfig(topic_name="new")),
        lambda: topics.create_for_group("%RETRY%g"),
    )
    for make in makes:
        with pytest.raises(
            RequestError,
            match=r"topics of this broker .* one frame .* cannot be added, delete topics",
        ):
            make()
    uses: tuple[Callable[[], object], ...] = (
        lambda: groups.get("new"),
        lambda: groups.update(SubscriptionGroupConfig(group_name="new")),
    )
    for use in uses:
        with pytest.raises(RequestError, match=r"new cannot be added, delete groups"):
            use()
    for queue_id, offset in ((1, 1), (0, 10**12)):
        with pytest.raises(OffsetTableFullError, match=r"an offset of known@g cannot be added"):
            offsets.commit("g", "known", queue_id, offset)
    with pytest.raises(OffsetTableFullError):
        offsets.clone("g", "h", "known")
    topics.update(TopicConfig(topic_name="known", read_queue_nums=65_536))
    groups.update(SubscriptionGroupConfig(group_name="known", consume_enable=False))
    offsets.commit("g", "known", 0, 10**12 - 1)
    topics.delete("known")
    groups.delete("known")
    at_once(offsets.remove_group("g"))
    topics.update(TopicConfig(topic_name="new"))
    groups.get("new")
    offsets.commit("g", "new", 0, 1)
    assert {"new"} == {
        "new"
    } & topics.record().topic_config_table.keys() & groups.record().subscription_group_table.keys()


def test_a_slave_takes_what_came_in_a_frame() -> None:
    offsets = ConsumerOffsets()
    offsets.frame_budget.budget_bytes = 1
    offsets.commit("g", "T", 0, 1, limited=False)
    assert offsets.get("g", "T", 0) == 1


def test_a_table_of_the_disk_that_is_too_long_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics, groups, offsets = (
        Topics(CONFIG, ManualClock()),
        SubscriptionGroups(CONFIG, ManualClock()),
        ConsumerOffsets(),
    )
    for number in range(20):
        topics.update(TopicConfig(topic_name=f"T{number}"))
        groups.get(f"g{number}")
        offsets.commit("g", f"T{number}", 0, 1)
    restarted = (
        Topics(CONFIG, ManualClock()),
        SubscriptionGroups(CONFIG, ManualClock()),
        ConsumerOffsets(),
    )
    for table in restarted:
        table.frame_budget.budget_bytes = 1000
    restarted[2].frame_budget.budget_bytes = 300
    restarted[0].load(topics.record())
    restarted[1].load(groups.record())
    restarted[2].load(offsets.record())
    assert len(caplog.records) == 3
    assert all(
        "one frame can carry to a slave: delete" in text and "before it is full" not in text
        for text in caplog.messages
    )


def warnings_of(caplog: pytest.LogCaptureFixture) -> Iterable[int]:
    return [int(record.getMessage().split(" % ")[0].rsplit(" ", 1)[1]) for record in caplog.records]


def test_a_table_that_fills_is_said_in_time(caplog: pytest.LogCaptureFixture) -> None:
    budget = FrameBudget("topics", "delete some", 1000)
    with caplog.at_level(logging.WARNING):
        for _ in range(49):
            budget.take(10)
            budget.tell()
        assert not caplog.records
        for size in (10, -10, 10) * 60:
            budget.take(size)
            budget.tell()
    assert warnings_of(caplog) == [50, 60, 70, 80, 90, 100]
    assert "delete some before it is full" in caplog.messages[0]


def test_who_asks_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with asyncio.timeout(30), sim_broker(tmp_path) as sim:
            client, broker = sim.connect(), sim.broker
            await client.heartbeat("c", "known")
            await sim.make_topic("T")
            broker.state.offsets.commit("known", "U", 0, 1)
            for budget in (
                broker.state.topics.frame_budget,
                broker.state.groups.frame_budget,
                broker.state.offsets.frame_budget,
            ):
                budget.budget_bytes = budget.taken_bytes
            topic = CreateTopicRequest(
                topic="new", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
                topic_filter_type="SINGLE_TAG",
            )  # fmt: skip
            commit = UpdateConsumerOffsetRequest(
                consumer_group="known", topic="T", queue_id=0, commit_offset=1
            )
            answers = [
                await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic),
                await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit),
                await client.heartbeat("c", "known", "new"),
            ]
            for answer in answers:
                assert answer.code == 1
                assert "cannot be added" in (answer.remark or "")
            assert (await client.heartbeat("c", "known")).code == 0
            assert (await sim.connect().heartbeat("d", "new", "known", producers=("p",))).code == 1
            assert broker.state.consumers.client_ids("known") == ["c", "d"]  # what can be served is

    asyncio.run(scene())
