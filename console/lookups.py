"""Messages: found by key, id and time, and all that is to be found of one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ..client.admin import MessageTrack, PullStatus, Traced
from ..client.admin.messages import place_of
from ..client.errors import ConfigError, NoRouteError
from ..remoting.errors import QueryNotFound, RocketMQError
from ..remoting.protocol.message.message_queue import MessageQueue
from ..remoting.protocol.message.topic_names import TopicName, dlq_topic, retry_topic
from ..remoting.protocol.record.decode import MessageExt
from ..remoting.transport.address import is_host
from .cluster import ClusterView
from .model.journey import Copies, group_of, origin_topic

T = TypeVar("T")

MOST_FOUND: Final = 64
MOST_GROUPS: Final = 256
"""Groups of a topic whose retries and dead letters are looked for. 200 groups at 20 brokers are
4,000 questions, 0.2 s of CPU here."""
ALL_TIME: Final = (0, (1 << 63) - 1)
INDEX_MS: Final = 1000
"""What an index knows of a time: it is that or up to so much later."""
A_PULL: Final = 32
MOST_PULLS: Final = 8
"""Of one queue, for a range of time."""


class Journey(NamedTuple):
    """What was found of a message. ``problems``: what could not be asked, in the cluster's
    words."""

    copies: Copies
    tracks: Sequence[MessageTrack]
    traces: Sequence[Traced]
    problems: Sequence[str]


async def by_key(
    view: ClusterView, topic: str, key: str, begin_ms: int, end_ms: int
) -> tuple[list[MessageExt], list[str]]:
    """The newest that were stored in that time, and brokers that did not tell. Raises
    ``NoRouteError``."""
    missing: dict[str, RocketMQError] = {}
    found = await view.admin.query_messages(
        topic,
        key,
        max_messages=MOST_FOUND,
        begin_ms=max(0, begin_ms - INDEX_MS),
        end_ms=end_ms,
        missing=missing,
    )
    in_time = [each for each in found if begin_ms <= each.store_timestamp <= end_ms]
    return in_time, _not_looked_through(missing)


async def by_id(view: ClusterView, topic: str, msg_id: str) -> tuple[list[MessageExt], list[str]]:
    """By the producer's id in a topic, or by the broker's in any; and brokers that did not tell.
    Raises ``ConfigError``, ``QueryNotFound`` where all did and none has it, ``NoRouteError``."""
    missing: dict[str, RocketMQError] = {}
    found: list[MessageExt] = []
    try:
        if topic:
            found = await view.admin.query_by_unique_key(topic, msg_id, missing=missing)
    except RocketMQError:
        if not missing:
            raise
    problems = _not_looked_through(missing)
    if found:
        return found, problems
    try:
        return [await at_broker(view, msg_id)], problems
    except (ConfigError, QueryNotFound) as error:
        if not problems:
            raise
        return [], [*problems, str(error)]


def _not_looked_through(missing: Mapping[str, RocketMQError]) -> list[str]:
    return [f"{address} was not looked through: {error}" for address, error in missing.items()]


async def at_broker(view: ClusterView, msg_id: str) -> MessageExt:
    """The message with this id of a broker. An id is an address, and anybody may have written it
    into a link: none but brokers of this cluster are asked. Raises ``ConfigError``."""
    address, _ = place_of(msg_id)
    if not await _is_broker(view, address):
        raise ConfigError(
            f"the id names {address}, which is no broker of this cluster: nobody was asked"
        )
    return await view.admin.view_message(msg_id)


async def _is_broker(view: ClusterView, address: str) -> bool:
    """``address``: an IP address and a port. Brokers may be registered by name."""
    known = {member.address for member in await view.admin.members()}
    if address in known:
        return True
    ip, _, port = address.rpartition(":")
    names = [
        host.strip("[]")
        for host, _, of in (each.rpartition(":") for each in known)
        if of == port and is_host(host)
    ]
    looking = asyncio.get_running_loop().getaddrinfo
    for name in names:
        try:
            found = await looking(name, int(port), type=socket.SOCK_STREAM)
        except OSError:
            continue
        if ip.strip("[]") in {where[0] for *_, where in found}:
            return True
    return False


async def by_time(
    view: ClusterView, topic: str, begin_ms: int, end_ms: int, most: int = MOST_FOUND
) -> tuple[list[MessageExt], list[str]]:
    """The first that were stored in that time, and what could not be read, or is beyond these.
    Raises ``NoRouteError``."""
    queues = await view.admin.read_queues(topic)
    told = await asyncio.gather(
        *(view.ask(partial(_of_queue, view, queue, begin_ms, end_ms, most)) for queue in queues)
    )
    answers = [answer for answer, _ in told if answer is not None]
    found = [message for messages, _ in answers for message in messages]
    found.sort(key=lambda message: message.store_timestamp)
    problems = [problem for _, problem in told if problem]
    if len(found) > most or any(more for _, more in answers):
        problems.append(
            f"More were stored in that time than the {min(most, len(found))} that were looked "
            "through: choose a shorter one to see the others."
        )
    return found[:most], problems


async def _of_queue(
    view: ClusterView, queue: MessageQueue, begin_ms: int, end_ms: int, most: int
) -> tuple[list[MessageExt], bool]:
    """And whether there may be more."""
    offset = await view.admin.search_offset(queue, begin_ms)
    found: list[MessageExt] = []
    for _ in range(MOST_PULLS):
        pulled = await view.admin.pull(queue, offset, A_PULL)
        found += [m for m in pulled.messages if begin_ms <= m.store_timestamp <= end_ms]
        offset = pulled.next_offset
        late = any(m.store_timestamp > end_ms for m in pulled.messages)
        if pulled.status is not PullStatus.FOUND or late or offset >= pulled.max_offset:
            return found, False
        if len(found) > most:
            break
    return found, True


async def journey_of(view: ClusterView, message: MessageExt) -> Journey:
    """Everything that brokers and clients tell of a message, whichever of its copies this is."""
    topic, msg_id = origin_topic(message), message.msg_id
    known, no_groups = await view.ask(partial(view.admin.query_topic_consume_by_who, topic))
    own = group_of(message)
    groups = sorted({*(known or ()), *([own] if own else [])})
    problems = [f"Groups of the topic: {no_groups}"] if no_groups else []
    if len(groups) > MOST_GROUPS:
        problems.append(
            f"The topic has {len(groups)} groups: only the first {MOST_GROUPS}, by name, were "
            "looked at."
        )
    groups = groups[:MOST_GROUPS]
    looking = _Looking(view, msg_id)
    stored, retries, dead, halves, given_up, traces = await asyncio.gather(
        looking.copies(topic),
        asyncio.gather(*(looking.copies(retry_topic(each)) for each in groups)),
        asyncio.gather(*(looking.copies(dlq_topic(each)) for each in groups)),
        looking.copies(TopicName.TRANS_HALF),
        looking.copies(TopicName.TRANS_CHECK_MAX_TIME),
        looking.traces(),
    )
    problems += [f"{what}: {why}" for what, why in looking.problems.items()]
    tracks, no_tracks = None, None
    if stored:
        tracks, no_tracks = await view.ask(partial(view.admin.message_tracks, stored[0], groups))
    problems += [f"How far groups are: {no_tracks}"] if no_tracks else []
    copies = Copies(
        stored or ([message] if message.topic == topic else []),
        {group: found for group, found in zip(groups, retries, strict=True) if found},
        {group: found for group, found in zip(groups, dead, strict=True) if found},
        halves,
        given_up,
        {
            group
            for group in groups
            if not looking.incomplete.isdisjoint((retry_topic(group), dlq_topic(group)))
        },
    )
    return Journey(copies, tracks or (), traces, problems)


class _Looking:
    """For all that is to be found of one message. A topic that is not there is nothing special."""

    def __init__(self, view: ClusterView, msg_id: str) -> None:
        self._view = view
        self._msg_id = msg_id
        self.problems: Final[dict[str, str]] = {}
        """What could not be asked, and why: each broker once, for however many topics."""
        self.incomplete: Final[set[str]] = set()
        """Topics of which something may not have been found."""

    async def copies(self, topic: str) -> list[MessageExt]:
        ask = partial(self._view.admin.query_by_unique_key, topic, self._msg_id)
        return await self._found(topic, lambda missing: ask(missing=missing))

    async def traces(self) -> list[Traced]:
        ask = partial(self._view.admin.message_trace, self._msg_id)
        return await self._found(TopicName.TRACE, lambda missing: ask(missing=missing))

    async def _found(
        self, topic: str, question: Callable[[dict[str, RocketMQError]], Awaitable[list[T]]]
    ) -> list[T]:
        missing: dict[str, RocketMQError] = {}
        found: list[T] = []
        async with self._view.turn:
            try:
                found = await question(missing)
            except NoRouteError:
                pass
            except RocketMQError as error:
                if not missing:
                    self._could_not_ask(topic, "", error)
        for address, why in missing.items():
            self._could_not_ask(topic, f" at {address}", why)
        return found

    def _could_not_ask(self, topic: str, at: str, why: RocketMQError) -> None:
        self.incomplete.add(topic)
        self.problems.setdefault(f"Copies and traces{at}", str(why))
