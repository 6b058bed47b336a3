"""What the driver asks the cluster: routes, offsets of queues and groups, times (client.md §2,
§4.4). Blocking.

One client per cluster and process (``shared_clients.py``), on the event loop thread of
``loop_thread``. Names are the program's: the namespace is added and taken away here. A queue's
master is asked first, then its slaves, so that a dead master stops nothing.

One file: every question goes the same way, through the one client, with the namespace put on.

Over 400 lines: a method for each question, all of them over the same client, names and slaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from ...client.cluster.answers import answer_body
from ...client.cluster.instance import ClientInstance
from ...client.cluster.route_cache import subscribe_queues
from ...client.namespaces import (
    unwrap_queue,
    with_namespace,
    without_namespace,
    wrap_queue,
)
from ...loop_thread import LoopThread
from ...remoting.errors import (
    BrokerError,
    ConnectError,
    QueryNotFound,
    RemotingError,
    RocketMQError,
    SystemBusy,
)
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.bodies.route import MASTER_ID
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    QueueRequest,
    UpdateConsumerOffsetRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import is_dlq_topic, is_retry_topic, is_system_topic
from ...remoting.protocol.record import RecordError
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response
from .at_once import by_key
from .connection_options import ConnectionOptions
from .group_registration import register_group
from .offsets import Offsets
from .shared_clients import Client, SharedClients
from .stored_times import Stored, StoredTimes
from .told_queues import ask_for_told_queues, ask_for_told_topics

__all__ = ["Asked", "BrokerAccess", "MaxOffset", "warn_of_slaves"]

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V")

_TIMEOUT_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 1.0
_BACK_OFF_S: Final = 0.06
"""Sooner than that ``RemotingClient`` does not try to connect again."""
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class MaxOffset(NamedTuple):
    """The offset that the next message of a queue will get."""

    offset: int
    from_master: bool
    """Otherwise a slave said so, which may lag behind."""


class Asked(NamedTuple):
    """Answers by queue, and why there is none."""

    found: dict[MessageQueue, MaxOffset]
    failed: dict[MessageQueue, RocketMQError]


def warn_of_slaves(found: Mapping[MessageQueue, MaxOffset]) -> None:
    """What a slave does not have yet is not read, and nobody could tell otherwise."""
    names = {queue.broker_name for queue, each in found.items() if not each.from_master}
    for name in sorted(names):
        log.warning(
            "the master of the broker %s is away: its queues are read up to where a slave of it "
            "is, which may be behind",
            name,
        )


class BrokerAccess:
    """One cluster. ``retries`` and ``retry_interval_ms`` are Kafka's ``fetchOffset.*``; the pause
    doubles up to a second."""

    _clients: ClassVar[SharedClients]

    def __init__(
        self,
        connection: ConnectionOptions,
        *,
        retries: int = 3,
        retry_interval_ms: int = 10,
        group: str = "spark",
    ) -> None:
        self._connection = connection
        self._namespace = connection.namespace
        self._retries = retries
        self._pause_s = retry_interval_ms / 1000
        self._group = with_namespace(group, connection.namespace)
        self._loop = LoopThread.shared()

    @classmethod
    def forget(cls) -> None:
        """In a forked child: connections belong to the parent."""
        cls._clients = SharedClients(_started)

    @classmethod
    def close_all(cls) -> None:
        """Close every connection of this process; the next question makes new ones."""
        LoopThread.shared().run(cls._clients.close_all())

    def close(self) -> None:
        """As ``close_all`` those of this cluster, unless somebody uses them."""
        self._loop.run(self._clients.close(self._connection))

    @contextlib.contextmanager
    def client(self) -> Iterator[ClientInstance]:
        """The running client of the cluster, for the sink; it stays open in this block, at least.
        Raises ``RemotingError``, ``TlsError``."""
        clients = self._clients
        client = self._loop.run(clients.take(self._connection))
        try:
            yield client.instance
        finally:
            self._loop.run(_given_back(clients, client))

    # --- topics and queues
    # ------------------------------------------------------------------------------------------

    def topics(self, pattern: str) -> list[str]:
        """Topics whose whole name the regular expression matches. Retry, dead letter and system
        topics only when the pattern names their prefix. Raises ``RemotingError``,
        ``BrokerError``."""

        async def ask(instance: ClientInstance) -> tuple[str, ...]:
            from ...client.admin import Admin  # all of it is much, and few need it

            return await Admin(instance=instance).topic_list()

        return self._matching(pattern, self._run(ask))

    def told_topics(self, pattern: str) -> list[str]:
        """Those of them, too, that one name server or another tells of, or remembers of a broker
        that died. Raises ``RemotingError``, ``BrokerError``."""
        return self._matching(pattern, self._run(ask_for_told_topics))

    def _matching(self, pattern: str, names: Iterable[str]) -> list[str]:
        ours = [without_namespace(name, self._namespace) for name in names if self._is_ours(name)]
        return sorted(
            name for name in ours if re.fullmatch(pattern, name) and _is_meant(name, pattern)
        )

    def _is_ours(self, name: str) -> bool:
        return not self._namespace or without_namespace(name, self._namespace) != name

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[MessageQueue, ...]]:
        """The readable queues by topic; none for a topic that no name server knows.

        Raises ``RemotingError``, ``BrokerError``.
        """

        async def ask(instance: ClientInstance) -> dict[str, tuple[MessageQueue, ...]]:
            async def one(topic: str) -> tuple[MessageQueue, ...]:
                route = await instance.routes.look_up(with_namespace(topic, self._namespace))
                if route is None:
                    return ()
                return tuple(
                    unwrap_queue(queue, self._namespace)
                    for queue in subscribe_queues(route.topic, route.data)
                )

            return await by_key(wanted, one)

        wanted = list(topics)
        return self._run(ask)

    def registered_brokers(self) -> set[str]:
        """Names of the brokers whose masters name servers know at present: they bring the topics,
        slaves do not. Raises ``RemotingError``, ``BrokerError``."""

        async def ask(instance: ClientInstance) -> set[str]:
            from ...client.admin import Admin

            brokers = (await Admin(instance=instance).cluster_info()).broker_addr_table
            return {name for name, each in brokers.items() if each.master_addr is not None}

        return self._run(ask)

    def unrouted(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those that are at their broker although no route tells of them, or may be: it says that
        something was in them (of what it does not have it says 0), or does not answer. Raises
        ``RemotingError``, ``BrokerError`` where no name server tells where brokers are."""
        wanted = list(queues)

        async def ask(instance: ClientInstance) -> set[MessageQueue]:
            from ...client.admin import Admin

            brokers = (await Admin(instance=instance).cluster_info()).broker_addr_table

            async def one(queue: MessageQueue) -> bool:
                broker = brokers.get(queue.broker_name)
                if broker is None or (address := broker.master_addr) is None:
                    return True
                code, header = RequestCode.GET_MAX_OFFSET, self._header(queue)
                try:
                    answer = await instance.remoting.invoke(
                        address, code, header, timeout=_TIMEOUT_S
                    )
                    return bool(answer.check(address).header.offset)
                except (RemotingError, SystemBusy):
                    return True
                except BrokerError:
                    return False

            return {queue for queue, is_there in (await by_key(wanted, one)).items() if is_there}

        return self._run(ask)

    def told_queues(self, topics: Iterable[str]) -> dict[MessageQueue, str]:
        """Queues that one name server or another, or an order configuration, tells of. Raises
        ``RemotingError``, ``BrokerError``."""
        wanted = list(topics)

        async def ask(instance: ClientInstance) -> dict[MessageQueue, str]:
            return await ask_for_told_queues(instance, wanted, self._namespace)

        return self._run(ask)

    def replicas(self, queue: MessageQueue, *, fresh: bool = False) -> dict[int, str]:
        """Addresses of a queue's broker by id, 0 is the master; empty when no name server knows it.

        Raises ``RemotingError``, ``BrokerError``.
        """

        async def ask(instance: ClientInstance) -> dict[int, str]:
            topic = with_namespace(queue.topic, self._namespace)
            if fresh or queue.broker_name not in instance.routes.brokers:
                await instance.routes.look_up(topic)
            return dict(instance.routes.brokers.get(queue.broker_name, {}))

        return self._run(ask)

    # --- offsets
    # ----------------------------------------------------------------------------------------------

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Asked:
        """Latest offsets. A queue whose brokers do not answer is in ``failed``."""
        wanted = list(queues)

        async def ask(instance: ClientInstance) -> Asked:
            async def one(queue: MessageQueue) -> MaxOffset | RocketMQError:
                try:
                    answer, from_master = await self._ask(
                        instance, queue, RequestCode.GET_MAX_OFFSET, self._header(queue)
                    )
                except (RemotingError, BrokerError) as error:
                    return error
                return MaxOffset(int(answer.header.offset), from_master)

            answers = await by_key(wanted, one)
            return Asked(
                {queue: each for queue, each in answers.items() if isinstance(each, MaxOffset)},
                {queue: each for queue, each in answers.items() if isinstance(each, RocketMQError)},
            )

        return self._run(ask)

    def latest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Latest offsets of all; that a slave told one is in the log. Raises ``RemotingError``,
        ``BrokerError`` when one cannot be had."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> MaxOffset:
            answer, from_master = await self._ask(
                instance, queue, RequestCode.GET_MAX_OFFSET, self._header(queue)
            )
            return MaxOffset(int(answer.header.offset), from_master)

        found = self._by_queue(queues, ask)
        warn_of_slaves(found)
        return {queue: each.offset for queue, each in found.items()}

    def latest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets:
        """As ``latest``, by masters alone. Raises ``RemotingError``, ``BrokerError`` when one does
        not say it."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> int:
            answer, from_master = await self._ask(
                instance, queue, RequestCode.GET_MAX_OFFSET, self._header(queue)
            )
            if not from_master:
                raise ConnectError(f"the master of the broker {queue.broker_name} is away")
            return int(answer.header.offset)

        return self._by_queue(queues, ask)

    def earliest(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Offsets of the oldest messages that are kept. Raises ``RemotingError``,
        ``BrokerError``."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> int:
            answer, _ = await self._ask(
                instance, queue, RequestCode.GET_MIN_OFFSET, self._header(queue)
            )
            return int(answer.header.offset)

        return self._by_queue(queues, ask)

    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets:
        """As ``earliest``, of queues whose master says it: a slave deletes on its own."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> int | None:
            answer, from_master = await self._ask(
                instance, queue, RequestCode.GET_MIN_OFFSET, self._header(queue)
            )
            return int(answer.header.offset) if from_master else None

        found = self._by_queue(queues, ask)
        return {queue: offset for queue, offset in found.items() if offset is not None}

    def group_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Where the group stands, ``None`` where it never was, which only a master can tell. Raises
        ``RemotingError``, ``BrokerError``."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> int | None:
            header = QueryConsumerOffsetRequest(
                consumer_group=self._group,
                topic=self._topic(queue),
                queue_id=queue.queue_id,
                set_zero_if_not_found=False,  # or a group that never was begins with 0
                bname=queue.broker_name,
            )
            answer, from_master = await self._ask(
                instance, queue, RequestCode.QUERY_CONSUMER_OFFSET, header, check=False
            )
            try:
                return int(answer.check().header.offset)
            except QueryNotFound:
                if from_master:
                    return None
            raise ConnectError(
                f"the master of the broker {queue.broker_name} is away, and a slave of it knows no "
                f"offset of the group {self._group}"
            )

        return self._by_queue(queues, ask)

    def register_group(self, broker_name: str) -> None:
        """Make the group known on a broker that is known. Raises ``RemotingError``,
        ``BrokerError``."""
        self._run(lambda instance: register_group(instance, self._group, broker_name))

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Publish how far the group got. Raises ``RemotingError``, ``BrokerError``."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> None:
            header = UpdateConsumerOffsetRequest(
                consumer_group=self._group,
                topic=self._topic(queue),
                queue_id=queue.queue_id,
                commit_offset=offsets[queue],
                bname=queue.broker_name,
            )
            await self._ask(instance, queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

        self._by_queue(list(offsets), ask)

    def offsets_for_times(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]:
        """The first offset stored at or after a time, by queue; ``None`` when all that is there is
        older.

        Raises ``RemotingError``, ``BrokerError``.
        """

        async def ask(instance: ClientInstance, queue: MessageQueue) -> int | None:
            by_master: set[bool] = set()
            found = await self._stored_times(instance, queue, by_master).first_at(times_ms[queue])
            if len(by_master) > 1:  # what a slave lacks looks like what is not stored yet
                raise ConnectError(f"the master of the broker {queue.broker_name} came or went")
            return found

        return self._by_queue(list(times_ms), ask)

    def stored_at(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Stored | None]:
        """The first message at or behind an offset, and when it was stored, by queue; ``None``
        where there is none, or it cannot be read, or the offset lies before the oldest. Raises
        ``RemotingError``, ``BrokerError``."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> Stored | None:
            try:
                return await self._stored_times(instance, queue).stored_at(offsets[queue])
            except RecordError as error:
                log.warning("%s, message %d cannot be read: %s", queue, offsets[queue], error)
                return None

        return self._by_queue(list(offsets), ask)

    def are_gone(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, bool]:
        """Whether there was a message at an offset that is not kept any more, by queue. Raises
        ``RemotingError``, ``BrokerError``."""

        async def ask(instance: ClientInstance, queue: MessageQueue) -> bool:
            return await self._stored_times(instance, queue).is_gone(offsets[queue])

        return self._by_queue(list(offsets), ask)

    def log_begins_at(self, queue: MessageQueue) -> int | None:
        """When the oldest message was stored that the queue's broker keeps, of whatever topic;
        ``None`` where it does not say. Raises ``RemotingError``."""

        async def ask(instance: ClientInstance) -> int | None:
            try:
                answer, _ = await self._ask(
                    instance, queue, RequestCode.GET_BROKER_RUNTIME_INFO, None
                )
            except BrokerError as error:
                log.warning("the broker %s does not say what it keeps: %s", queue[1], error)
                return None
            figures = answer_body(answer, KVTable, queue.broker_name).table
            text = figures.get("earliestMessageTimeStamp", "")
            return int(text) if text.isdecimal() else None

        return self._run(ask)

    # --- inside
    # ----------------------------------------------------------------------------------------------

    def _stored_times(
        self, instance: ClientInstance, queue: MessageQueue, by_master: set[bool] | None = None
    ) -> StoredTimes:
        """``by_master``: gets whether answers came from the master."""
        replicas = set() if by_master is None else by_master

        async def ask(code: RequestCode, header: Record) -> Response:
            answer, from_master = await self._ask(instance, queue, code, header, check=False)
            replicas.add(from_master)
            return answer

        return StoredTimes(ask, wrap_queue(queue, self._namespace), self._group)

    def _topic(self, queue: MessageQueue) -> str:
        return with_namespace(queue.topic, self._namespace)

    def _header(self, queue: MessageQueue) -> QueueRequest:
        return QueueRequest(
            topic=self._topic(queue), queue_id=queue.queue_id, bname=queue.broker_name
        )

    async def _ask(
        self,
        instance: ClientInstance,
        queue: MessageQueue,
        code: RequestCode,
        header: Record | None,
        *,
        check: bool = True,
    ) -> tuple[Response, bool]:
        """The answer of the first replica that gives one, the master first, and whether it was the
        master."""
        routes = instance.routes
        if queue.broker_name not in routes.brokers:
            await routes.look_up(with_namespace(queue.topic, self._namespace))
        addresses = dict(routes.brokers.get(queue.broker_name, {}))
        failure: RemotingError = ConnectError(
            f"the broker {queue.broker_name} is not known to the name server at present"
        )
        for broker_id in sorted(addresses):
            address = addresses[broker_id]
            try:
                answer = await instance.remoting.invoke(address, code, header, timeout=_TIMEOUT_S)
            except RemotingError as error:
                failure = error
                continue
            return (answer.check(address) if check else answer), broker_id == MASTER_ID
        await routes.look_up(
            with_namespace(queue.topic, self._namespace)
        )  # somebody else may have taken over
        raise failure

    def _by_queue(
        self,
        queues: Iterable[MessageQueue],
        ask: Callable[[ClientInstance, MessageQueue], Awaitable[V]],
    ) -> dict[MessageQueue, V]:
        wanted = list(queues)

        async def ask_all(instance: ClientInstance) -> dict[MessageQueue, V]:
            return await by_key(wanted, functools.partial(ask, instance))

        return self._run(ask_all)

    def _run(self, ask: Callable[[ClientInstance], Coroutine[Any, Any, T]]) -> T:
        """With retries of what may be different the next time."""
        pause_s = self._pause_s
        for retries_left in range(self._retries, -1, -1):
            try:
                return self._loop.run(self._asked(ask))
            except (RemotingError, SystemBusy) as error:
                if not retries_left:
                    raise
                if isinstance(error, ConnectError):
                    pause_s = max(pause_s, _BACK_OFF_S)
                log.warning("asking again in %.2f s: %s", pause_s, error)
            time.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
        raise AssertionError("unreachable")

    async def _asked(self, ask: Callable[[ClientInstance], Coroutine[Any, Any, T]]) -> T:
        clients = self._clients
        client = await clients.take(self._connection)
        try:
            return await ask(client.instance)
        finally:
            clients.give_back(client)


async def _given_back(clients: SharedClients, client: Client) -> None:
    clients.give_back(client)


async def _started(connection: ConnectionOptions) -> ClientInstance:
    tls = await asyncio.to_thread(connection.ssl_context)
    instance = ClientInstance(
        namesrv=connection.namesrv, credentials=connection.credentials, tls=tls
    )
    await instance.start()
    return instance


def _is_meant(topic: str, pattern: str) -> bool:
    """A pattern such as ``.*`` does not mean topics of the system; one that has their names in it
    does."""
    for is_special, prefix in ((is_retry_topic, "%RETRY%"), (is_dlq_topic, "%DLQ%")):
        if is_special(topic):
            return prefix in pattern
    if topic.endswith(_REPLY_SUFFIX):
        return _REPLY_SUFFIX in pattern
    return not is_system_topic(topic) or topic in pattern


BrokerAccess.forget()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BrokerAccess.forget)
