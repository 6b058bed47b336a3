"""Operations of ``Admin`` that no command of mqadmin uses, or uses one way only, against a cluster
of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from aiorocketmq import Admin, MessageQueue, sync
from aiorocketmq.client.admin import TrackType
from aiorocketmq.client.errors import ConfigError, NoRouteError
from aiorocketmq.remoting.dispatch import Context
from aiorocketmq.remoting.errors import BrokerError, QueryNotFound
from aiorocketmq.remoting.protocol.codes import LanguageCode

from .mqadmin_world import GROUP, OFFLINE_GROUP, TOPIC, World, world


@pytest.fixture(scope="module")
def gold() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def admin(gold: World) -> Iterator[sync.Admin]:
    with sync.Admin(namesrv=gold.cluster.namesrv_address) as made:
        yield made


def queue(number: int) -> MessageQueue:
    return MessageQueue(TOPIC, "broker-g", number)


def test_topics(admin: sync.Admin, gold: World) -> None:
    assert TOPIC in admin.topics_of_cluster("DefaultCluster")
    assert admin.topics_of_cluster("Nowhere") == ()
    assert "TBW102" in admin.system_topics_of_broker(gold.cluster.broker_address)
    assert admin.clusters_of_topic(TOPIC) == ["DefaultCluster"]
    with pytest.raises(NoRouteError, match="Nowhere"):
        admin.clusters_of_topic("Nowhere")
    with pytest.raises(ConfigError, match="no master of the topic"):
        admin.topic_config_on(TOPIC, "127.0.0.1:1")


def test_what_consumers_know(admin: sync.Admin, gold: World) -> None:
    offsets = admin.consumer_status(GROUP, TOPIC)
    assert offsets[gold.client_id].keys() == {queue(n) for n in range(4)}
    with pytest.raises(BrokerError):
        admin.consumer_status(OFFLINE_GROUP, TOPIC)
    spans = admin.consume_time_span(GROUP, TOPIC)
    assert [span.message_queue for span in spans] == [queue(n) for n in range(4)]
    assert all(0 < span.min_time_stamp <= span.max_time_stamp for span in spans)


def test_offsets_inside_a_broker(admin: sync.Admin, gold: World) -> None:
    address = gold.cluster.broker_address
    assert admin.correction_offsets(address, TOPIC, GROUP)[0] == 1, "the offline group is behind"
    assert admin.correction_offsets(address, TOPIC, GROUP, (OFFLINE_GROUP,))[0] == 3
    admin.clone_group_offset_in_broker(address, OFFLINE_GROUP, "GID_cloned", TOPIC)
    assert admin.consumer_offset("GID_cloned", queue(3)) == 1


def test_tracks(admin: sync.Admin, gold: World) -> None:
    """Of a message that the group has, and of one that it has not reached yet."""
    tracks = {
        track.group: track.track
        for track in admin.message_tracks(admin.view_message(gold.offset_msg_id))
    }
    assert tracks[GROUP] is TrackType.CONSUMED
    assert tracks[OFFLINE_GROUP] is TrackType.UNKNOWN, "it never had a retry topic"


def test_entries_of_a_queue(admin: sync.Admin, gold: World) -> None:
    address = gold.cluster.broker_address
    found = admin.query_consume_queue(address, TOPIC, 1, 2, 5)
    assert (found.min_queue_index, found.max_queue_index, len(found.queue_data)) == (0, 3, 1)
    with pytest.raises(QueryNotFound, match="Index 99 of 1@GoldNormal is not exist"):
        admin.query_consume_queue(address, TOPIC, 1, 99, 1)


def test_traces_and_counters(admin: sync.Admin, gold: World) -> None:
    [traced] = admin.message_trace(gold.msg_id)
    assert (traced.client_host, traced.record.msg_id) == ("127.0.0.1", gold.msg_id)
    with pytest.raises(BrokerError, match="not exist"):
        admin.broker_stats(gold.cluster.broker_address, "TOPIC_PUT_NUMS", "Nowhere")
    with pytest.raises(ConfigError, match="more than 0"):
        admin.broker_consume_stats(gold.cluster.broker_address, timeout=0)


def test_only_a_half_message_is_checked_again(admin: sync.Admin, gold: World) -> None:
    with pytest.raises(ConfigError, match="no offset message id"):
        admin.resume_check_half_message("nonsense")
    with pytest.raises(BrokerError):
        admin.resume_check_half_message(gold.offset_msg_id)


def test_name_servers_one_at_a_time(admin: sync.Admin, gold: World) -> None:
    address = gold.cluster.namesrv_address
    assert admin.name_server_config(address)["orderMessageEnable"] == "false"
    with pytest.raises(ConfigError, match="must look like"):
        admin.name_server_config("nonsense")
    with pytest.raises(ConfigError, match="one name server at a time"):
        admin.wipe_write_perm("127.0.0.1:1;127.0.0.1:2", "broker-g")


def test_consumers_in_cpp_are_asked_for_in_their_language(
    gold: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker answers by the language of who asks."""
    languages: list[LanguageCode | None] = []
    original = Context.language.fget  # type: ignore[attr-defined]
    assert original is not None

    def noted(context: Context) -> LanguageCode | None:
        language: LanguageCode | None = original(context)
        languages.append(language)
        return language

    monkeypatch.setattr(Context, "language", property(noted))

    async def reset() -> None:
        async with Admin(namesrv=gold.cluster.namesrv_address) as admin:
            moved = await admin.reset_offsets(GROUP, TOPIC, -1, cpp=True)
            assert moved == {queue(n): 3 for n in range(4)}

    asyncio.run(reset())
    assert LanguageCode.CPP in languages
