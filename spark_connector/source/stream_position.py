"""Where a stream is, as Spark keeps it in the checkpoint: offsets, and what they do not tell.

Beside the topics (``access/offsets.py``) stands, once there is something to say, a name that no
topic can have: ``{"$rocketmq": {"since": ms, "lives": {"topic": {"broker": {"queue": [number,
begin, seen, stored]}}}}}``. A release that does not know it refuses the checkpoint; checkpoints
without it are read as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ...client.errors import ConfigError
from ...remoting.protocol.message.message_queue import MessageQueue
from ..access.offsets import Offsets, from_json, to_json
from .planner import QueueRange, ranges_between

__all__ = ["Life", "StreamPosition"]

_KEY: Final = "$rocketmq"


class Life(NamedTuple):
    """A queue from its making to its deletion. One that has its name later begins at 0 again, and
    soon has the offsets that the first one had."""

    number: int
    """How many others of its name this query has read before."""
    begin: int
    """Where the query began to read it."""
    seen: int
    """An offset that was read, and when the message there was stored (ms): the one that another
    queue has there is of another time. -1: not known."""
    stored_ms: int


class StreamPosition(NamedTuple):
    """The end of a micro-batch, and the start of the next one."""

    offsets: Offsets
    lives: Mapping[MessageQueue, Life] = MappingProxyType({})
    since_ms: int | None = None
    """Queues that are found later begin with what was stored from then on; None: with all they
    have."""

    @classmethod
    def from_json(cls, table: object) -> StreamPosition:
        """What ``to_json`` made. Raises ``ConfigError`` for anything else."""
        if not isinstance(table, dict) or _KEY not in table:
            return cls(from_json(table))
        more = table[_KEY]
        offsets = from_json({topic: its for topic, its in table.items() if topic != _KEY})
        try:
            since_ms = more.get("since")
            lives = {
                MessageQueue(topic, broker_name, int(queue_id)): Life(*map(int, life))
                for topic, brokers in more.get("lives", {}).items()
                for broker_name, queues in brokers.items()
                for queue_id, life in queues.items()
            }
            return cls(offsets, lives, None if since_ms is None else int(since_ms))
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the checkpoint's {_KEY} was not written by this release: {error}"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it; always in the same order, because Spark compares texts."""
        table: dict[str, Any] = to_json(self.offsets)
        more: dict[str, Any] = {}
        if self.since_ms is not None:
            more["since"] = self.since_ms
        if self.lives:
            lives: dict[str, dict[str, dict[str, list[int]]]] = {}
            for queue in sorted(self.lives):
                brokers = lives.setdefault(queue.topic, {})
                brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = [
                    *self.lives[queue]
                ]
            more["lives"] = lives
        if more:
            table[_KEY] = more
        return table

    def ranges_to(self, end: StreamPosition) -> list[QueueRange]:
        """What a batch reads. Both positions alone say it, whenever this is asked."""
        begin = {
            queue: self._begin(queue, end.lives.get(queue))
            for queue in end.offsets
            if queue in self.offsets or queue in end.lives
        }
        return ranges_between(begin, end.offsets)

    def _begin(self, queue: MessageQueue, life: Life | None) -> int:
        before = self.lives.get(queue)
        is_another = life is not None and before is not None and life.number != before.number
        if life is not None and (queue not in self.offsets or is_another):
            return life.begin
        return self.offsets[queue]
