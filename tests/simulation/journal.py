"""What the clients of a simulated cluster did and saw, in the order of its time."""

from __future__ import annotations

from typing import NamedTuple

from aiorocketmq.client.producer.transaction import TransactionState

from .loop import Process
from .told import Commits, Told

TOPIC = "T"
KEYED = "K"
"""Its messages have a key; of each key one is sent after the other."""
TAG = "a"
"""Of every third message of TOPIC."""
CONSUMED_TOO = ("X1", "X2", "X3")
"""Topics that somebody makes while there are consumers of them already."""


def has_tag(body: bytes) -> bool:
    return int(body.rstrip(b".")) % 3 == 0


LIGHT = ("%LMQ%1", "%LMQ%2", "%LMQ%3")


def light_queues(body: bytes) -> tuple[str, ...]:
    """Those that a message of TOPIC names, in a world in which they do."""
    number = int(body.rstrip(b"."))
    return tuple(name for at, name in enumerate(LIGHT) if number >> at & 1)


def is_hopeless(body: bytes) -> bool:
    """Handlers that never take some messages never take this one."""
    return int(body.rstrip(b".")) % 7 == 0


class Acknowledged(NamedTuple):
    """What a producer was told. Times are those of the world."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    body: bytes
    began: float
    ended: float


class Delivered(NamedTuple):
    """What a member of a group was given."""

    group: str
    topic: str
    broker: str
    queue_id: int
    offset: int
    body: bytes
    consumed: bool
    """False: its handler refused it, so that it has to come again."""
    again: bool
    """It does: from the topic of the group's retries, whose numbers are others."""


class InHand(NamedTuple):
    """What a member of the group that consumes in order is handling."""

    member: str
    process: Process | None
    offset: int
    since: float


class Shared(NamedTuple):
    """Two members handled messages of one queue at a time."""

    broker: str
    queue_id: int
    one: InHand
    other: InHand
    served_since: float
    """When the broker that gave out the locks began to."""


class Journal:
    """Of one world."""

    def __init__(self) -> None:
        self.sent: dict[bytes, str] = {}
        """The topic of every message, also of those whose producer does not know what became of
        it."""
        self.acknowledged: list[Acknowledged] = []
        self.promised: dict[bytes, str] = {}
        """Topics of those that are in some queue in the end: delayed ones, transactions that their
        producer committed, and what was acknowledged without a place."""
        self.due: dict[bytes, float] = {}
        """When delayed ones may be given to somebody, at the earliest."""
        self.early: list[str] = []
        """Those that came before."""
        self.once: set[bytes] = set()
        """Those of a producer that is idempotent: never there twice."""
        self.lists: dict[bytes, int] = {}
        """How many were sent as one list, by each of them."""
        self.refused: set[bytes] = set()
        """It was told that these are not stored."""
        self.decided: dict[bytes, TransactionState] = {}
        """What the producer made of a transaction."""
        self.delivered: list[Delivered] = []
        self.in_hand: dict[tuple[str, int], list[InHand]] = {}
        """By broker and queue."""
        self.shared: list[Shared] = []
        self.gone: set[str] = set()
        """Topics that somebody has begun to delete."""
        self.told = Told()
        self.commits = Commits()
        self.limit = 1 << 30
        """The least that somebody has told a broker to take in a body. What is longer, and had to
        wait, may be a dead letter."""
        self.done = False
        """All was sent."""

    def had(self, group: str, *, expires: bool) -> set[bytes]:
        """What a group has consumed. ``expires``: what it refused may have expired before it came
        again."""
        return {
            each.body
            for each in self.delivered
            if each.group == group and (each.consumed or expires or len(each.body) > self.limit)
        }

    def awaited(self) -> set[bytes]:
        """What was promised, and no limit keeps from its queue."""
        return {body for body in self.promised if len(body) <= self.limit}

    def kept(self) -> list[str]:
        """Topics whose messages must be there."""
        return [TOPIC, KEYED, *sorted(self.made - self.gone)]

    @property
    def made(self) -> set[str]:
        """Topics that an administrator asked for."""
        return {entry.name for entry in self.told.values if entry.table == "topics"}
