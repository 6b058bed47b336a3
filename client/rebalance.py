"""Who reads which queue: every member of a group computes the same division from the same two sorted lists.

A strategy is a pure function ``(client_id, queues, client_ids) -> queues of that client``. Both lists must be sorted
with ``sorted_queues`` and ``sorted_client_ids`` (client.md §4.3; classes RebalanceImpl, AllocateMessageQueue...).

Every strategy here gives each queue to exactly one client. A client that is not in the list owns nothing: its broker
does not know it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ..remoting.protocol.message import MessageQueue

AllocateStrategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]


def averagely(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues to each client, the first ones one more when it does not come out even (AVG, the default).

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


def by_circle(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """The queues are dealt out like cards (AVG_BY_CIRCLE).

    >>> queues = [MessageQueue("T", "b", n) for n in range(8)]
    >>> [[q.queue_id for q in by_circle(c, queues, ["1", "2", "3"])] for c in "123"]
    [[0, 3, 6], [1, 4, 7], [2, 5]]
    """
    index = _index_of(client_id, client_ids)
    return [] if index is None else list(queues[index :: len(client_ids)])


def _index_of(client_id: str, client_ids: Sequence[str]) -> int | None:
    return client_ids.index(client_id) if client_id in client_ids else None


def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """By topic, broker name (as Java sorts text) and queue id."""
    return sorted(queues, key=lambda q: (_java_order(q.topic), _java_order(q.broker_name), q.queue_id))


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
