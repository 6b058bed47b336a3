"""What a correct cluster never shows. Pure.

``judge`` holds a history against what is stored at the end, when every fault has healed. It knows
nothing of how the cluster works: an acknowledgement is a promise, a message that was read once
stays where it was, what was acknowledged before another send began lies in front of it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from .events import Again, Ends, Event, Fail, Invoke, Leads, Ok, Read, Serves, Unknown

Stored = Mapping[str, Sequence[tuple[int, str]]]
"""What is in each queue at the end: offsets, in order, and contents. It may begin above 0: what
is below has been deleted for its age."""

_NEVER: Final = float("inf")


class Kind(Enum):
    """What can be wrong."""

    LOST = "acknowledged, and not stored where it was said to be"
    REFUSED = "surely not stored, as its sender was told, and stored"
    ELSEWHERE = "in another queue than it was sent to"
    DOUBLED = "stored more often than it was tried"
    PHANTOM = "nobody has sent it, or not yet"
    ORDER = "behind what was sent after its acknowledgement"
    SAME_OFFSET = "two acknowledgements for one place"
    GONE = "read, and not stored"
    CHANGED = "another content than was read"
    STALE = "not shown by who serves, though acknowledged before it was asked"
    HOLE = "an offset without a message, or out of order"
    TWO_LEADERS = "two leaders in one term"
    LOGS = "the logs of two nodes differ"


class Violation(NamedTuple):
    """One finding, with what a reader needs to look it up."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.kind.value}: {self.what}"


class Send(msgspec.Struct, gc=False):
    """One send, put together from its events."""

    invoked: Invoke
    acknowledged: Ok | None = None
    failed: Fail | None = None
    attempts: int = 1

    def __str__(self) -> str:
        begin, end = self.invoked, self.acknowledged
        where = f", acknowledged at {end.at:.3f} as {end.queue}@{end.offset}" if end else ""
        return f"{begin.content} of {begin.producer}, sent at {begin.at:.3f}{where}"


def judge(events: Iterable[Event], stored: Stored) -> list[Violation]:
    """Everything that must not be, by kind; empty for a history of a correct cluster."""
    history = _History(events)
    return [
        violation
        for check in _CHECKS
        for violation in sorted(check(history, stored), key=lambda found: found.what)
    ]


class _History:
    """The events by what they are about."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sends: dict[int, Send] = {}
        self.reads: list[Read] = []
        self.leads: list[Leads] = []
        self.ends: list[Ends] = []
        self.serves: list[Serves] = []
        for event in events:
            match event:
                case Invoke():
                    assert event.op not in self.sends, f"two sends have the number {event.op}"
                    self.sends[event.op] = Send(event)
                case Again():
                    self.sends[event.op].attempts += 1
                case Ok():
                    self.sends[event.op].acknowledged = event
                case Fail():
                    self.sends[event.op].failed = event
                case Read():
                    self.reads.append(event)
                case Leads():
                    self.leads.append(event)
                case Ends():
                    self.ends.append(event)
                case Serves():
                    self.serves.append(event)
                case Unknown():
                    pass
        self.by_content: dict[str, Send] = {s.invoked.content: s for s in self.sends.values()}
        assert len(self.by_content) == len(self.sends), "two sends have the same content"

    def acknowledged(self) -> Iterable[tuple[Send, Ok]]:
        return ((send, send.acknowledged) for send in self.sends.values() if send.acknowledged)


def _lost(history: _History, stored: Stored) -> Iterable[Violation]:
    places = {queue: dict(messages) for queue, messages in stored.items()}
    for send, ok in history.acknowledged():
        messages = stored.get(ok.queue, ())
        if messages and ok.offset < messages[0][0]:
            continue  # deleted for its age
        found = places.get(ok.queue, {}).get(ok.offset)
        if found != send.invoked.content:
            yield Violation(Kind.LOST, f"{send}; there is {found or 'nothing'}")


def _refused(history: _History, stored: Stored) -> Iterable[Violation]:
    for queue, messages in stored.items():
        for offset, content in messages:
            send = history.by_content.get(content)
            if send is not None and send.failed is not None:
                yield Violation(Kind.REFUSED, f"{send}; it is {queue}@{offset}")


def _elsewhere(history: _History, stored: Stored) -> Iterable[Violation]:
    for queue, messages in stored.items():
        for offset, content in messages:
            send = history.by_content.get(content)
            if send is not None and send.invoked.queue not in (None, queue):
                wanted = send.invoked.queue
                yield Violation(Kind.ELSEWHERE, f"{send}, to {wanted}; it is {queue}@{offset}")


def _doubled(history: _History, stored: Stored) -> Iterable[Violation]:
    places: dict[str, list[str]] = {}
    for queue, messages in stored.items():
        for offset, content in messages:
            places.setdefault(content, []).append(f"{queue}@{offset}")
    for content, found in places.items():
        send = history.by_content.get(content)
        if send is not None and send.invoked.once and len(found) > send.attempts:
            yield Violation(Kind.DOUBLED, f"{send}; it is {', '.join(found)}")


def _phantoms(history: _History, stored: Stored) -> Iterable[Violation]:
    seen = [(queue, each, _NEVER) for queue, them in stored.items() for each in them]
    seen += [(read.queue, (read.offset, read.content), read.at) for read in history.reads]
    for queue, (offset, content), at in seen:
        send = history.by_content.get(content)
        if send is None or send.invoked.at > at:
            yield Violation(Kind.PHANTOM, f"{queue}@{offset} is {content}; {send or 'never sent'}")


def _order(history: _History, _stored: Stored) -> Iterable[Violation]:
    """In one queue: what had been acknowledged when another one was sent lies in front of it."""
    by_queue: dict[str, list[tuple[int, Send, Ok]]] = {}
    for send, ok in history.acknowledged():
        by_queue.setdefault(ok.queue, []).append((ok.offset, send, ok))
    for sends in by_queue.values():
        youngest: Send | None = None
        for _, send, ok in sorted(sends, key=lambda each: each[0]):
            if youngest is not None and ok.at < youngest.invoked.at:
                yield Violation(Kind.ORDER, f"{send}; in front of it {youngest}")
            if youngest is None or send.invoked.at > youngest.invoked.at:
                youngest = send


def _same_offset(history: _History, _stored: Stored) -> Iterable[Violation]:
    at: dict[tuple[str, int], Send] = {}
    for send, ok in history.acknowledged():
        other = at.setdefault((ok.queue, ok.offset), send)
        if other is not send:
            yield Violation(Kind.SAME_OFFSET, f"{send}; {other}")


def _gone_or_changed(history: _History, stored: Stored) -> Iterable[Violation]:
    """What is readable is committed: it stays, the same for everybody."""
    places = {queue: dict(messages) for queue, messages in stored.items()}
    first: dict[tuple[str, int], Read] = {}
    told: set[tuple[str, int, str]] = set()
    for read in history.reads:
        messages = stored.get(read.queue, ())
        if messages and read.offset < messages[0][0]:
            found: str | None = first.setdefault((read.queue, read.offset), read).content
        else:
            found = places.get(read.queue, {}).get(read.offset)
        if found == read.content or (read.queue, read.offset, read.content) in told:
            continue
        told.add((read.queue, read.offset, read.content))
        kind = Kind.GONE if found is None else Kind.CHANGED
        yield Violation(
            kind,
            f"{read.queue}@{read.offset} was {read.content} for {read.observer} at {read.at:.3f}, "
            f"is {found or 'nothing'}",
        )


def _stale(history: _History, _stored: Stored) -> Iterable[Violation]:
    """Only of a node that serves all the while: from its word that it does, before it is asked, to
    its word that it does not, or the election of another one, behind its answer."""
    serving = _Serving(history.serves, history.leads)
    shown: dict[str, tuple[list[float], list[int]]] = {}
    acknowledged = sorted((ok for _, ok in history.acknowledged()), key=lambda ok: ok.at)
    for ok in acknowledged:
        times, ends = shown.setdefault(ok.queue, ([], []))
        times.append(ok.at)
        ends.append(max(ok.offset + 1, ends[-1] if ends else 0))
    for end in history.ends:
        times, ends = shown.get(end.queue, ([], []))
        before = bisect_left(times, end.began)
        if before and ends[before - 1] > end.offset and serving.all_the_while(end):
            told = times[bisect_left(ends, end.offset + 1)]
            yield Violation(
                Kind.STALE,
                f"{end.queue} ended at {end.offset} for {end.node}, asked at {end.began:.3f}, "
                f"answered at {end.at:.3f}; {end.offset} was acknowledged at {told:.3f}",
            )


class _Serving:
    """When a node says that it serves, and nobody says otherwise."""

    def __init__(self, serves: Iterable[Serves], leads: Iterable[Leads]) -> None:
        self._leads = sorted((lead.at, lead.node) for lead in leads)
        self._words: dict[str, list[tuple[float, bool]]] = {}
        for each in sorted(serves, key=lambda word: word.at):
            self._words.setdefault(each.node, []).append((each.at, not each.ends))

    def all_the_while(self, end: Ends) -> bool:
        words = self._words.get(end.node, [])
        last = bisect_left(words, (end.began, False)) - 1
        if last < 0 or not words[last][1]:
            return False
        since = words[last][0]
        ended = any(not serves for at, serves in words[last + 1 :] if at <= end.at)
        first, behind = (bisect_right(self._leads, (at, "~")) for at in (since, end.at))
        return not ended and all(node == end.node for _, node in self._leads[first:behind])


def _holes(_history: _History, stored: Stored) -> Iterable[Violation]:
    for queue, messages in stored.items():
        for (before, _), (after, _) in itertools.pairwise(messages):
            if after != before + 1:
                yield Violation(Kind.HOLE, f"{queue}: {after} follows {before}")


def _two_leaders(history: _History, _stored: Stored) -> Iterable[Violation]:
    first: dict[int, Leads] = {}
    told: set[tuple[int, str]] = set()
    for lead in history.leads:
        other = first.setdefault(lead.term, lead)
        if other.node != lead.node and (lead.term, lead.node) not in told:
            told.add((lead.term, lead.node))
            yield Violation(
                Kind.TWO_LEADERS,
                f"term {lead.term}: {other.node} at {other.at:.3f}, {lead.node} at {lead.at:.3f}",
            )


_CHECKS: Final[tuple[Callable[[_History, Stored], Iterable[Violation]], ...]] = (
    _lost,
    _refused,
    _elsewhere,
    _doubled,
    _phantoms,
    _order,
    _same_offset,
    _gone_or_changed,
    _stale,
    _holes,
    _two_leaders,
)


class Log(NamedTuple):
    """One node's log: positions ``begin`` to ``end`` (bytes), and ``read(position, size)``."""

    begin: int
    end: int
    read: Callable[[int, int], bytes]


_CHUNK: Final = 1 << 20


def compare_logs(logs: Mapping[str, Log]) -> list[Violation]:
    """After healing and quiet: the logs end at the same place and have the same bytes wherever
    several of them have any."""
    found: list[Violation] = []
    names = sorted(logs)
    for name, other in itertools.pairwise(names):
        one, two = logs[name], logs[other]
        if one.end != two.end:
            found.append(Violation(Kind.LOGS, f"{name} ends at {one.end}, {other} at {two.end}"))
        at = _first_difference(one, two)
        if at is not None:
            found.append(Violation(Kind.LOGS, f"{name} and {other} differ from position {at} on"))
    return found


def _first_difference(one: Log, two: Log) -> int | None:
    begin, end = max(one.begin, two.begin), min(one.end, two.end)
    for position in range(begin, end, _CHUNK):
        size = min(_CHUNK, end - position)
        here, there = one.read(position, size), two.read(position, size)
        if here != there:
            same = next(
                (i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b),
                min(len(here), len(there)),
            )
            return position + same
    return None


def unread(events: Iterable[Event], stored: Stored, observer: str) -> list[tuple[str, int]]:
    """What is stored and was never handed to that observer; not wrong until it has had time."""
    seen = {
        (event.queue, event.offset)
        for event in events
        if isinstance(event, Read) and event.observer == observer
    }
    return [
        (queue, offset)
        for queue, messages in stored.items()
        for offset, _ in messages
        if (queue, offset) not in seen
    ]
