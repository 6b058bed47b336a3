"""Slaves and followers have what their master has: the same log, and the same answers from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.remoting.protocol.message.properties import PropertyName
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.protocol.record.decode import MessageExt, read_messages
from aiorocketmq.store.message_store import MessageStore

from .journal import LIGHT
from .machine import Machine
from .reads import Place, messages, reads_differ, said
from .world import World


def others_of(world: World, master: Machine) -> Iterator[tuple[Machine, Broker]]:
    """Those that follow it. A slave whose last message has expired at its master does not, until
    somebody empties it, and says so; a member of a group begins anew."""
    assert master.broker is not None
    begin = master.broker.store.min_phy_offset
    for machine in world.machines.values():
        broker = machine.broker
        if broker is None or machine is master or machine.broker_name != master.broker_name:
            continue
        last = broker.store.replica.last_record()
        if broker.group is not None or last is None or last[0] >= begin:
            yield machine, broker


def reads_of_copies(world: World, master: Machine, topics: Iterable[str]) -> Iterator[str]:
    """In whichever way they are read; also from the master itself."""
    assert master.broker is not None
    topics, store = list(topics), master.broker.store
    there = messages(store, master.broker_name, topics)
    yield from reads_differ(store, master.name, there, master.damaged)
    for machine, broker in others_of(world, master):
        copy = broker.store
        mine = messages(copy, master.broker_name, topics)
        both = _damaged_at_both(copy, store)
        # whoever begins behind what it never had on its disk (seed 14136450) is as with expiry
        expired = master.broker_name in world.expired or machine.begins_later
        for place in sorted(there.keys() | mine.keys()):
            one, other = mine.get(place), there.get(place)
            if expired and _is_gone_somewhere(copy, store, place, one or other):
                continue
            if one is None and other is not None and _lies_in(both, other.commit_log_offset):
                continue  # a stretch is mended as a whole, and somewhere in it is not to be had
            if (one and one.body) != (other and other.body):
                yield f"{machine.name} has at {said(place)} {one!r}, and {master.name} {other!r}"
        yield from reads_differ(copy, machine.name, mine, machine.damaged)
        for topic in topics:
            for queue_id in sorted({*store.queue_ids(topic), *copy.queue_ids(topic)}):
                ends = [
                    (
                        0 if expired else each.min_offset(topic, queue_id),
                        each.max_offset(topic, queue_id),
                    )
                    for each in (copy, store)
                ]
                queue = Place(topic, master.broker_name, queue_id, 0)
                if ends[0] != ends[1] and not _only_numbers(ends, (mine, there), queue):
                    yield (
                        f"{topic}/{queue_id} goes from, to {ends[0]} at {machine.name}, "
                        f"{ends[1]} at {master.name}"
                    )


def _is_gone_somewhere(
    copy: MessageStore, store: MessageStore, place: Place, found: MessageExt | None
) -> bool:
    """Each of them deletes its oldest files when its own disk is scarce. The queue may begin in
    front of that: with the number of a message that had been damaged (seed 14130794)."""
    return any(
        place.offset < each.min_offset(place.topic, place.queue_id)
        or (found is not None and found.commit_log_offset < each.min_phy_offset)
        for each in (copy, store)
    )


def _only_numbers(
    ends: list[tuple[int, int]], found: Iterable[dict[Place, MessageExt]], queue: Place
) -> bool:
    """What one of them has more, at its begin or its end, are numbers of messages that both have
    lost, which are not given again."""
    numbers = (range(*sorted(side)) for side in zip(*ends, strict=True))
    more = {queue._replace(offset=number) for number in chain(*numbers)}
    return not any(more & each.keys() for each in found)


def dead_letters(world: World, group: str) -> set[bytes]:
    """What was given up for that group. Such a message may have a delay, which is long where it was
    tried often at its consumer: then it is on its way."""
    stores = [each.broker.store for each in world.masters().values() if each.broker is not None]
    topic = TopicName.DLQ_PREFIX + group
    return {
        message.body
        for store in stores
        for place, message in messages(store, "", [topic, TopicName.SCHEDULE]).items()
        if topic in (place.topic, message.properties.get(PropertyName.REAL_TOPIC))
    }


def light(store: MessageStore, name: str) -> dict[int, bytes]:
    """By number, what a light queue has."""
    found: dict[int, bytes] = {}
    for number in range(store.min_offset(name, 0), store.max_offset(name, 0)):
        result = store.get(name, 0, number)
        for message in read_messages(bytes(result.body), "")[0][:1]:
            names, numbers = (
                message.properties.get(each, "").split(",")
                for each in (
                    PropertyName.INNER_MULTI_DISPATCH,
                    PropertyName.INNER_MULTI_QUEUE_OFFSET,
                )
            )
            if (name, str(number)) in zip(names, numbers, strict=False):
                found[number] = message.body
    return found


def lights_differ(world: World, master: Machine) -> Iterator[str]:
    assert master.broker is not None
    for machine, broker in others_of(world, master):
        for name in LIGHT if master.broker_name not in world.expired else ():
            one, other = light(broker.store, name), light(master.broker.store, name)
            if one != other and not (broker.store.damage.places or machine.begins_later):
                yield f"{name} is {one} at {machine.name}, {other} at {master.name}"


def expired_at_any(world: World, name: str, place: Place) -> bool:
    """A machine of that broker has deleted it: who asked for the first message there began behind
    it."""
    return name in world.expired and any(
        each.broker is not None
        and each.broker_name == name
        and place.offset < each.broker.store.min_offset(place.topic, place.queue_id)
        for each in world.machines.values()
    )


def other_logs(world: World, master: Machine) -> Iterator[str]:
    """Slaves and followers have the same, once all is quiet."""
    assert master.broker is not None
    store = master.broker.store
    for machine, broker in others_of(world, master):
        copy = broker.store
        if copy.max_phy_offset != store.max_phy_offset:
            yield (
                f"{machine.name} ends at {copy.max_phy_offset}, its master {master.name} at "
                f"{store.max_phy_offset}"
            )
        at = max(copy.min_phy_offset, store.min_phy_offset)
        end = min(copy.max_phy_offset, store.max_phy_offset)
        for begin, stop in [*_damaged_at_both(copy, store), (end, end)]:
            if _log_bytes(copy, at, begin) != _log_bytes(store, at, begin):
                yield f"the logs of {machine.name} and {master.name} differ behind {at}"
                break
            at = max(at, stop)


def _log_bytes(store: MessageStore, at: int, stop: int) -> list[bytes | None]:
    """No piece lies in two files."""
    pieces = []
    while at < stop:
        size = min(4096 - at % 4096, stop - at)
        pieces.append(store.read(at, size))
        at += size
    return pieces


def _lies_in(places: list[tuple[int, int]], phy_offset: int) -> bool:
    return any(begin <= phy_offset < stop for begin, stop in places)


def _damaged_at_both(copy: MessageStore, store: MessageStore) -> list[tuple[int, int]]:
    """What the disks of both have lost comes back from nowhere: from, to, in order."""
    theirs = [(at, at + size) for at, size in store.damage.places.items()]
    mine = [(at, at + size) for at, size in copy.damage.places.items()]
    both = [one for one in mine if any(one[0] < stop and at < one[1] for at, stop in theirs)]
    return sorted(both + (theirs if both else []))
