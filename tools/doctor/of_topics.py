"""The topic and the group that were asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.route import MASTER_ID, TopicRouteData
from ...remoting.protocol.message.sys_flag import PermName
from .finding import Finding, note, unseen, wrong
from .seen import Kind, Seen, Trouble
from .troubles import not_told

_MOST_CLIENTS: Final = 20


def of_topic(seen: Seen) -> Iterator[Finding]:
    """Who has it, as each name server says."""
    if seen.topic is None:
        return
    asked = [each for each in seen.name_servers if each.cluster is not None]
    place = f"topic {seen.topic}"
    for each in asked:
        if isinstance(each.route, Trouble):
            yield not_told(f"name server {each.server.address}", f"route of {place}", each.route)
    have = [each for each in asked if isinstance(each.route, TopicRouteData)]
    lack = [each for each in asked if each.route is None]
    if lack and not have:
        yield wrong(
            place,
            "no broker has it",
            f"mqadmin updateTopic -t {seen.topic} -c CLUSTER; a first send makes it where brokers "
            "have autoCreateTopicEnable=true",
        )
    for each in lack if have else ():
        yield wrong(
            f"name server {each.server.address}",
            f"it does not know the topic {seen.topic}, which {have[0].server.address} knows",
            "a topic that was just made is there within 30 s; otherwise see namesrvAddr of its "
            "brokers",
        )
    for route in {_queues(each.route): each.route for each in have}.values():
        if isinstance(route, TopicRouteData):
            yield from _permissions(place, route)
    if have:
        yield unseen(
            place, "whether this account may send to it or read it: that takes a message, or a pull"
        )


def _queues(route: object) -> object:
    return tuple(route.queue_datas) if isinstance(route, TopicRouteData) else None


def _permissions(place: str, route: TopicRouteData) -> Iterator[Finding]:
    with_master = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    writeable = [
        each.broker_name
        for each in route.queue_datas
        if each.perm & PermName.WRITE and each.write_queue_nums > 0
    ]
    if not with_master & set(writeable):
        yield wrong(
            place,
            "nothing can be sent to it: no broker with a master lets it be written",
            "mqadmin updateTopicPerm, addWritePerm, or brokerPermission=6; or start the master",
        )
    for each in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
        if not each.perm & PermName.READ or each.read_queue_nums < 1:
            yield wrong(
                f"{place} at {each.broker_name}",
                "it cannot be read there",
                "mqadmin updateTopicPerm, or brokerPermission=6",
            )
        elif each.broker_name not in writeable:
            yield note(
                f"{place} at {each.broker_name}",
                "it can be read there and not written",
                "as it should be before a broker is taken away; else: mqadmin addWritePerm",
            )


def of_group(seen: Seen) -> Iterator[Finding]:
    """Who of it is connected to which broker."""
    if seen.group is None:
        return
    place = f"group {seen.group}"
    online: dict[str, ConsumerConnection] = {}
    for each in seen.brokers:
        if isinstance(each.consumers, ConsumerConnection):
            online[each.place] = each.consumers
        elif isinstance(each.consumers, Trouble) and each.consumers.kind is not Kind.OFFLINE:
            yield not_told(each.place, f"who consumes as {seen.group}", each.consumers)
    asked = [each for each in seen.brokers if each.consumers is not None]
    if not online:
        if asked:
            yield note(
                place,
                "none of its consumers is connected",
                "start one; if one runs, run this where it runs, with its name servers",
            )
        return
    if seen.topic is None:
        return
    subscribed = {topic for each in online.values() for topic in each.subscription_table}
    if seen.topic not in subscribed:
        yield wrong(
            place,
            f"its consumers do not subscribe {seen.topic}",
            f"they subscribe: {', '.join(sorted(subscribed)[:10]) or 'nothing'}; all consumers of "
            "a group subscribe the same",
        )
        return
    yield from _not_everywhere(seen, place, online)


def _not_everywhere(
    seen: Seen, place: str, online: dict[str, ConsumerConnection]
) -> Iterator[Finding]:
    """Consumers speak up at every broker of their topics."""
    names = {
        data.broker_name
        for each in seen.name_servers
        if isinstance(each.route, TopicRouteData)
        for data in each.route.broker_datas
    }
    clients = {c.client_id for each in online.values() for c in each.connection_set if c.client_id}
    for each in seen.brokers:
        if each.name not in names or not each.is_master or each.consumers is None:
            continue
        if isinstance(each.consumers, Trouble) and each.consumers.kind is not Kind.OFFLINE:
            continue
        there = set()
        if isinstance(each.consumers, ConsumerConnection):
            there = {c.client_id for c in each.consumers.connection_set}
        for client in sorted(clients - there)[:_MOST_CLIENTS]:
            yield wrong(
                each.place,
                f"the consumer {client} of {place} is connected to other brokers of the topic, and "
                "not to this one",
                "run this on that consumer's machine: can it reach this address? It speaks up "
                "every 30 s",
            )
