"""What must hold whatever happened. Each says in words what was broken.

=========================  ================  =====================================================
broker                     what may happen   what was acknowledged
=========================  ================  =====================================================
SYNC_FLUSH                 kill, power       is there, with its number
ASYNC_FLUSH                kill              is there, with its number
ASYNC_FLUSH                power             is there, but for what came in the last seconds
SYNC_MASTER with a slave   kill, power       as above; the slave has the same log
group of three             kill of any       is there, with its number; all have the same log
=========================  ================  =====================================================

Besides: what comes to its queue later (delayed, committed) is there, what was rolled back is not,
a transaction is committed once; what is there was sent, and is there once where its producer is
idempotent; a number of a queue is one message for ever, and what somebody was given stays; what was
sent when another one of its queue had been acknowledged lies behind that; each group had everything
at least once, an ordered one without a gap, and of a queue of its no two members at a time; its
offsets only grow while a broker runs; a term has one leader; no program ends by itself, asks others
without a pause, or leaves tasks, files, ports or connections behind when it ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from aiorocketmq import TransactionState
from aiorocketmq.remoting.protocol.message.properties import PropertyName
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.protocol.record.decode import read_messages
from aiorocketmq.store.message_store import MessageStore

from .copies import dead_letters, expired_at_any, light, lights_differ, other_logs, reads_of_copies
from .habits import Habits
from .journal import (
    CONSUMED_TOO,
    KEYED,
    LIGHT,
    TOPIC,
    Delivered,
    Journal,
    has_tag,
    light_queues,
)
from .loop import Process
from .machine import Machine
from .reads import Place, Stored, said, stored
from .workload import ASKING, GROUP, ORDERED, TAGGED, given_up
from .world import World

LOOK_S = 0.5
NOTED_S = 10.0
"""After that what became of a transaction is noted as safely as its message."""
STOPS_S = 60.0
"""A program that is told to stop has ended by then."""
LATE_S = 10.0
"""A member that has just been started knows what its file has, which some trouble of its disk may
have made older by five seconds; and leaders may follow each other fast."""
HEARD_S = 1.0
LOCK_LIFE_S = 30.0
"""So long a member believes in a lock that nobody has renewed."""
BUSY_WRITES, BUSY_S = 600, 3
"""More writes a second than any program has to do, for so many seconds."""
COPIED = {PropertyName.TRANSACTION_CHECK_TIMES, PropertyName.TRAN_PREPARED_QUEUE_OFFSET}
"""What only copies of half messages have."""


def broken(world: World, journal: Journal, habits: Habits, brokers: set[str]) -> Iterator[str]:
    """At the end, when everything is up and quiet. ``brokers``: the names that there should be."""
    for machine in world.machines.values():
        for error in machine.ended:
            yield f"{machine.name} ended by itself: {error!r}"
        yield from _left_open(machine)
    if not journal.done:
        yield f"the producer has sent {len(journal.sent)} messages and waits for ever"
    for term, leaders in world.leaders.items():
        if len(leaders) > 1:
            yield f"term {term} had several leaders: {sorted(leaders)}"
    masters = world.masters()
    for name in sorted(brokers - masters.keys()):
        yield f"nobody serves {name} {world.loop.now - 1000:.0f} s after all began"
    there: Stored = {}
    for name, machine in masters.items():
        assert machine.broker is not None
        known = {topic.name for topic in machine.broker.state.topics}  # it hands out no others
        topics = [each for each in journal.kept() if each in known]
        there |= stored(machine.broker.store, name, topics)
        yield from other_logs(world, machine)
        if habits.light:
            yield from lights_differ(world, machine)
            yield from _in_light_queues(world, machine, there, journal)
        yield from reads_of_copies(world, machine, topics)
    for name in sorted(world.ahead):
        if world.machines[name].broker_name in world.expired:
            continue  # or has lost what it followed with
        yield f"{name} said that its master lacks what it has"
    yield from _stored_as_told(world, there, journal)
    yield from _as_wanted(journal)
    yield from journal.early
    yield from _each_by_one(journal, habits)
    yield from _too_busy(world)
    if not world.forgotten:  # else what is lost has taken along what others knew of it
        yield from _as_ever(world, there, journal, habits)


def _as_ever(world: World, there: Stored, journal: Journal, habits: Habits) -> Iterator[str]:
    """Numbers stand for what they stood for, and everything came to those who wanted it."""
    yield from _stored_once(there, journal)
    yield from _in_order(journal)
    told = journal.told
    readable = {
        place: body
        for place, body in there.items()
        if told.is_readable(place.broker, place.topic, place.queue_id)
        and not expired_at_any(world, place.broker, place)
    }
    for group, its in _groups(habits).items():
        given = [each for each in journal.delivered if each.group == group]
        dead = dead_letters(world, group)
        for body in sorted(dead - given_up(dead, group, habits, journal.limit)):
            yield f"a dead letter of {group} that its handlers take: {body!r}"
        had = journal.had(group, expires=bool(world.expired)) | dead
        yield from _all_consumed(readable, had, group, its)
        yield from _numbers([each for each in given if not each.again])
    yield from _without_gaps(readable, journal)
    yield from _still_there(world, there, journal)
    yield from _committed_once(world, journal, there)


def _groups(habits: Habits) -> dict[str, tuple[str, ...]]:
    """What they consume."""
    asking = {ASKING: (TOPIC,)} if habits.asked_for else {}
    tagged = {TAGGED: (TOPIC,)} if habits.tagged else {}
    return {GROUP: (TOPIC, *CONSUMED_TOO), ORDERED: (KEYED,), **asking, **tagged}


class Growing:
    """Watches what the group that consumes in order has committed, as long as each broker runs and
    leads. (Of groups of two members both may have a queue for a moment, while it moves; the later
    word counts, as in the original. So those are not watched.)

    Who leads next knows what the last one knew two seconds ago; or more than that one, which may
    have been the member that knew less. So the first word of a consumer in a term is held against
    what leaders had ``LATE_S`` before.
    """

    def __init__(self, world: World, habits: Habits) -> None:
        self._world = world
        self._watched = habits.in_order == 1
        self._seen: dict[tuple[Process, int, int], tuple[int, int]] = {}
        """What there was, and the least that the next word may be."""
        self._led: dict[int, list[tuple[float, int]]] = defaultdict(list)
        """By queue: when a leader of a group had what."""
        self.broken: list[str] = []

    async def run(self) -> None:
        while self._watched:
            await asyncio.sleep(LOOK_S)
            for machine in self._world.masters().values():
                self._look_at(machine)

    def _look_at(self, machine: Machine) -> None:
        broker, process = machine.broker, machine.process
        if broker is None or process is None or self._world.had_forgotten(machine.broker_name):
            return
        term = max(self._world.leaders, default=0)
        for queue_id in broker.store.queue_ids(KEYED):
            offset = broker.state.offsets.get(ORDERED, KEYED, queue_id)
            key = process, queue_id, term
            before, least = self._seen.get(key) or (offset, self._least(queue_id, offset))
            if term:
                self._led[queue_id].append((self._world.loop.now, offset))
            if offset < least:
                self.broken.append(
                    f"{ORDERED} had {least} of {KEYED}/{queue_id} at {machine.name} and has "
                    f"{offset} {self._world.loop.now - 1000:.1f} s after all began"
                )
            self._seen[key] = offset, least if offset == before else offset

    def _least(self, queue_id: int, offset: int) -> int:
        """That a consumer may say to a broker that begins to serve with ``offset``."""
        if not self._world.leaders:
            return offset
        at = self._world.loop.now - LATE_S
        return min(offset, max((had for when, had in self._led[queue_id] if when <= at), default=0))


async def left_behind(world: World) -> list[str]:
    """Everybody is told to stop: who does not, which tasks are left, and what went wrong where no
    task could tell, ever."""
    found: list[str] = []
    for machine in reversed(world.machines.values()):
        process = machine.process
        if process is None:
            continue
        machine.left.clear()  # those of earlier programs were told
        if not await machine.stop(STOPS_S):
            found.append(f"{machine.name} was told to stop and goes on")
            continue
        found += _left_open(machine)
        names = sorted(task.get_name() for task in process.tasks if not task.done())
        if names:
            found.append(f"{machine.name} has ended and left tasks: {', '.join(names)}")
    return found + [f"a callback raised {error!r}" for error in world.loop.raised]


def _left_open(machine: Machine) -> Iterator[str]:
    yield from (f"{machine.name} has ended and left {each}" for each in machine.left)


def _has_expired(world: World, place: Place) -> bool:
    """Where its broker's master has deleted it, or began behind it; or has it damaged, and another
    one, which had it intact, has deleted it (seed 14158341)."""
    if place.broker not in world.expired:
        return False
    machine = world.masters().get(place.broker)
    if machine is None or machine.broker is None:
        return False
    store = machine.broker.store
    if place.offset < store.min_offset(place.topic, place.queue_id):
        return True
    return expired_at_any(world, place.broker, place) and _is_damaged(store, place)


def _is_damaged(store: MessageStore, place: Place) -> bool:
    entries = store.entries.some(place.topic, place.queue_id, place.offset, 1)
    return any(
        begin <= phy_offset < begin + size
        for phy_offset, _, _ in entries or []
        for begin, size in store.damage.places.items()
    )


def _stored_as_told(world: World, there: Stored, journal: Journal) -> Iterator[str]:
    """What producers were told, against what there is. (What comes to its queue later may have
    expired before.)"""
    for place, body in there.items():
        if journal.sent.get(body) != place.topic:
            yield f"phantom: there is at {said(place)} what nobody sent there: {body!r}"
    for ack in journal.acknowledged:
        place = Place(ack.topic, ack.broker, ack.queue_id, ack.offset)
        if _has_expired(world, place) or world.had_forgotten(ack.broker, ack.ended):
            continue
        if ack.topic not in journal.gone and there.get(place) != ack.body:
            yield (
                f"lost: {ack.body!r} was acknowledged as {said(place)}, "
                f"there is {there.get(place)!r}"
            )
    bodies = set(there.values())
    may_lack = world.expired or world.forgotten
    for body in sorted(journal.awaited() - bodies) if not may_lack else ():
        yield f"lost: {body!r} was acknowledged or committed and never came to its queue"
    for body, state in journal.decided.items():
        if state is TransactionState.ROLLBACK and body in bodies:
            yield f"rolled back, and there: {body!r}"


def _in_light_queues(
    world: World, master: Machine, there: Stored, journal: Journal
) -> Iterator[str]:
    """Whatever is in a queue is in those that it names. (Without its topic nobody is given it.)"""
    assert master.broker is not None
    name = master.broker_name
    if name in world.expired or master.broker.store.damage.places:
        return
    if TOPIC not in master.broker.state.topics:
        return
    bodies = Counter(
        body
        for place, body in there.items()
        if place.broker == name and place.topic == TOPIC and body not in journal.lists
    )
    for queue in LIGHT:
        wanted = Counter({b: n for b, n in bodies.items() if queue in light_queues(b)})
        has = Counter(light(master.broker.store, queue).values())
        if has != wanted:
            yield f"{queue} at {name} lacks {dict(wanted - has)}, and has {dict(has - wanted)}"


def _stored_once(there: Stored, journal: Journal) -> Iterator[str]:
    """What an idempotent producer was told, against what there is. Of a list of which a power
    failure has damaged a message before any answer, all come again (a known limit, seed 14050447).
    """
    times = Counter(there.values())
    for body in journal.sent:
        if times[body] > 1 and body in journal.once and not _was_cut(there, journal, body):
            yield f"twice: {body!r} is there {times[body]} times, its producer is idempotent"
        if times[body] and body in journal.refused:
            yield f"refused, and there: {body!r}"


def _was_cut(there: Stored, journal: Journal, body: bytes) -> bool:
    """Where it lies first, one of its list is not."""
    place = min((each for each in there if there[each] == body), key=lambda each: each.offset)
    near = journal.lists.get(body, 0)
    queue = [each.offset for each in there if each[:3] == place[:3]]
    around = range(
        max(min(queue), place.offset - near + 1), min(max(queue), place.offset + near - 1) + 1
    )
    return any(place._replace(offset=number) not in there for number in around)


def _in_order(journal: Journal) -> Iterator[str]:
    """Of two messages of a queue the one that was sent after the other one's acknowledgement lies
    behind it."""
    queues = defaultdict(list)
    for ack in journal.acknowledged:
        queues[ack.topic, ack.broker, ack.queue_id].append(ack)
    for queue, acks in queues.items():
        acks.sort(key=lambda each: each.offset)
        one = acks[0]  # of those in front, who was sent last
        for other in acks:
            if other.ended < one.began:
                yield (
                    f"out of order: {one.body!r} lies at {one.offset} of {queue}, before "
                    f"{other.body!r}, which was acknowledged before it was sent"
                )
            one = max(one, other, key=lambda each: each.began)


def _all_consumed(
    there: Stored, consumed: set[bytes], group: str, topics: Collection[str]
) -> Iterator[str]:
    for place, body in there.items():
        wanted = group != TAGGED or has_tag(body)
        if place.topic in topics and wanted and body not in consumed:
            yield f"not consumed by {group}: {body!r} at {said(place)}"


def _as_wanted(journal: Journal) -> Iterator[str]:
    """Nobody is given what has not the tag that he wants."""
    for each in journal.delivered:
        if each.group == TAGGED and not has_tag(each.body):
            yield f"{TAGGED} was given {each.body!r}, which has no tag"


def _numbers(given: list[Delivered]) -> Iterator[str]:
    """A number of a queue is one message for ever, as far as consumers can tell."""
    known: dict[Place, bytes] = {}
    for each in given:
        place = Place(each.topic, each.broker, each.queue_id, each.offset)
        before = known.setdefault(place, each.body)
        if before != each.body:
            yield f"number given twice: {said(place)} was {before!r}, and {each.body!r}"


def _without_gaps(there: Stored, journal: Journal) -> Iterator[str]:
    """Whoever consumes in order sees no message before the one in front of it. (A power failure may
    take one that nobody was told of, and leave the next.)"""
    furthest: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    for each in journal.delivered:
        if each.group != ORDERED:
            continue
        queue = each.broker, each.queue_id
        between = range(furthest[queue] + 1, each.offset)
        if any(Place(KEYED, *queue, offset) in there for offset in between):
            yield f"a gap: {each.offset} of {queue} came after {furthest[queue]}"
        if each.consumed:  # what is refused comes again, and nothing behind it before
            furthest[queue] = max(furthest[queue], each.offset)


def _still_there(world: World, there: Stored, journal: Journal) -> Iterator[str]:
    """What a consumer was given stays under its number, unless the topic that its send had made
    there never came to the disk: then nobody was told that it is stored (seed 14500611)."""
    acknowledged = {each.body for each in journal.acknowledged}
    known = {
        (name, topic.name)
        for name, machine in world.masters().items()
        if machine.broker is not None
        for topic in machine.broker.state.topics
    }
    for each in journal.delivered:
        if (each.broker, each.topic) not in known and each.body not in acknowledged:
            continue
        place = Place(each.topic, each.broker, each.queue_id, each.offset)
        lost = there.get(place) != each.body and each.topic not in journal.gone
        if lost and not each.again and not _has_expired(world, place):
            yield (
                f"gone: {each.body!r} was given to {each.group} as {said(place)}, there is "
                f"{there.get(place)!r}"
            )


def _each_by_one(journal: Journal, habits: Habits) -> Iterator[str]:
    """Of a queue that is consumed in order two members never handle messages at a time. (A broker
    that begins to serve has forgotten who had a queue; who had it hears of that with the end of its
    connection, later if that does not come.)"""
    late_s = LOCK_LIFE_S if {"cut", "stall"} & habits.faults.keys() else HEARD_S
    for broker, queue_id, one, other, served_since in journal.shared:
        if one.since > served_since + late_s:
            yield (
                f"two at a time: {one.member} had {one.offset} of {broker}/{KEYED}/{queue_id} in "
                f"hand since {one.since - 1000:.2f} s, and {other.member} got {other.offset} "
                f"{other.since - 1000:.2f} s after all began"
            )


def _committed_once(world: World, journal: Journal, there: Stored) -> Iterator[str]:
    """A transaction's message is stored once for each half message that its producer sent, unless
    who stored it the first time was gone soon, or its disk was not well: then nobody may know."""
    found = defaultdict(list)
    for place, body in there.items():
        if body in journal.decided:
            found[body].append(place)
    twice = {body: places for body, places in found.items() if len(places) > 1}
    for body, places in twice.items():
        name = places[0].broker
        if any(place.broker != name for place in places) or name in world.expired:
            continue
        broker = world.masters()[name].broker
        assert broker is not None
        at = sorted(_phy_offset(broker.store, place) for place in places)
        first = world.loop.now
        for when, end in reversed(world.grown[name]):  # a log may have been longer before
            if end <= at[0]:
                break
            first = when
        if _first_halves(broker.store, body) < len(at) and not any(
            begin <= at[-1] and at[0] <= end and since <= first + NOTED_S
            for begin, end, since in world.doubtful[name]
        ):
            yield f"committed {len(at)} times: {body!r}, at {', '.join(map(said, places))}"


def _phy_offset(store: MessageStore, place: Place) -> int:
    units = store.entries.some(place.topic, place.queue_id, place.offset, 1)
    assert units, place
    return units[0][0]


def _first_halves(store: MessageStore, body: bytes) -> int:
    """Half messages with this body that are no copies of others."""
    count = offset = 0
    while offset < store.max_offset(TopicName.TRANS_HALF, 0):
        result = store.get(TopicName.TRANS_HALF, 0, offset)
        for message in read_messages(bytes(result.body), "")[0]:
            is_copy = COPIED & message.properties.keys()
            count += message.body == body and not is_copy
        offset = max(result.next_begin_offset, offset + 1)
    return count


def _too_busy(world: World) -> Iterator[str]:
    """Nobody asks others again and again without a pause."""
    writes = world.network.writes
    for (name, second), count in sorted(writes.items()):
        if min(count, *(writes[name, second + more] for more in range(1, BUSY_S))) > BUSY_WRITES:
            yield (
                f"{name} wrote {count} times to its connections in a second, "
                f"{second - 1000} s after all began, and went on so for {BUSY_S} s"
            )
            return
