"""Which messages of which producer this broker has, so that none is stored twice
(``remoting/protocol/message/send_sequence.py`` has the rules as a producer sees them). Pure; time
is an argument.

The log is the truth: every record says its number, and the table is read from it again by whoever
becomes master (``sequence_log.py``). So a slave that takes over, a leader that was elected and a
broker that the original has served meanwhile all know what the log knows, and nothing else. A
snapshot of the table is a record of the log, too, in front of what is read again.

What is not known is refused and never taken for new: ``floor_ms`` is the time up to which something
may have been forgotten, and a producer that began before it and is not in the table is told so. So
is one that began before what has expired by any clock that this broker had: it may be set back.

Of each producer and queue one run is kept: what its last request stored. A repeat of it is answered
as the first time, one of an older request without its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

import msgspec

from ...remoting.errors import RequestError
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.properties import MessageError, PropertyName, find_property
from ...remoting.protocol.message.send_sequence import SendSequence
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.record import Records
from ...remoting.protocol.record.verdict import problem_of
from ...remoting.slices import Steps, slices

UNCHECKED: Final = -1
"""In place of the next number: a broker of the original has stored messages of this producer, and
not looked whether it had them."""
FENCE: Final = -1
"""In place of a queue: the epoch that a producer has told in its hello."""
_ENDED: Final = -1
"""In place of how many records of a request there are: one is damaged, and what lies behind it may
come once more with it."""
PER_TURN: Final = 200
"""Records, or entries of a snapshot, each line of which has so many: a millisecond or two."""
_SEQUENCED: Final = MessageSysFlag.SEQUENCED
_NAME: Final = PropertyName.SEND_SEQUENCE.encode()
_VERSION: Final = 1


class SnapshotError(ValueError):
    """These bytes are no snapshot of a table."""


class Key(NamedTuple):
    """Whose numbers, and in which queue."""

    producer: str
    """``producer_key``"""
    topic: str
    queue_id: int


class Run(msgspec.Struct, array_like=True, gc=False):
    """What is known of a producer in a queue."""

    epoch: int
    next: int
    """The number that comes next, or ``UNCHECKED``."""
    first: int
    """The number of the first message that its last request stored; those behind it side by side
    in the queue, unless ``queue_offset`` is -1."""
    queue_offset: int
    """Where that one lies in the queue."""
    end: int
    """Where the last one ends in the commit log."""
    last_ms: int
    """When it was stored, or its producer began: see ``_lives_from_ms``."""


class _Head(msgspec.Struct, array_like=True, gc=False):
    """The first line of a snapshot."""

    version: int
    position: int
    floor_ms: int
    expired_ms: int = 0
    """Snapshots from before there was this lack it."""


class _Entry(msgspec.Struct, array_like=True, gc=False):
    producer: str
    topic: str
    queue_id: int
    run: Run


_encode: Final = msgspec.json.Encoder().encode
_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_line: Final = msgspec.json.Decoder(list[_Entry]).decode


def _is_intact(records: Records, number: int) -> bool:
    """A power failure may leave the head of a record, and its sequence, without all of its body:
    nobody was told that it is stored, and nobody will be given it."""
    at, size = records.at[number], records.sizes[number]
    record = bytes(records.data[at : at + size])
    return problem_of(record, 0, size, records.phy_offsets[number]) is None


@lru_cache(maxsize=4096)
def producer_key(account: str, producer_id: str) -> str:
    """What a producer is called in records and in the table: whoever reads its messages cannot send
    in its name, nor can another account that knows its id."""
    name = f"{account}\0{producer_id}".encode()
    return "#" + hashlib.blake2b(name, digest_size=12).hexdigest()


class Sequences:
    """The table. ``most``: entries; ``expires_ms``: an entry that is older is none."""

    def __init__(self, most: Callable[[], int], expires_ms: Callable[[], int]) -> None:
        self.floor_ms: int = 0
        self._expired_ms = 0
        """Up to there entries were dropped that had expired. Unlike those before ``floor_ms``,
        others are known all the same."""
        self._most: Final = most
        self._expires_ms: Final = expires_ms
        self._runs: dict[Key, Run] = {}
        self._seen: dict[Key, tuple[tuple[SendSequence, int], int]] = {}
        """While the log is read: the request that a record is of, with its time, and how many were
        in front of it. (One that was damaged may have come again.)"""
        self._unread: dict[tuple[str, int], tuple[int, int]] = {}
        """While the log is read: when the last record of a queue was stored that has lost its
        sequence, and which number is next there. The rest of its request has that time and number,
        and one more in front of it."""

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def expires_ms(self) -> int:
        """So long after its last message a producer is remembered."""
        return self._expires_ms()

    def clear(self, floor_ms: int) -> None:
        """Know nothing, least of all of what was stored up to ``floor_ms``."""
        self._runs.clear()
        self._forget_read()
        self.floor_ms, self._expired_ms = floor_ms, 0

    @property
    def newest_ms(self) -> int:
        """The latest time of what is known here, or was forgotten."""
        stored = max((run.last_ms for run in self._runs.values()), default=0)
        return max(self._forgotten_ms, stored)

    @property
    def _forgotten_ms(self) -> int:
        return max(self.floor_ms, self._expired_ms)

    # --- requests
    # ----------------------------------------------------------------------------------------------

    def known(self, key: Key, sequence: SendSequence, count: int, now_ms: int) -> int:
        """How many of ``count`` messages, from ``sequence`` on, are stored already: those at the
        front. Raises ``RequestError`` for who may not store them here."""
        run = self._run(key, now_ms)
        fence = self._runs.get(Key(key.producer, "", FENCE))
        if sequence.epoch < max(run.epoch if run else 0, fence.epoch if fence else 0):
            raise RequestError(
                ResponseCode.SEQUENCE_FENCED,
                f"epoch {sequence.epoch} of this producer has ended, a later one has begun",
            )
        if run is None:
            self._check_new(sequence, now_ms)
            return 0
        if run.next == UNCHECKED:
            self.refuse_unchecked()
        if sequence.number > run.next and sequence.epoch == run.epoch:
            raise RequestError(
                ResponseCode.SEQUENCE_GAP,
                f"number {sequence.number} of this producer came, {run.next} is next here",
            )
        return max(0, min(count, run.next - sequence.number))

    def is_unchecked(self, key: Key) -> bool:
        """A broker of the original has stored some of its messages."""
        run = self._runs.get(key)
        return run is not None and run.next == UNCHECKED

    def refuse_unchecked(self) -> NoReturn:
        """Raises ``RequestError``."""
        raise RequestError(
            ResponseCode.SEQUENCE_UNKNOWN,
            "a broker that does not check sequences has stored messages of this producer here: "
            "which of them it has is not known",
        )

    def _run(self, key: Key, now_ms: int) -> Run | None:
        run = self._runs.get(key)
        if run is not None and run.last_ms < (oldest := now_ms - self._expires_ms()):
            del self._runs[key]
            self._expired_ms = max(self._expired_ms, oldest)
            return None
        return run

    def _check_new(self, sequence: SendSequence, now_ms: int) -> None:
        forgotten_ms = max(self._forgotten_ms, now_ms - self._expires_ms())
        leaves_out = sequence.number and not sequence.epoch
        if leaves_out or sequence.begun_ms < forgotten_ms:
            raise RequestError(
                ResponseCode.SEQUENCE_UNKNOWN,
                f"number {sequence.number} of a producer that began at {sequence.begun_ms}, of "
                f"which nothing is known here; what was stored before {forgotten_ms} is forgotten "
                "(sendSequenceExpireMillis, or the end of the log)",
            )
        if len(self._runs) >= self._most():
            self.expire(now_ms)
        if len(self._runs) >= self._most():
            raise RequestError(
                ResponseCode.SEQUENCES_FULL,
                f"{len(self._runs)} producers and queues are remembered, as many as "
                "maxSendSequences says: raise it, or send without idempotent=True",
            )

    def first_answer(self, key: Key, sequence: SendSequence, count: int) -> Run:
        """Of messages that are all ``known``. Its ``queue_offset`` is that of the first of them, -1
        where that is not known any more."""
        run = self._runs[key]
        if (run.first, run.next) == (sequence.number, sequence.number + count):
            return run
        return Run(run.epoch, run.next, sequence.number, -1, run.end, run.last_ms)

    def stored(
        self,
        key: Key,
        sequence: SendSequence,
        have: int,
        count: int,
        queue_offset: int,
        end: int,
        now_ms: int,
    ) -> None:
        """All but the first ``have`` of ``count`` messages lie side by side in the queue now, from
        ``queue_offset`` on, and end at ``end``."""
        first = sequence.number + have
        last_ms = self._lives_from_ms(sequence, now_ms)
        self._runs[key] = Run(
            sequence.epoch, sequence.number + count, first, queue_offset, end, last_ms
        )

    def _lives_from_ms(self, sequence: SendSequence, stored_ms: int) -> int:
        """From when on what it has stored grows old. Not from before it began, as where the clock
        was set back: it would be forgotten, and not count as forgotten. However late it says that
        it began, it is remembered for twice as long as others at most."""
        if sequence.begun_ms <= stored_ms:
            return stored_ms
        return min(sequence.begun_ms, self.begins_ms(stored_ms) + self._expires_ms())

    def begins_ms(self, now_ms: int) -> int:
        """When a producer begins that says hello now: behind all that may be forgotten, also where
        the clock has been set back since."""
        return max(now_ms, self._forgotten_ms)

    def fence(self, producer: str, epoch: int, now_ms: int) -> None:
        """Refuse earlier epochs of a producer from now on, in all queues. Raises ``RequestError``:
        a later one has begun, or there is no space."""
        key = Key(producer, "", FENCE)
        run = self._run(key, now_ms)
        if run is not None and run.epoch > epoch:
            raise RequestError(
                ResponseCode.SEQUENCE_FENCED,
                f"epoch {epoch} of this producer has ended, epoch {run.epoch} has begun",
            )
        if run is None:
            self._check_new(SendSequence(producer, epoch, 0, self.begins_ms(now_ms)), now_ms)
        self._runs[key] = Run(epoch, 0, 0, -1, 0, now_ms)

    def expire(self, now_ms: int) -> None:
        """Forget who has not come for too long."""
        oldest = now_ms - self._expires_ms()
        kept = {key: run for key, run in self._runs.items() if run.last_ms >= oldest}
        if len(kept) < len(self._runs):
            self._expired_ms = max(self._expired_ms, oldest)
        self._runs = kept

    # --- the log
    # ----------------------------------------------------------------------------------------------

    def read(self, records: Records) -> Steps[None]:
        """Records of the log, in its order and to its end: what the table has of them already comes
        once more, and then what follows."""
        if max(records.sys_flags, default=0) < _SEQUENCED:
            return
        found = (n for n, sys_flag in enumerate(records.sys_flags) if sys_flag & _SEQUENCED)
        for some in slices(found, PER_TURN):
            for number in some:
                self._read(records, number)
            yield

    def _read(self, records: Records, number: int) -> None:
        value = find_property(records.properties(number), _NAME) or b""
        place = records.topic(number), records.queue_ids[number]
        queue_offset, stored_ms = records.queue_offsets[number], records.store_timestamps[number]
        try:
            sequence = SendSequence.parse(value.decode("ascii", "replace"))
        except MessageError:  # damaged, or somebody else uses the bit
            self._unread[place] = stored_ms, queue_offset + 1
            return
        if sequence.begun_ms < self.floor_ms:
            return
        key = Key(sequence.producer_id, *place)
        if not sequence.producer_id.startswith("#"):  # a broker of the original took it
            unchecked = key._replace(producer=producer_key("", sequence.producer_id))
            self._runs[unchecked] = Run(sequence.epoch, UNCHECKED, 0, -1, 0, stored_ms)
            return
        request = sequence, stored_ms
        before, index = self._seen.get(key, (None, 0))
        index = index if before == request else 0
        is_cut = index == _ENDED or self._unread.get(place) == (stored_ms, queue_offset)
        if is_cut or not _is_intact(records, number):
            self._seen[key] = request, _ENDED
            return
        self._seen[key] = request, index + 1
        self._runs[key] = Run(
            sequence.epoch,
            sequence.number + index + 1,
            sequence.number,
            queue_offset - index,  # what a request stores lies side by side
            records.phy_offsets[number] + records.sizes[number],
            self._lives_from_ms(sequence, stored_ms),
        )

    def read_all(self, now_ms: int) -> None:
        """The log has been read to its end."""
        self._forget_read()
        self.expire(now_ms)

    def _forget_read(self) -> None:
        self._seen.clear()
        self._unread.clear()

    # --- snapshots
    # ----------------------------------------------------------------------------------------------

    def snapshot(self, position: int) -> Steps[bytes]:
        """The table as bytes. What the log has from ``position`` on is not in it, or not all:
        entries may change while it is made, and reading the log again from there makes all of them
        right."""
        lines = [_encode(_Head(_VERSION, position, self.floor_ms, self._expired_ms))]
        runs = list(self._runs.items())
        for start in range(0, len(runs), PER_TURN):
            entries = [_Entry(*key, run) for key, run in runs[start : start + PER_TURN]]
            lines.append(_encode(entries))
            yield
        return b"\n".join(lines)

    def load(self, snapshot: bytes) -> Steps[int]:
        """Take over a snapshot and return its ``position``. Raises ``SnapshotError``; the table may
        have a part of it then."""
        lines = snapshot.split(b"\n")
        try:
            head = _decode_head(lines[0])
            if head.version != _VERSION:
                raise SnapshotError(f"its version is {head.version}, {_VERSION} is known here")
            self.clear(head.floor_ms)
            self._expired_ms = head.expired_ms
            for line in lines[1:]:
                for entry in _decode_line(line):
                    self._runs[Key(entry.producer, entry.topic, entry.queue_id)] = entry.run
                yield
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SnapshotError(str(error)) from None
        return head.position
