"""What the user says a read has to cover, because nobody else may know it (``expectedBrokers``,
``expectedQueues``). Pure.

A name server forgets a broker, with its queues, when its connection closes or after two minutes
without a word, and brokers know nothing of each other: a batch read cannot tell a broker that is
down from one that never was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ...client.errors import ConfigError
from ...remoting.protocol.message.message_queue import MessageQueue
from .option_reader import OptionReader

__all__ = ["Expected", "read_expected"]

_MOST: Final = 1 << 24


@dataclass(frozen=True)
class Expected:
    """Nothing, unless something was said."""

    brokers: tuple[str, ...] = ()
    """Each topic lies on all of these ..."""
    broker_count: int | None = None
    """... or on so many, or more."""
    queues: int | None = None
    """Of all topics together, or more."""

    def absent_brokers(self, queues: Iterable[MessageQueue]) -> list[str]:
        """Those of ``brokers`` that no topic is on at present."""
        there = {queue.broker_name for queue in queues}
        return [name for name in self.brokers if name not in there]

    def is_gone(self, broker_name: str) -> bool:
        """A broker that is away will not come back, as the user says by leaving it out."""
        return bool(self.brokers) and broker_name not in self.brokers

    def missing(self, topics: Iterable[str], queues: Collection[MessageQueue]) -> list[str]:
        """What is not among ``queues``, in words."""
        told = []
        for topic in topics:
            there = {queue.broker_name for queue in queues if queue.topic == topic}
            told += [
                f"the topic {topic} is not on the broker {name} at present (expectedBrokers)"
                for name in self.brokers
                if name not in there
            ]
            if self.broker_count is not None and len(there) < self.broker_count:
                told.append(
                    f"the topic {topic} is on {len(there)} of {self.broker_count} brokers at "
                    f"present: {_names(there)} (expectedBrokers)"
                )
        if self.queues is not None and len(queues) < self.queues:
            told.append(
                f"there are {len(queues)} of {self.queues} queues at present, on "
                f"{_names({queue.broker_name for queue in queues})} (expectedQueues)"
            )
        return told


def read_expected(reader: OptionReader) -> Expected:
    """Takes the two options. ``expectedBrokers`` is a number when it has digits only. Raises
    ``ConfigError``."""
    text = reader.text("expectedBrokers")
    queues = reader.optional_integer("expectedQueues", highest=_MOST)
    if text is None:
        return Expected(queues=queues)
    if text.lstrip("+-").isdecimal():
        count = reader.optional_integer("expectedBrokers", highest=_MOST)
        return Expected(broker_count=count, queues=queues)
    names = tuple(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))
    if not names:
        raise ConfigError(f"option expectedBrokers names no broker: {text!r}")
    return Expected(names, queues=queues)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
