"""Who reads which queue: every member of a group computes the same division from the same two
sorted lists.

A strategy is a pure function ``(client_id, queues, client_ids) -> queues of that client``. Both
lists must be sorted with ``sorted_queues`` and ``sorted_client_ids`` (client.md §4.3; classes
RebalanceImpl, AllocateMessageQueue...).

Every strategy here but ``configured`` gives each queue (``by_machine_room``: of its rooms) to
exactly one client. A client that is not in the list owns nothing: its broker does not know it yet.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence

from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import is_retry_topic
from ..errors import ConfigError

AllocateStrategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]


def averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Neighbouring queues to each client, the first ones one more when it does not come out even
    (AVG, the default).

    >>> queues = [MessageQueue("T", "b", n) for n in range(8)]
    >>> [[q.queue_id for q in averagely(c, queues, ["1", "2", "3"])] for c in "123"]
    [[0, 1, 2], [3, 4, 5], [6, 7]]
    """
    index = _index_of(client_id, client_ids)
    if index is None:
        return []
    share, rest = divmod(len(queues), len(client_ids))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """The queues are dealt out like cards (AVG_BY_CIRCLE).

    >>> queues = [MessageQueue("T", "b", n) for n in range(8)]
    >>> [[q.queue_id for q in by_circle(c, queues, ["1", "2", "3"])] for c in "123"]
    [[0, 3, 6], [1, 4, 7], [2, 5]]
    """
    index = _index_of(client_id, client_ids)
    return [] if index is None else list(queues[index :: len(client_ids)])


def configured(*queues: MessageQueue) -> AllocateStrategy:
    """These queues and no others, whoever else is in the group (CONFIG): the user sees to it that
    each has one reader.

    The group's retry topic is divided ``averagely`` unless queues of it are among them, so that
    retried messages come.
    """
    topics = {queue.topic for queue in queues}

    def allocate(
        client_id: str, there: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        topic = there[0].topic if there else ""
        if is_retry_topic(topic) and topic not in topics:
            return averagely(client_id, there, client_ids)
        return [queue for queue in queues if queue.topic == topic]

    return allocate


def by_machine_room(*rooms: str) -> AllocateStrategy:
    """Only brokers named ``room@name`` whose room is one of these (MACHINE_ROOM); what is left over
    goes to the first clients.

    >>> queues = [MessageQueue("T", "r1@b", n) for n in range(8)]
    >>> [[q.queue_id for q in by_machine_room("r1")(c, queues, ["1", "2", "3"])] for c in "123"]
    [[0, 1, 6], [2, 3, 7], [4, 5]]
    """
    wanted = frozenset(rooms)

    def allocate(
        client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        index = _index_of(client_id, client_ids)
        if index is None:
            return []
        parts = [(queue, queue.broker_name.split("@")) for queue in queues]
        ours = [queue for queue, names in parts if len(names) == 2 and names[0] in wanted]
        share, rest = divmod(len(ours), len(client_ids))
        chosen = ours[index * share : (index + 1) * share]
        return chosen + ([ours[index + share * len(client_ids)]] if index < rest else [])

    return allocate


def by_nearby_room(
    room_of_queue: Callable[[MessageQueue], str],
    room_of_client: Callable[[str], str],
    inner: AllocateStrategy = averagely,
) -> AllocateStrategy:
    """Each room's queues among the clients of that room; those of rooms without a client among all
    (MACHINE_ROOM_NEARBY).

    Inside of a room ``inner`` decides. Raises ``ConfigError`` for an empty room name, when it is
    asked.
    """

    def allocate(
        client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(_room(room_of_queue(queue), queue.broker_name), []).append(queue)
        clients_in: dict[str, list[str]] = {}
        for client in client_ids:
            clients_in.setdefault(_room(room_of_client(client), client), []).append(client)
        own = room_of_client(client_id)
        chosen = inner(client_id, queues_in.pop(own), clients_in[own]) if own in queues_in else []
        for room, deserted in queues_in.items():
            if room not in clients_in:
                chosen = chosen + inner(client_id, deserted, client_ids)
        return chosen

    return allocate


def _room(name: str, whose: str) -> str:
    if not name:
        raise ConfigError(
            f"the machine room of {whose} is empty: the function that tells rooms has to know all "
            "of them"
        )
    return name


_VIRTUAL_NODES = 10


def consistent_hash(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """A ring of 10 points per client; a queue goes to the next point (CONSISTENT_HASH). Few queues
    move when members change.

    >>> queues = [MessageQueue("TopicTest", "broker-a", n) for n in range(8)]
    >>> clients = ["c1", "c2", "c3"]
    >>> [[q.queue_id for q in consistent_hash(c, queues, clients)] for c in clients]
    [[0, 4, 5, 7], [1, 6], [2, 3]]
    """
    if client_id not in client_ids:
        return []
    ring = sorted(
        (_point(f"{client}-{n}"), client) for client in client_ids for n in range(_VIRTUAL_NODES)
    )
    points = [point for point, _ in ring]

    def owner(queue: MessageQueue) -> str:
        text = (
            f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
            f"queueId={queue.queue_id}]"
        )
        return ring[bisect_left(points, _point(text)) % len(ring)][1]

    return [queue for queue in queues if owner(queue) == client_id]


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _index_of(client_id: str, client_ids: Sequence[str]) -> int | None:
    return client_ids.index(client_id) if client_id in client_ids else None


def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """By topic, broker name (as Java sorts text) and queue id."""
    return sorted(
        queues, key=lambda q: (_java_order(q.topic), _java_order(q.broker_name), q.queue_id)
    )


def sorted_client_ids(client_ids: Iterable[str]) -> list[str]:
    """As Java sorts text, by UTF-16 code units; a repeated id counts once."""
    return sorted(set(client_ids), key=_java_order)


def changes(
    owned: Collection[MessageQueue], assigned: Collection[MessageQueue]
) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """What to give up and what to take, both sorted."""
    before, after = set(owned), set(assigned)
    return sorted_queues(before - after), sorted_queues(after - before)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
