"""Queues of a topic that somebody tells of beside the name server that routes are asked of: the
other name servers, which may have noticed less or more of what happened to brokers (one that was
started again knows nobody for up to 30 seconds), the order configuration of the topic (KV config
``ORDER_TOPIC_CONFIG``, ``namesrv.md`` §5), which outlives its brokers, and name servers of ours
that remember brokers which died (``namesrv/lost_brokers.py``; others know no such namespace).

The cluster table cannot tell of more: name servers take a broker out of it together with its
queues. Nor can brokers: each knows its own topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from ...client.cluster.answers import answer_body
from ...client.cluster.instance import ClientInstance
from ...client.cluster.lost_brokers import (
    LOST_BROKERS_OF_TOPIC,
    how_to_forget,
    lost_in,
    when_lost,
)
from ...client.cluster.route_cache import publish_queues, subscribe_queues
from ...client.namespaces import unwrap_queue, with_namespace
from ...remoting.errors import BrokerError, QueryNotFound, RemotingError
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.bodies.lists import TopicList
from ...remoting.protocol.bodies.route import TopicRouteData
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.kv import GetKVListByNamespaceRequest, KVConfigRequest
from ...remoting.protocol.commands.route import GetRouteInfoRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from .at_once import by_key

__all__ = ["ask_for_told_queues", "ask_for_told_topics"]

log: Final = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0
_ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


async def ask_for_told_queues(
    instance: ClientInstance, topics: Iterable[str], namespace: str | None
) -> dict[MessageQueue, str]:
    """Readable queues by whom tells of them. A name server that does not answer tells nothing: one
    that does is enough to read."""
    servers = instance.name_servers.addresses

    async def one(asked: tuple[str, str]) -> dict[MessageQueue, str]:
        topic, server = asked
        try:
            told = await _lost(instance, server, topic)
            ordered = await _ordered(instance, server, topic)
            told |= dict.fromkeys(ordered, "the order configuration")
            if len(servers) > 1:
                routed = await _routed(instance, server, topic)
                told |= dict.fromkeys(routed, f"the name server {server}")
        except (RemotingError, BrokerError) as error:
            log.info("the name server %s does not tell of %s: %s", server, topic, error)
            return {}
        return {unwrap_queue(queue, namespace): by for queue, by in told.items()}

    names = [with_namespace(topic, namespace) for topic in topics]
    answers = await by_key([(topic, server) for topic in names for server in servers], one)
    return {queue: by for told in answers.values() for queue, by in told.items()}


async def ask_for_told_topics(instance: ClientInstance) -> set[str]:
    """All topics that some name server knows, or remembers of brokers that died, as the cluster
    names them. One that does not answer tells nothing."""

    async def one(server: str) -> set[str]:
        try:
            listed = await instance.remoting.invoke(
                server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, timeout=_TIMEOUT_S
            )
            topics = set(answer_body(listed.check(server), TopicList, server).topic_list)
            return topics | await _lost_topics(instance, server)
        except (RemotingError, BrokerError) as error:
            log.info("the name server %s does not tell of topics: %s", server, error)
            return set()

    answers = await by_key(instance.name_servers.addresses, one)
    return set().union(*answers.values())


async def _lost_topics(instance: ClientInstance, server: str) -> set[str]:
    header = GetKVListByNamespaceRequest(namespace=LOST_BROKERS_OF_TOPIC)
    answer = await instance.remoting.invoke(
        server, RequestCode.GET_KVLIST_BY_NAMESPACE, header, timeout=_TIMEOUT_S
    )
    try:
        return set(answer_body(answer.check(server), KVTable, server).table)
    except QueryNotFound:
        return set()


async def _ordered(instance: ClientInstance, server: str, topic: str) -> Sequence[MessageQueue]:
    value = await _configured(instance, server, _ORDER_NAMESPACE, topic)
    return publish_queues(topic, TopicRouteData(order_topic_conf=value)) if value else ()


async def _lost(instance: ClientInstance, server: str, topic: str) -> dict[MessageQueue, str]:
    """One queue stands for all of a broker."""
    value = await _configured(instance, server, LOST_BROKERS_OF_TOPIC, topic)
    return {
        MessageQueue(topic, name, 0): (
            f"the name server {server}, which lost it{when_lost(since)} ({how_to_forget(name)}),"
        )
        for name, since in lost_in(value).items()
    }


async def _configured(
    instance: ClientInstance, server: str, namespace: str, key: str
) -> str | None:
    """None where the name server has no such thing."""
    answer = await instance.remoting.invoke(
        server,
        RequestCode.GET_KV_CONFIG,
        KVConfigRequest(namespace=namespace, key=key),
        timeout=_TIMEOUT_S,
    )
    try:
        value: str | None = answer.check(server).header.value
    except QueryNotFound:
        return None
    return value


async def _routed(instance: ClientInstance, server: str, topic: str) -> Sequence[MessageQueue]:
    header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
    answer = await instance.remoting.invoke(
        server, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=_TIMEOUT_S
    )
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return ()
    return subscribe_queues(topic, answer_body(answer, TopicRouteData, server))
