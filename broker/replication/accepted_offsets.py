"""Whose word counts for the offset of a consumer: the master's, or what a slave was told while the
master was away (``slave_sync``). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import field

from ...remoting.protocol.wire import Record, i32, i64
from ..state.consumer_offsets import NO_OFFSET, SEPARATOR, ConsumerOffsets, keys_of

ACCEPTED_FILE: Final = "slaveOffset.json"


class AcceptedOffsetTable(Record, frozen=True, kw_only=True):
    """``config/slaveOffset.json``: what consumers told the slave, and what the master had then;
    keys and queues as in ``consumerOffset.json``.
    """

    accepted_table: dict[str, dict[i32, i64]] = field(default_factory=dict)
    master_table: dict[str, dict[i32, i64]] = field(default_factory=dict)


class _Accepted(NamedTuple):
    offset: int
    master: int
    """What the master had when it was last heard of."""


class AcceptedOffsets:
    """Pure: whose word counts for the offset of a queue."""

    def __init__(self) -> None:
        self._accepted: dict[str, dict[int, _Accepted]] = {}
        self._master: Mapping[str, Mapping[int, int]] = {}

    def accept(self, key: str, queue_id: int, offset: int) -> bool:
        """A consumer told this slave so. Whether that is more than the master knows, and has to be
        remembered."""
        queues = self._accepted.get(key)
        known = None if queues is None else queues.get(queue_id)
        master = (
            known.master
            if known is not None
            else self._master.get(key, {}).get(queue_id, NO_OFFSET)
        )
        if offset > master:
            self._accepted.setdefault(key, {})[queue_id] = _Accepted(offset, master)
            return True
        return self._forget(key, queue_id)

    def heard(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """What the master has now; before ``settled`` is asked about it."""
        self._master = table

    def settled(self, key: str, queue_id: int, master: int) -> bool:
        """Whether the master's offset counts. Not while it is still on its way to what was accepted
        here."""
        queues = self._accepted.get(key)
        known = None if queues is None else queues.get(queue_id)
        if known is None:
            return True
        if known.master <= master < known.offset:
            self._accepted[key][queue_id] = known._replace(master=master)
            return False
        self._forget(key, queue_id)
        return True

    def forget(self, keys: Iterable[str]) -> None:
        """The master has deleted these: who makes them anew begins anew."""
        for key in keys:
            self._accepted.pop(key, None)

    def forget_queues(self, topic: str, queue_ids: Iterable[int]) -> bool:
        """They begin anew. Whether anything was known of them."""
        keys = keys_of(topic, self._accepted)
        found = [self._forget(key, queue_id) for queue_id in queue_ids for key in keys]
        return any(found)

    def _forget(self, key: str, queue_id: int) -> bool:
        queues = self._accepted.get(key, {})
        found = queues.pop(queue_id, None) is not None
        if found and not queues:
            del self._accepted[key]
        return found

    def record(self) -> AcceptedOffsetTable:
        """As it is persisted: a snapshot."""
        return AcceptedOffsetTable(
            accepted_table={
                key: {q: each.offset for q, each in queues.items()}
                for key, queues in self._accepted.items()
            },
            master_table={
                key: {q: each.master for q, each in queues.items()}
                for key, queues in self._accepted.items()
            },
        )

    def restore(self, offsets: ConsumerOffsets) -> None:
        """After a start: the file of all offsets may be older than that of what was accepted. While
        the master's word does not count for a queue, this is all that is known of it."""
        for key, queues in self._accepted.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, known in queues.items():
                if offsets.get(group, topic, queue_id) < known.offset:
                    offsets.commit(group, topic, queue_id, known.offset, limited=False)

    def load(self, table: AcceptedOffsetTable) -> None:
        """Replace everything by a persisted table."""
        self._accepted = {
            key: {
                q: _Accepted(offset, table.master_table.get(key, {}).get(q, NO_OFFSET))
                for q, offset in queues.items()
            }
            for key, queues in table.accepted_table.items()
        }
