"""Consumer groups: how far they are behind, who is in them, and what is wrong, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ...remoting.protocol.bodies.stats import ConsumeStats, ConsumeStatsList
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.codes import version_name
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import TopicName, is_system_group
from .overview import Trouble
from .texts import count


class GroupRow(NamedTuple):
    """A row of the list. ``None``: no broker told."""

    name: str
    lag: int | None
    rate: float | None
    topics: int | None
    system: bool


class QueueLag(NamedTuple):
    """A queue of a group."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_ms: int
    """When the message that it consumed last was stored."""
    client: str = ""
    """Who consumes it."""

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


class MemberRow(NamedTuple):
    """A client of a group."""

    client_id: str
    address: str
    language: str
    version: str
    subscriptions: Mapping[str, str] | None
    """Topic -> expression; ``None``: it did not tell."""
    queues: int | None
    problem: str | None


def groups_of_topics(topics: Iterable[str]) -> list[str]:
    """Each group has a retry topic, which name servers know."""
    prefix = TopicName.RETRY_PREFIX
    return sorted(name.removeprefix(prefix) for name in topics if name.startswith(prefix))


def lags_of(tables: Iterable[ConsumeStatsList]) -> dict[str, tuple[int, float, int]]:
    """Of all brokers together: group -> messages behind, consumed per second, number of topics. An
    offset behind the end of its queue (the topic was made anew) takes nothing away from others."""
    found: dict[str, tuple[int, float, set[str]]] = {}
    for table in tables:
        for entry in table.consume_stats_list:
            for group, stats in entry.items():
                lag, rate, topics = found.get(group, (0, 0.0, set()))
                lag += sum(
                    max(0, at.broker_offset - at.consumer_offset)
                    for each in stats
                    for at in each.offset_table.values()
                )
                rate += sum(each.consume_tps for each in stats)
                topics |= {queue.topic for each in stats for queue in each.offset_table}
                found[group] = (lag, rate, topics)
    return {group: (lag, rate, len(topics)) for group, (lag, rate, topics) in found.items()}


def rows_of(
    names: Iterable[str], lags: Mapping[str, tuple[int, float, int]] | None
) -> list[GroupRow]:
    """Those furthest behind first. ``lags``: ``None`` when no broker told."""
    rows = []
    for name in sorted({*names, *(lags or ())}):
        lag, rate, topics = (lags or {}).get(name, (0, 0.0, 0))
        told = lags is not None
        system = is_system_group(name)
        rows.append(
            GroupRow(
                name,
                lag if told else None,
                rate if told else None,
                topics if told else None,
                system,
            )
        )
    return sorted(rows, key=lambda row: (row.system, -(row.lag or 0), row.name))


def queue_rows(stats: ConsumeStats, infos: Mapping[str, ConsumerRunningInfo]) -> list[QueueLag]:
    """By topic, broker and queue."""
    owners = {
        queue: client
        for client, info in infos.items()
        for queue, state in info.mq_table.items()
        if not state.dropped
    }
    return [
        QueueLag(
            queue,
            each.broker_offset,
            each.consumer_offset,
            each.last_timestamp,
            owners.get(queue, ""),
        )
        for queue, each in sorted(stats.offset_table.items())
    ]


def member_rows(
    connection: ConsumerConnection | None,
    infos: Mapping[str, ConsumerRunningInfo],
    problems: Mapping[str, str],
) -> list[MemberRow]:
    """Each client, with what it says that it subscribes."""
    rows = []
    for each in () if connection is None else connection.connection_set:
        client = each.client_id or ""
        info = infos.get(client)
        rows.append(
            MemberRow(
                client,
                each.client_addr or "",
                each.language.name if each.language is not None else "",
                version_name(each.version),
                None if info is None else subscriptions_of(info),
                None if info is None else len(info.mq_table),
                problems.get(client),
            )
        )
    return sorted(rows)


def subscriptions_of(info: ConsumerRunningInfo) -> dict[str, str]:
    """Topic -> expression; the retry topic, which each subscribes by itself, is left out."""
    return {
        each.topic: (
            each.sub_string or "*"
            if each.expression_type == "TAG"
            else f"{each.expression_type}: {each.sub_string}"
        )
        for each in sorted(info.subscription_set, key=lambda each: each.topic)
        if not each.topic.startswith(TopicName.RETRY_PREFIX)
    }


def differences(group: str, members: Sequence[MemberRow]) -> list[str]:
    """What members subscribe differently, each in a sentence: then each gets queues of topics that
    others never read, and messages go missing."""
    told = {
        member.client_id: member.subscriptions
        for member in members
        if member.subscriptions is not None
    }
    texts = []
    for topic in sorted({topic for subscribed in told.values() for topic in subscribed}):
        by_expression: dict[str | None, list[str]] = {}
        for client, subscribed in sorted(told.items()):
            by_expression.setdefault(subscribed.get(topic), []).append(client)
        if len(by_expression) < 2:
            continue
        parts = [
            f"{_clients(clients)} "
            + ("do not subscribe it" if expression is None else f"with {expression!r}")
            for expression, clients in by_expression.items()
        ]
        texts.append(
            f"Members of {group} disagree about {topic}: {'; '.join(parts)}. Each queue goes to "
            "one of them, so messages that only another one wants are passed over: give all "
            "members of a group the same subscriptions."
        )
    return texts


def _clients(clients: Sequence[str]) -> str:
    shown = ", ".join(clients[:3])
    return shown if len(clients) <= 3 else f"{shown} and {len(clients) - 3} more"


def group_troubles(
    group: str,
    queues: Sequence[QueueLag],
    members: Sequence[MemberRow],
    configs: Mapping[str, SubscriptionGroupConfig],
) -> list[Trouble]:
    """What is wrong with one group. ``configs``: by broker."""
    found = [Trouble("bad", text) for text in differences(group, members)]
    behind = sum(max(0, queue.lag) for queue in queues)
    if not members and behind:
        found.append(
            Trouble("bad", f"Nobody of {group} is connected, and {count(behind)} messages wait.")
        )
    ownerless = [queue for queue in queues if queue.lag > 0 and not queue.client]
    asked = [member for member in members if member.queues is not None]
    if ownerless and asked and len(asked) == len(members):
        found.append(
            Trouble(
                "warning",
                f"{len(ownerless)} queues with messages are consumed by no member: do all "
                "subscribe the same topics?",
            )
        )
    found += [
        Trouble("bad", f"{broker} does not let {group} consume: consumeEnable is false there.")
        for broker, config in sorted(configs.items())
        if not config.consume_enable
    ]
    found += [
        Trouble("warning", f"The member {member.client_id} does not answer: {member.problem}")
        for member in members
        if member.problem
    ]
    return found


def growing(
    before: Mapping[str, tuple[int, float, int]], now: Mapping[str, tuple[int, float, int]]
) -> list[str]:
    """Groups that are further behind than before, the furthest first."""
    found = [
        group
        for group, (lag, _, _) in now.items()
        if group in before and lag > before[group][0] and not is_system_group(group)
    ]
    return sorted(found, key=lambda group: -now[group][0])
