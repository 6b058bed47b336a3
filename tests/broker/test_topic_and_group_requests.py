"""Topics and groups as an administrator meets them: typed requests go in, answers come out, over a
simulated connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiorocketmq.broker.processors.lists import PER_TURN
from aiorocketmq.broker.processors.topic import TopicDeletionProcessor
from aiorocketmq.broker.registry.name_servers import NameServerLink
from aiorocketmq.broker.state.topics import MAX_QUEUES_PER_TOPIC
from aiorocketmq.remoting.dispatch import Context
from aiorocketmq.remoting.errors import BrokerError, RequestError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.lists import GroupList, TopicList
from aiorocketmq.remoting.protocol.bodies.stats import (
    ConsumeStats,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.protocol.commands.group import (
    DeleteSubscriptionGroupRequest,
    GetConsumeStatsRequest,
)
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.wire import NoFields, Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import at_once

from .sim_broker import SimBroker, SimClient

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


Play = Callable[..., None]


def topic_request(name: str, queues: int = 4, **more: Any) -> CreateTopicRequest:
    fields: dict[str, Any] = {
        "read_queue_nums": queues,
        "write_queue_nums": queues,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
    } | more
    return CreateTopicRequest(topic=name, default_topic="TBW102", **fields)


def test_a_topic_is_made_changed_listed_and_deleted(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        assert (answer.code, answer.remark) == (0, "not set any response code")
        assert '"T":{' in (tmp_path / "config" / "topics.json").read_text()
        await client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic_request("T", 2, perm=4, topic_filter_type="MULTI_TAG"),
        )
        answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert answer.ext_fields == {}
        table = decode_body(TopicConfigTable, answer.check().body)
        config = table.topic_config_table["T"]
        assert (config.read_queue_nums, config.perm, config.topic_filter_type.value) == (
            2,
            4,
            "MULTI_TAG",
        )
        assert table.data_version.counter == 2
        assert (
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        ).code == 0
        assert (
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        ).code == 0
        assert "T" not in sim.broker.state.topics
        assert '"T":{' not in (tmp_path / "config" / "topics.json").read_text()

    play(scenario)


def test_a_topic_counts_as_deleted_when_no_registration_with_it_is_under_way(play: Play) -> None:
    """It would come behind the deletion at the name servers, which is asked for next."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        name_servers = sim.broker.registry.name_servers
        link = NameServerLink("127.0.0.1:1", name_servers)
        link.under_way = asyncio.get_running_loop().create_future()
        name_servers.links.append(link)
        deletion = asyncio.create_task(
            client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        )
        while "T" in sim.broker.state.topics:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not deletion.done()
        link.under_way.set_result(None)
        assert (await deletion).code == 0
        name_servers.links.remove(link)

    play(scenario)


def test_a_topic_takes_along_how_far_its_groups_were(play: Play) -> None:
    """Made again it begins at 0: they would pass over as many messages as they had had of it."""

    async def scenario(sim: SimBroker) -> None:
        client, offsets = sim.connect(), sim.broker.state.offsets
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        for topic, group in (("T", "g"), ("T", "h"), ("TT", "g")):
            offsets.commit(group, topic, 0, 7)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        assert [offsets.get(group, "T", 0) for group in "gh"] == [-1, -1]
        assert offsets.get("g", "TT", 0) == 7

        late = UpdateConsumerOffsetRequest(
            consumer_group="g", topic="T", queue_id=0, commit_offset=9
        )
        for known in (-1, 9):  # by who has not heard of it
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, late)).code == 0
            assert offsets.get("g", "T", 0) == known
            await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))

    play(scenario)


def test_queues_whose_messages_nobody_is_given_are_told(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()

        async def change(read: int, write: int, perm: int = 6) -> str | None:
            request = topic_request("T", read_queue_nums=read, write_queue_nums=write, perm=perm)
            answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, request)
            assert answer.code == 0
            return answer.remark

        usual = "not set any response code"
        assert await change(4, 4) == await change(4, 2) == await change(4, 4) == usual
        assert await change(2, 4) == (
            "what is sent to the queues 2..3 is not given out: the topic T has readQueueNums=2"
        )
        assert await change(2, 4, perm=4) == usual
        assert await change(4, 4) == usual
        for number in range(4):
            await client.send("T", b"x", queue_id=number)
        there = "messages in 2 queues (2, 3) are not given out: the topic T has readQueueNums=2"
        assert await change(2, 2) == there
        offsets = sim.broker.state.offsets
        offsets.commit("g", "T", 2, 1)
        assert await change(2, 1) == there.replace("2 queues (2, 3)", "1 queues (3)")
        offsets.commit("g", "T", 3, 1)
        assert await change(2, 2) == usual, "its only group has had them"
        told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert len(told) == 3

    play(scenario)


def test_the_same_topic_again_is_no_change(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for _ in range(2):
            await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        assert sim.broker.state.topics.data_version.counter == 1

    play(scenario)


@pytest.mark.parametrize(
    "request_",
    [
        topic_request("bad name"),
        topic_request(" "),
        topic_request("x" * 128),
        topic_request("TBW102"),
        topic_request("C"),
        topic_request("rmq_sys_x"),
        topic_request("T", topic_filter_type="NO_TAG"),
        topic_request("T", -1),
        topic_request("T", MAX_QUEUES_PER_TOPIC + 1),
    ],
)
def test_topics_that_cannot_be_made(play: Play, request_: CreateTopicRequest) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, request_)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark
        assert sim.broker.state.topics.data_version.counter == 0

    play(scenario)


def test_system_topics_cannot_be_deleted(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(
            RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="TBW102")
        )
        assert (answer.code, answer.remark) == (
            1,
            "The topic[TBW102] is conflict with system topic.",
        )
        listed = await sim.connect().ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        assert {"TBW102", "C", "b", "C_REPLY_TOPIC"} <= set(
            decode_body(TopicList, listed.body).topic_list
        )

    play(scenario)


def test_a_deleted_topic_begins_anew(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        assert (await client.send("T", b"two")).queue_offset == 0

    play(scenario)


def test_what_is_acknowledged_while_a_topic_is_deleted_is_there(play: Play) -> None:
    """Its queues go one by one; who makes it again by sending to one that is still there is
    refused, or would lose the message with it."""

    async def scenario(sim: SimBroker) -> None:
        client, store, topics = sim.connect(), sim.broker.store, sim.broker.state.topics
        for queue_id in range(4):
            await client.send("T", b"old", queue_id)
        old = topics.get("T")
        deletion = asyncio.ensure_future(
            client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        )
        acknowledged = 0
        while not (deletion.done() and acknowledged):
            with suppress(BrokerError):  # it is being deleted
                await client.send("T", b"new", 3)
                acknowledged += topics.get("T") not in (old, None)
        assert (store.queue_ids("T"), store.max_offset("T", 3)) == ([3], acknowledged)

    play(scenario)


def deletion_of(sim: SimBroker, *, leads: bool = True) -> tuple[TopicDeletionProcessor, list[str]]:
    """Of a member of a group whose log takes nothing, and what it is asked to take."""
    told: list[str] = []
    tables, state = sim.broker.tables, sim.broker.state

    async def no_majority(topic: str) -> None:
        told.append(topic)
        raise RequestError(ResponseCode.SYSTEM_ERROR, "a majority is not known to have it")

    return (
        TopicDeletionProcessor(
            state.topics,
            partial(tables.settled, tables.topics_file),
            no_majority,
            sim.broker.registry.name_servers,
            state.offsets,
            sim.broker.store,
            lambda: leads,
        ),
        told,
    )


def test_what_the_log_does_not_have_as_deleted_keeps_its_queues(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client, ctx = sim.connect(), cast(Context, SimpleNamespace(peer="p"))
        await client.send("T", b"one")
        deletion, told = deletion_of(sim)
        with pytest.raises(RequestError, match="majority"):
            await deletion.delete(TopicRequest(topic="T"), b"", ctx)
        with pytest.raises(RequestError, match="majority"):
            await deletion.clean_unused(NoFields(), b"", ctx)
        assert told == ["T", "T"]
        assert (await client.send("T", b"two")).queue_offset == 1

    play(scenario)


def test_a_member_that_follows_leaves_unused_topics_to_the_log(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        await sim.connect().send("T", b"one")
        sim.broker.state.topics.delete("T")
        deletion, told = deletion_of(sim, leads=False)
        await deletion.clean_unused(NoFields(), b"", cast(Context, SimpleNamespace(peer="p")))
        assert (told, sim.broker.store.queue_ids("T")) == ([], [0])

    play(scenario)


def test_a_topic_is_deleted_altogether_though_the_broker_stops(play: Play) -> None:
    """A topic of that name that is made later would go on with the old numbers in some queues."""

    async def scenario(sim: SimBroker) -> None:
        client, store = sim.connect(), sim.broker.store
        for topic in ("Begun", "Waiting"):
            await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request(topic))
            for queue_id in range(4):
                await client.send(topic, b"x", queue_id)
        answers = [
            asyncio.ensure_future(
                client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic=topic))
            )
            for topic in ("Begun", "Waiting")
        ]
        while len(store.queue_ids("Begun")) > 2:
            await asyncio.sleep(0)
        for task in sim.owner.tasks:
            task.cancel()
        await asyncio.gather(*sim.owner.tasks, return_exceptions=True)
        for topic in ("Begun", "Waiting"):
            assert (topic in sim.broker.state.topics, store.queue_ids(topic)) == (False, [])
        assert not any(answer.done() for answer in answers)
        for answer in answers:
            answer.cancel()

    play(scenario)


def test_stats_of_a_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T", 2))
        await client.send("T", b"one", 1)
        now = sim.clock.time_ms()
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="T"))
        assert decode_body(TopicStatsTable, answer.check().body).offset_table == {
            MessageQueue("T", "b", 0): TopicOffset(),
            MessageQueue("T", "b", 1): TopicOffset(max_offset=1, last_update_timestamp=now),
        }
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="U"))
        assert (answer.code, answer.remark) == (17, "topic[U] not exist")

    play(scenario)


def test_who_consumes_a_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.heartbeat("c1", "online")
        sim.broker.state.offsets.commit("offline", "T", 0, 1)
        sim.broker.state.offsets.commit("online", "T", 0, 1)
        answer = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequest(topic="T"))
        assert decode_body(GroupList, answer.check().body).group_list == ("online", "offline")

    play(scenario)


def test_a_group_is_made_listed_and_deleted(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        wanted = SubscriptionGroupConfig(group_name="g", retry_max_times=2)
        answer = await client.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(wanted)
        )
        assert answer.code == 0
        assert '"g":{' in (tmp_path / "config" / "subscriptionGroup.json").read_text()
        answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert (
            decode_body(SubscriptionGroupTable, answer.check().body).subscription_group_table["g"]
            == wanted
        )
        for group in ("g", "h", "i"):
            sim.broker.state.offsets.commit(group, "T", 0, 1)
        for delete in (
            DeleteSubscriptionGroupRequest(group_name="g"),
            DeleteSubscriptionGroupRequest(group_name="h", remove_offset=True),
            DeleteSubscriptionGroupRequest(group_name="i", clean_offset=True),  # as 5.x says it
        ):
            assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, delete)).code == 0
        assert sim.broker.state.groups.find("g") is None
        assert at_once(sim.broker.state.offsets.groups_of("T")) == ["g"]
        bad = encode_body(SubscriptionGroupConfig(group_name="a b"))
        assert (
            await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, bad)
        ).code == 1

    play(scenario)


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        (
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            DeleteSubscriptionGroupRequest(group_name="g", remove_offset=True),
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T")),
    ],
)
def test_offsets_that_were_removed_are_not_there_again_after_a_kill(
    play: Play, tmp_path: Path, code: RequestCode, request_: Record
) -> None:
    async def scenario(sim: SimBroker) -> None:
        tables, client = sim.broker.tables, sim.connect()
        for group, topic in (("g", "T"), ("h", "U")):
            tables.state.offsets.commit(group, topic, 0, 500)
        await tables.save_offsets()
        file = tmp_path / "config" / "consumerOffset.json"
        assert '"T@g"' in file.read_text()
        (await client.ask(code, request_)).check()
        assert '"T@g"' not in file.read_text()
        assert '"U@h"' in file.read_text()

    play(scenario)


def test_progress_of_a_group(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T", 2))
        for _ in range(3):
            await client.send("T", b"x", 0)
        for topic in ("T", "gone"):
            sim.broker.state.offsets.commit("g", topic, 0, 2)
        now = sim.clock.time_ms()
        answer = await client.ask(
            RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g")
        )
        stats = decode_body(ConsumeStats, answer.check().body)
        assert stats.offset_table == {
            MessageQueue("T", "b", 0): OffsetWrapper(
                broker_offset=3, consumer_offset=2, last_timestamp=now
            ),
            MessageQueue("T", "b", 1): OffsetWrapper(),
        }
        await client.heartbeat(
            "c1", "g", topic="U"
        )  # the group is online now, and does not want T any more
        answer = await client.ask(
            RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g")
        )
        assert decode_body(ConsumeStats, answer.check().body).offset_table == {}

    play(scenario)


@pytest.mark.parametrize("queues", [-1, MAX_QUEUES_PER_TOPIC + 1, 2**31 - 1])
def test_a_group_cannot_have_any_number_of_retry_queues(play: Play, queues: int) -> None:
    """Whoever lists the queues of its retry topic would never come to an end."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        group = encode_body(SubscriptionGroupConfig(group_name="g", retry_queue_nums=queues))
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)
        assert (answer.code, "retryQueueNums" in (answer.remark or "")) == (
            ResponseCode.SYSTEM_ERROR,
            True,
        )
        sim.broker.state.groups.update(
            SubscriptionGroupConfig(group_name="g", retry_queue_nums=queues)
        )  # from an older file
        (await client.heartbeat("c", "g")).check()
        retry = sim.broker.state.topics.get("%RETRY%g")
        assert retry is not None
        assert retry.read_queue_nums == (0 if queues < 0 else MAX_QUEUES_PER_TOPIC)

    play(scenario)


# -- what administrators of 5.x ask besides
# ---------------------------------------------------------------------------


def test_the_configuration_of_one_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await sim.make_topic("T")
        answer = (await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequest(topic="T"))).check()
        config = decode_body(TopicConfig, answer.body)
        assert (config.topic_name, config.read_queue_nums, config.perm) == ("T", 4, 6)
        answer = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequest(topic="U"))
        assert (answer.code, answer.remark) == (17, "No topic in this broker. topic: U")

    play(scenario)


def test_a_list_of_topics_is_made_all_or_none(play: Play, tmp_path: Path) -> None:
    async def ask(client: SimClient, *topics: dict[str, Any]) -> Response:
        body = json.dumps({"topicConfigList": topics}).encode()
        return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        listed = [
            {
                "topicName": f"T{number}",
                "readQueueNums": 3,
                "perm": 6,
                "order": True,
                "attributes": {"+message.type": "NORMAL"},
            }
            for number in range(100)
        ]
        answer = await ask(client, *listed)
        assert (answer.code, answer.remark) == (0, None)
        config = sim.broker.state.topics.get("T99")
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.order) == (3, 16, False)
        assert '"T99":{' in (tmp_path / "config" / "topics.json").read_text()
        version = sim.broker.state.topics.data_version
        for bad in (
            {"topicName": "a b"},
            {"topicName": "TBW102"},
            {"topicName": "U", "readQueueNums": -1},
        ):
            answer = await ask(client, {"topicName": "Good"}, bad)
            assert (answer.code, bool(answer.remark)) == (1, True)
        assert (await ask(client, *listed)).code == 0
        assert sim.broker.state.topics.data_version == version
        answer = await client.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, b" " * (1 << 20) + b"{}"
        )
        assert (answer.code, "the limit is 1048576" in (answer.remark or "")) == (1, True)

    play(scenario)


def test_a_list_of_groups_is_made_all_or_none(play: Play, tmp_path: Path) -> None:
    async def ask(client: SimClient, *groups: dict[str, Any]) -> Response:
        body = json.dumps({"groupConfigList": groups}).encode()
        return await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, body)

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await ask(
            client,
            *({"groupName": f"g{number}", "subscriptionDataSet": None} for number in range(100)),
        )
        assert (answer.code, answer.remark) == (0, None)
        assert '"g99":{' in (tmp_path / "config" / "subscriptionGroup.json").read_text()
        for bad in ({"groupName": "a b"}, {"groupName": "h", "retryQueueNums": -1}):
            assert (await ask(client, {"groupName": "good"}, bad)).code == 1
        assert "good" not in sim.broker.state.groups

    play(scenario)


def test_an_answer_has_so_many_queues_at_most(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for name in ("T", "U"):
            sim.broker.state.topics.update(
                TopicConfig(topic_name=name, read_queue_nums=60_000, write_queue_nums=60_000)
            )
            sim.broker.state.offsets.commit("g", name, 0, 1)
        assert (
            await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="T"))
        ).code == 0
        answer = await client.ask(
            RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g")
        )
        assert answer.code == 1
        assert (
            answer.remark
            == "the answer would have 120000 queues, the limit is maxQueuesPerAnswer=100000"
        )

    play(scenario)


def test_others_are_served_while_many_queues_are_looked_at(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        sim.broker.state.topics.update(
            TopicConfig(topic_name="T", read_queue_nums=8000, write_queue_nums=8000)
        )
        slow, quick = sim.connect(), sim.connect()
        long = asyncio.create_task(
            slow.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="T"))
        )
        asked = 0
        while not long.done():
            await quick.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            asked += 1
        assert len(decode_body(TopicStatsTable, (await long).check().body).offset_table) == 8000
        assert asked > 5

    play(scenario)


def topic_list(number: int) -> object:
    return {"topicConfigList": [{"topicName": f"T{number}_{n}"} for n in range(100)]}


def group_list(number: int) -> object:
    return {"groupConfigList": [{"groupName": f"g{number}_{n}"} for n in range(100)]}


@pytest.mark.parametrize(
    ("code", "listed"),
    [
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, topic_list),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, group_list),
    ],
)
def test_many_lists_at_once_do_not_make_a_turn_long(
    play: Play, code: RequestCode, listed: Callable[[int], object]
) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()

        def changes() -> int:
            return (
                sim.broker.state.topics.data_version.counter
                + sim.broker.state.groups.data_version.counter
            )

        asking = asyncio.gather(
            *(client.ask(code, None, json.dumps(listed(number)).encode()) for number in range(3))
        )
        before, most = changes(), 0
        while not asking.done():
            await asyncio.sleep(0)
            most, before = max(most, changes() - before), changes()
        assert [answer.code for answer in await asking] == [0, 0, 0]
        assert 0 < most <= PER_TURN

    play(scenario)
