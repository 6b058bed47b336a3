"""What an administrator was told of tables of brokers, against what they answer: a change that was
acknowledged is there, whoever serves; of one that was not nobody knows, so it is made or not."""

from __future__ import annotations

from typing import Final, NamedTuple

from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig

Value = TopicConfig | SubscriptionGroupConfig | None
_ANY: Final = TopicConfig(topic_name="whatever")
"""Somebody's send may have made it before the administrator asked for the first time."""


class Entry(NamedTuple):
    """Of a table of the broker with that name."""

    broker: str
    table: str
    """``topics`` or ``groups``."""
    name: str


class Told:
    """Of one world, by one administrator, who does one thing at a time."""

    def __init__(self) -> None:
        self.values: dict[Entry, tuple[Value, ...]] = {}
        """What each may be: one value, None if it is deleted, or two in doubt. Whoever has a doubt
        leaves the entry alone from then on: what was asked may still be on its way."""
        self.deleted: set[str] = set()
        """Topics that no name server has any more: all were told."""
        self._least_queues: dict[tuple[str, str], int] = {}

    def begins(self, entry: Entry, value: Value) -> None:
        """It is asked for."""
        before = self.values.get(entry, (_ANY,))
        self.values[entry] = before if value in before else (*before, value)
        if isinstance(value, TopicConfig):
            key = entry.broker, entry.name
            least = self._least_queues.get(key, value.read_queue_nums)
            self._least_queues[key] = min(least, value.read_queue_nums)

    def ends(self, entry: Entry, value: Value) -> None:
        """It is acknowledged."""
        self.values[entry] = (value,)

    def is_readable(self, broker: str, topic: str, queue_id: int) -> bool:
        """Nobody has asked for fewer queues: what was sent before to one of the others, or while
        the change was not made yet, stays where no consumer looks."""
        return queue_id < self._least_queues.get((broker, topic), queue_id + 1)

    def doubt(self, table: str, name: str) -> None:
        """Somebody else may have made it since, or does."""
        for entry, values in self.values.items():
            if (entry.table, entry.name) == (table, name) and None not in values:
                self.values[entry] = (*values, None)

    def certain(self, table: str) -> list[str]:
        """Names of those that exist, about which there is no doubt."""
        names, doubtful = set(), set()
        for entry, values in self.values.items():
            if entry.table == table:
                names.add(entry.name)
                if len(values) > 1 or None in values:
                    doubtful.add(entry.name)
        return sorted(names - doubtful)

    def of(self, broker: str) -> list[tuple[Entry, tuple[Value, ...]]]:
        """Where the administrator knows."""
        return [
            (entry, values)
            for entry, values in self.values.items()
            if entry.broker == broker and _ANY not in values
        ]


class Commit(NamedTuple):
    """Of an offset, by the administrator."""

    at: float
    """When it was acknowledged by who served then; ``inf``: it was not."""
    offset: int


class Commits:
    """Of a group that only the administrator moves, and only forwards: by broker and queue."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, int], list[Commit]] = {}

    def begins(self, broker: str, queue_id: int, offset: int) -> None:
        self.made.setdefault((broker, queue_id), []).append(Commit(float("inf"), offset))

    def ends(self, broker: str, queue_id: int, now: float) -> None:
        commits = self.made[broker, queue_id]
        commits[-1] = commits[-1]._replace(at=now)

    def queues(self, broker: str) -> list[int]:
        return [queue_id for name, queue_id in self.made if name == broker]

    def least(self, broker: str, queue_id: int, since: float) -> int:
        """What was acknowledged since then."""
        made = self.made.get((broker, queue_id), ())
        return max(
            (each.offset for each in made if since < each.at < float("inf")),
            default=-1,
        )

    def most(self, broker: str, queue_id: int) -> int:
        return max((each.offset for each in self.made.get((broker, queue_id), ())), default=-1)
