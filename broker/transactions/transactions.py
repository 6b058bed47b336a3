"""Transactions without I/O: which half messages are undecided (class
TransactionalMessageServiceImpl; ``broker-services.md`` §5). What a check does with each of them:
``check_rules.py``.

A producer's half message lies in RMQ_SYS_TRANS_HALF_TOPIC until the producer says commit or
rollback; that word is noted as an *op*, a message of RMQ_SYS_TRANS_OP_HALF_TOPIC whose body is the
number of the half message in its queue. A half message that nobody decides is asked for: a copy of
it is put behind all others and takes its place, so the front moves on.

The original finds out by reading both queues in every round. Here a byte per half message says the
same (``HalfMessages``); the queues are read once, at start.

Invariant: ``base <= front <= end``; everything below ``front`` is decided, and an op below ``ops``
of a ``Progress`` is about a half message below its ``halves``.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets say how far both queues are done with."""
OP_TAG: Final = "d"
OP_PROPERTIES: Final = f"{PropertyName.TAGS}\x01{OP_TAG}\x02{PropertyName.WAIT}\x01true".encode()
MAX_OP_BODY: Final = 4096
"""Longer bodies of op messages are none of ours (5.x puts several numbers into one)."""

UNDECIDED: Final = 0
ENDED: Final = 1
"""The producer has said commit or rollback."""
REPLACED: Final = 2
"""A copy with a higher number has taken its place."""
DROPPED: Final = 3
"""Given up, or not there any more; a late word of the producer still counts."""

KEEP_BEHIND: Final = 1 << 20
"""So many half messages in front of the first undecided one are remembered, to know a word that is
said twice."""
KEEP_EARLIER: Final = 100_000
"""So many decisions about still earlier ones."""
MAX_LINEAGE: Final = 64
"""So many earlier copies of one half message are known by number."""
_MAX_MARKS: Final = 64
_MAX_MISSED: Final = 1 << 24


Transaction = tuple[str, int]
"""Unique key and bornTimestamp: the same in all copies of a half message, and in no other one."""


class Progress(NamedTuple):
    """Where reading both queues has to begin after a restart (what the consumer offset table
    keeps)."""

    halves: int
    ops: int


class HalfMessages:
    """The half messages of the one half queue by number: a byte each, from some way before the
    first undecided one on."""

    def __init__(self) -> None:
        self._base = 0
        self._states = bytearray()
        self._newest: dict[int, int] = {}
        """A replaced number: the copy that stands for it and is undecided."""
        self._lineage: dict[int, list[int]] = {}
        """That copy: all numbers it stands for, the oldest first."""
        self._earlier: dict[int, None] = {}
        """Ended ones below ``_base``, in the order in which they ended."""
        self._marks: deque[Progress] = deque(maxlen=_MAX_MARKS)
        self.copies: Final[dict[Transaction, int]] = {}
        """Copies that were undecided at the start: a word about an earlier number of their
        transaction means them."""
        self.committing: Final[set[int]] = set()
        """Those whose messages are stored, and not safe yet: decided, which is noted later."""
        self._front = 0
        self._ops_done = 0

    def begin(self, front: int, end: int, ops: int = 0) -> None:
        """After a start: the queue ends at ``end``, of everything from ``front`` on nothing is
        known yet, and the ops from ``ops`` on have to be read.
        """
        self._base = self._front = front
        self._states = bytearray(max(0, end - front))
        self._ops_done = ops
        for known in (self._newest, self._lineage, self._earlier, self._marks, self.copies):
            known.clear()
        self.committing.clear()

    @property
    def end(self) -> int:
        """The number that the next half message gets."""
        return self._base + len(self._states)

    @property
    def front(self) -> int:
        """The first undecided one, or ``end``."""
        self._front = self.next_undecided(self._front)
        return self._front

    @property
    def undecided(self) -> int:
        """How many there are. Counts: not for every message."""
        return self._states.count(UNDECIDED)

    def next_undecided(self, number: int) -> int:
        """The first undecided one from ``number`` on, or ``end``."""
        at = self._states.find(UNDECIDED, max(0, number - self._base))
        return self.end if at < 0 else self._base + at

    def state(self, number: int) -> int | None:
        """What is known of a half message; ``None`` when it lies too far back or does not exist."""
        at = number - self._base
        if 0 <= at < len(self._states):
            return self._states[at]
        return ENDED if number in self._earlier else None

    # -- what happens to them

    def added(self, number: int) -> None:
        """A half message was stored."""
        if number != self._base + len(self._states):
            self._jump_to(number)
        self._states.append(UNDECIDED)

    def _jump_to(self, number: int) -> None:
        """Some came without a word (from a master), or the queue has begun anew (it was empty and
        deleted)."""
        missed = number - self.end
        if 0 < missed <= _MAX_MISSED:
            self._states.extend(bytes(missed))
        else:  # ops that there are speak of others
            self.begin(number, number, self._ops_seen)

    def is_decided(self, number: int) -> bool:
        """Its producer has said what becomes of it, noted or not: nothing may stand for it."""
        return number in self.committing or self.state(number) == ENDED

    def replaced(self, number: int, copy: int) -> None:
        """A copy was stored and stands for ``number`` from now on."""
        lineage = self._lineage.pop(number, [])
        lineage.append(number)
        if len(lineage) > MAX_LINEAGE:
            self._newest.pop(lineage.pop(1), None)  # the first number is what the producer was told
        for earlier in lineage:
            self._newest[earlier] = copy
        self._lineage[copy] = lineage
        self._set(number, REPLACED)

    def stands_for(self, copy: int) -> tuple[int, ...]:
        """The numbers that it replaced, as far as they are known."""
        return tuple(self._lineage.get(copy, ())) if self._lineage else ()

    def meant_by(self, number: int) -> int | None:
        """Which half message a word about ``number`` decides: its newest copy or itself; ``None``:
        it is decided already, and noted to be."""
        at = number - self._base
        state = self._states[at] if 0 <= at < len(self._states) else self.state(number)
        return None if state == ENDED else self._newest.get(number, number)

    def meant_by_word(self, number: int, transaction: Transaction) -> int | None:
        """The same, when the half message itself is at hand and ``copies`` is not empty."""
        meant = self.meant_by(number)
        if meant is None or self.state(meant) == UNDECIDED:
            return meant
        copy = self.copies.get(transaction)
        return meant if copy is None else self.meant_by(copy)

    def ended(self, number: int) -> None:
        """The producer's word has been noted as an op. Or an op was read at start."""
        at = number - self._base
        if 0 <= at < len(self._states):
            self._states[at] = ENDED
        else:
            self._ended_earlier(number)
        if self._lineage:
            self._forget_copies(number, ENDED)

    def dropped(self, number: int) -> None:
        """It is asked for no more."""
        self._set(number, DROPPED)
        self._forget_copies(number, DROPPED)

    def dropped_below(self, number: int) -> int:
        """The queue begins at ``number``: what lay in front has expired; how many of them were
        undecided."""
        first, stop = self.front - self._base, min(number, self.end) - self._base
        count = self._states.count(UNDECIDED, first, stop) if first < stop else 0
        if first < stop:
            self._states[first:stop] = self._states[first:stop].replace(
                bytes((UNDECIDED,)), bytes((DROPPED,))
            )
            for copy in [copy for copy in self._lineage if copy < number]:
                self._forget_copies(copy, DROPPED)
        return count

    def _set(self, number: int, state: int) -> None:
        at = number - self._base
        if at < 0:
            if state == ENDED:
                self._ended_earlier(number)
        elif at < len(self._states) and self._states[at] != ENDED:
            self._states[at] = state

    def _forget_copies(self, number: int, state: int) -> None:
        for earlier in self._lineage.pop(number, ()):
            self._newest.pop(earlier, None)
            self._set(earlier, state)

    def _ended_earlier(self, number: int) -> None:
        self._earlier[number] = None
        if len(self._earlier) > KEEP_EARLIER:
            del self._earlier[next(iter(self._earlier))]

    # -- how far everything is done with

    @property
    def _ops_seen(self) -> int:
        """Where the queue of ops ended in the last round."""
        return max((mark.ops for mark in self._marks), default=self._ops_done)

    def progress(self, ops_end: int) -> Progress:
        """Where a restart may begin; ``ops_end`` is the end of the op queue. Forgets what lies far
        back. Once per round.

        An op is done with when its half message lies below ``front``. Which ops those are is known
        from earlier rounds: when all half messages that there were then are decided, so are all ops
        that there were then.
        """
        front, end = self.front, self.end
        if ops_end < self._ops_seen:
            self._marks.clear()  # the queue of ops has begun anew
            self._ops_done = 0
        self._marks.append(Progress(end, ops_end))
        self._ops_done = max(
            (mark.ops for mark in self._marks if mark.halves <= front), default=self._ops_done
        )
        while len(self._marks) > 1 and self._marks[1].halves <= front:
            self._marks.popleft()
        surplus = front - self._base - KEEP_BEHIND
        if surplus > 0:
            del self._states[:surplus]
            self._base += surplus
        return Progress(front, self._ops_done)


def transaction_of(half: MessageExt) -> Transaction:
    """To which transaction a half message belongs."""
    return half.msg_id, half.born_timestamp


def op_body(number: int) -> bytes:
    """The body of the op message about a half message."""
    return b"%d" % number


def op_numbers(message: MessageExt) -> list[int]:
    """Which half messages an op message ends; a 5.x broker puts several into one. What is none ends
    nothing, nor does a message of another topic that has named this one as its further queue: the
    original lets it."""
    if message.topic != TopicName.TRANS_OP_HALF:
        return []
    if message.tags != OP_TAG or len(message.stored_body) > MAX_OP_BODY:
        return []
    parts = message.stored_body.split(b",")
    return [int(part) for part in parts if part.isdigit() and len(part) <= 19]
