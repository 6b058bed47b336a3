"""Requests that are alike, served together: the frames of one turn of the loop (or a few), from all connections.

When much is sent, a turn of the loop brings dozens of frames, and most of them ask the same of the same handler. What they
share is then decoded and checked once, and what differs is worked on in columns (``protocol/header_shape.py``): a handler
that can do that stands in the dispatcher's table ``many``. Every other frame is served on its own, as ever. Those of one
connection are served in the order in which they came.

Gathering costs a little and delays an answer to the end of the turn, so it goes on only while many frames come in a
millisecond and most of them turn out to be alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .protocol.frame import Body, Frame
from .protocol.header_shape import Columns, HeaderShape, Varying, learn

if TYPE_CHECKING:
    from .connection import Connection
    from .dispatch import Dispatcher, Handler

__all__ = ["AlikeRequests", "Gathering", "ManyHandler"]

_FEW: Final = 24
"""Fewer requests are faster one by one, as a rule."""
_BUSY: Final = 10
"""So many frames in a millisecond, and it is worth trying."""
_MOST: Final = 512
_MOST_BYTES: Final = 192 << 10
"""Frames, and bytes of bodies, that are gathered before they are served, about: they take less than a millisecond."""
_SHAPES: Final = 4
"""Kinds of headers of one length."""
_LENGTHS: Final = 256
_LONGEST_HOLD_S: Final = 0.001
_SMALL_TURNS: Final = 16
"""After so many turns with few frames, one after the other, it rests for a short time."""
_SHORT_PAUSE_MS: Final = 32
_LONGEST_PAUSE_MS: Final = 1024
_MOST_FAILURES: Final = 10


class AlikeRequests:
    """Requests of one code whose headers differ in columns only. Entry ``i`` of everything belongs to request ``i``."""

    __slots__ = ("_counts", "_senders", "bodies", "code", "columns", "received_at_ms", "request")

    def __init__(
        self,
        code: int,
        request: Any,
        columns: Columns,
        bodies: Sequence[Body],
        senders: list[Connection],
        counts: list[int],
        received_at_ms: int,
    ) -> None:
        """``senders`` and ``counts``: whose requests they are, and how many of them."""
        self.code: int = code
        self.request: Any = request
        """The typed header of one like them: what is in ``columns`` does not count."""
        self.columns: Columns = columns
        self.bodies: Sequence[Body] = bodies
        """Valid during the call."""
        self.received_at_ms: int = received_at_ms
        self._senders = senders
        self._counts = counts

    @property
    def packed_peers(self) -> bytes:
        """The addresses that they came from, one behind the other; IPv6 ones are longer."""
        return b"".join([sender.packed_peer * count for sender, count in zip(self._senders, self._counts, strict=True)])

    def refuse(self, reply: Callable[[int], bytes]) -> None:
        """Answer each with what ``reply(opaque)`` makes."""
        self.reply([reply(opaque) for opaque in self.columns.numbers["opaque"].tolist()])

    def may_answer(self, size_bytes: int) -> bool:
        """Whether every peer reads, and takes answers of this size at once."""
        return all(sender.takes(count * size_bytes) for sender, count in zip(self._senders, self._counts, strict=True))

    def reply(self, answers: Sequence[Body], pieces: int = 1) -> None:
        """Send the answers, one frame for each, or one in so many pieces."""
        _send(self._senders, self._counts, answers, pieces)

    def hold(self) -> Callable[[Sequence[bytes]], None]:
        """They are answered later, by calling what this returns with one frame for each. Until then they are in flight."""
        senders, counts = self._senders, self._counts
        for sender, count in zip(senders, counts, strict=True):
            sender.in_flight += count

        def reply(answers: Sequence[bytes]) -> None:
            for sender, count in zip(senders, counts, strict=True):
                sender.in_flight -= count
            _send(senders, counts, answers, 1)

        return reply


def _send(senders: list[Connection], counts: list[int], answers: Sequence[Body], pieces: int) -> None:
    """To each of the senders its answers, in one write."""
    if len(answers) == len(senders):
        for sender, answer in zip(senders, answers, strict=True):
            sender.send_now(bytes(answer))
        return
    at = 0
    for sender, count in zip(senders, counts, strict=True):
        sender.send_now(b"".join(answers[at : at + count * pieces]))
        at += count * pieces


class ManyHandler(NamedTuple):
    """How a request code is served when many of them are alike."""

    varying: Varying
    handle: Callable[[AlikeRequests], bool]
    """Serves them all and is True; or does nothing and is False: then they are served one by one."""
    stands_for: Handler
    """What serves one. Where something else stands in the table (a hook, say, that wants to see each) nothing is done."""
    few: int = 0
    """Fewer are faster one by one; 0: what holds for most."""

    @property
    def least(self) -> int:
        """With so many requests it pays."""
        return self.few or _FEW


class _Reads(NamedTuple):
    """What was read: the connections, and the frames of each (there is at least one). A connection may be there twice."""

    connections: list[Connection]
    frames: list[list[Frame]]

    def serve(self) -> None:
        for connection, frames in zip(*self, strict=True):
            connection.serve(frames)

    def pick(self, wanted: Sequence[bool]) -> _Reads:
        return _Reads(list(compress(self.connections, wanted)), list(compress(self.frames, wanted)))


class Gathering:
    """The frames of one server that came in this turn of the loop, or since ``hold``."""

    def __init__(self, dispatcher: Dispatcher, time_ms: Callable[[], int]) -> None:
        self.active: bool = False
        """Frames are to be gathered."""
        self._dispatcher = dispatcher
        self._time_ms = time_ms
        self._reads = _Reads([], [])
        self.count: int = 0
        """Frames that wait to be served."""
        self._size = 0
        self._shapes: dict[int, list[tuple[HeaderShape, ManyHandler]]] = {}
        self._ms = 0
        self._in_this_ms = 0
        self._not_before_ms = 0
        self._pause_ms = 1
        self._small_turns = 0
        self._failed_lessons = 0
        self._lessons_after = 0
        self._refused = False
        """A handler did not want what fits its shape."""
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    def note(self, count: int, now_ms: int) -> None:
        """So many frames came; they are served without being gathered."""
        if now_ms != self._ms:
            self._ms, self._in_this_ms = now_ms, 0
        self._in_this_ms += count
        if self._in_this_ms >= _BUSY and now_ms >= self._not_before_ms:
            self.active = True

    def add(self, connection: Connection, frames: list[Frame]) -> None:
        """Serve them at the end of this turn of the loop, or when they are not held any more."""
        if not self.count:
            loop = asyncio.get_running_loop()
            if self._held:
                self._timer = loop.call_later(_LONGEST_HOLD_S, self.serve)
            else:
                loop.call_soon(self.serve)
        reads = self._reads
        reads.connections.append(connection)
        reads.frames.append(frames)
        self.count += len(frames)
        self._size += len(frames) * len(frames[0][2])  # about
        if self.count >= _MOST or self._size >= _MOST_BYTES:
            self.serve()

    def hold(self) -> None:
        """Gather more than comes in a turn, for a millisecond at most: answers could not leave now anyway."""
        self._held = True

    def release(self) -> None:
        """Serve what was held back."""
        self._held = False
        self.serve()

    def serve(self) -> None:
        """Serve what was gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        reads, self._reads = self._reads, _Reads([], [])
        count, self.count, self._size = self.count, 0, 0
        if not count:
            return
        try:
            served = self._serve(reads)
        except BaseException:  # a bug: nobody shall wait for an answer that does not come
            for connection in reads.connections:
                connection.close("its requests could not be served")
            raise
        if served * 2 >= count:
            self._small_turns, self._pause_ms = 0, 1
            return
        if count >= _FEW:  # what came is too different
            self._rest(self._pause_ms)
            self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
            return
        self._small_turns += 1
        if self._small_turns >= _SMALL_TURNS:
            self._rest(_SHORT_PAUSE_MS)

    def _rest(self, pause_ms: int) -> None:
        self.active, self._small_turns = False, 0
        self._lessons_after = 0  # what comes behind a pause may be of another kind
        self._not_before_ms = self._time_ms() + pause_ms

    def _serve(self, reads: _Reads) -> int:
        """Serve all; how many were served together."""
        lengths = [len(frames[0][1]) for frames in reads.frames]
        different = set(lengths)
        if len(different) == 1:
            return self._serve_length(lengths[0], reads)
        if len(set(reads.connections)) < len(reads.connections):  # their order would be lost
            reads.serve()
            return 0
        return sum(self._serve_length(each, reads.pick([length == each for length in lengths])) for each in different)

    def _serve_length(self, length: int, reads: _Reads) -> int:
        """The same for reads whose first headers have one length."""
        served, self._refused = 0, False
        for shape, many in self._shapes.get(length, ()):
            reads, alike = self._serve_alike(shape, many, reads)
            served += alike
            if not reads.frames:
                return served
        alike = 0 if self._refused else 1  # it would be learned and refused once more
        while alike and reads.frames and (lesson := self._learn(reads)) is not None:
            reads, alike = self._serve_alike(*lesson, reads)
            served += alike
            self._judge(length, lesson, good=alike > 0)
        reads.serve()
        return served

    def _serve_alike(self, shape: HeaderShape, many: ManyHandler, reads: _Reads) -> tuple[_Reads, int]:
        """Serve those that have this shape; the others, and how many were served."""
        forms, headers, bodies = zip(*chain.from_iterable(reads.frames), strict=True)
        if len(headers) < many.least:
            return reads, 0
        columns = None if any(forms) or len(set(map(len, headers))) > 1 else shape.read(headers)
        if columns is None:
            return self._serve_fitting(shape, many, reads)
        senders, counts = reads.connections, list(map(len, reads.frames))
        if any(sender.in_flight + count > sender.max_in_flight for sender, count in zip(senders, counts, strict=True)):
            return reads, 0
        requests = AlikeRequests(shape.code, shape.request, columns, bodies, senders, counts, self._time_ms())
        if not self._dispatcher.handle_many(many, requests):
            self._refused = True
            return reads, 0
        return _Reads([], []), len(headers)

    def _serve_fitting(self, shape: HeaderShape, many: ManyHandler, reads: _Reads) -> tuple[_Reads, int]:
        """The same when some do not fit: nothing is served of a connection that sent one of those."""
        fitting = [shape.fits(frames) for frames in reads.frames]
        unfit = {connection for connection, fits in zip(reads.connections, fitting, strict=True) if not fits}
        wanted = [connection not in unfit for connection in reads.connections]
        if not unfit or not any(wanted):  # the text is the same, but not what stands in its holes
            return reads, 0
        rest, served = self._serve_alike(shape, many, reads.pick(wanted))
        others = reads.pick([not each for each in wanted])
        return _Reads(others.connections + rest.connections, others.frames + rest.frames), served

    def _learn(self, reads: _Reads) -> tuple[HeaderShape, ManyHandler] | None:
        """A new shape, that of the first frame, when there are so many that it pays. None also for a while after lessons
        that were good for nothing: each costs as much as a request."""
        form, header, _ = reads.frames[0][0]
        many = None if form else self._dispatcher.many_of(header)
        if sum(map(len, reads.frames)) < (_FEW if many is None else many.least):
            return None
        if self._lessons_after > 0:
            self._lessons_after -= 1
            return None
        entry = None if many is None else self._dispatcher.entry_of_usual(header)
        if entry is not None and many is not None:
            shape = learn(header, entry.decode, entry.request_type, many.varying)
            if shape is not None:
                return shape, many
        self._judge(len(header), None, good=False)
        return None

    def _judge(self, length: int, lesson: tuple[HeaderShape, ManyHandler] | None, *, good: bool) -> None:
        """Keep a shape that others had as well."""
        if not good or lesson is None:
            self._failed_lessons = min(self._failed_lessons + 1, _MOST_FAILURES)
            self._lessons_after = 1 << self._failed_lessons
            return
        self._failed_lessons = 0
        if len(self._shapes) >= _LENGTHS:
            self._shapes.clear()
        shapes = self._shapes.setdefault(length, [])
        shapes.insert(0, lesson)
        del shapes[_SHAPES:]
