"""What must hold whatever happened. Each says in words what was broken.

=========================  ================  =====================================================
broker                     what may happen   what was acknowledged
=========================  ================  =====================================================
SYNC_FLUSH                 kill, power       is there, with its number
ASYNC_FLUSH                kill              is there, with its number
ASYNC_FLUSH                power             may be gone, from some message on: not tried
SYNC_MASTER with a slave   kill, power       as above; the slave has the same log
group of three             kill of any       is there, with its number; all have the same log
=========================  ================  =====================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from aiorocketmq.remoting.protocol.record.decode import read_messages
from aiorocketmq.store.message_store import MessageStore

from .workload import TOPIC, Clients
from .world import Machine, World


def stored(store: MessageStore, broker: str) -> dict[tuple[int, int], bytes]:
    """Every message of the topic that a broker hands out, by queue and number."""
    found: dict[tuple[int, int], bytes] = {}
    for queue_id in range(16):
        offset = store.min_offset(TOPIC, queue_id)
        while offset < store.max_offset(TOPIC, queue_id):
            result = store.get(TOPIC, queue_id, offset)
            for message in read_messages(bytes(result.body), broker)[0]:
                found[queue_id, message.queue_offset] = message.body
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset
    return found


def broken(world: World, clients: Clients, brokers: set[str]) -> Iterator[str]:
    """At the end, when everything is up and quiet. ``brokers``: the names that there should be."""
    for machine in world.machines.values():
        for error in machine.ended:
            yield f"{machine.name} ended by itself: {error!r}"
    if not clients.done:
        yield f"the producer has sent {len(clients.sent)} messages and waits for ever"
    for term, leaders in world.leaders.items():
        if len(leaders) > 1:
            yield f"term {term} had several leaders: {sorted(leaders)}"
    masters = world.masters()
    for name in sorted(brokers - masters.keys()):
        yield f"nobody serves {name} {world.loop.now - 1000:.0f} s after all began"
    logs: dict[str, dict[tuple[int, int], bytes]] = {}
    for name, machine in masters.items():
        assert machine.broker is not None
        logs[name] = stored(machine.broker.store, name)
        yield from _other_copies(world, machine)
    yield from _against(logs, clients)
    yield from _numbers(clients)


def _against(logs: dict[str, dict[tuple[int, int], bytes]], clients: Clients) -> Iterator[str]:
    """What clients saw, against what there is."""
    sent, given = set(clients.sent), {each.body for each in clients.delivered}
    for broker, messages in logs.items():
        for (queue_id, offset), body in messages.items():
            if body not in sent:
                yield f"phantom: {broker}/{queue_id} has at {offset} what nobody sent: {body!r}"
            if body not in given:
                yield f"not delivered: {body!r} of {broker}/{queue_id} {offset}"
    for ack in clients.acknowledged:
        found = logs.get(ack.broker, {}).get((ack.queue_id, ack.offset))
        if found != ack.body:
            yield (
                f"lost: {ack.body!r} was acknowledged as {ack.broker}/{ack.queue_id} "
                f"{ack.offset}, there is {found!r}"
            )


def _other_copies(world: World, master: Machine) -> Iterator[str]:
    """Slaves and followers have the same, once all is quiet."""
    assert master.broker is not None
    store = master.broker.store
    for machine in world.machines.values():
        if machine.broker is None or machine.broker_name != master.broker_name:
            continue
        copy = machine.broker.store
        if copy.max_phy_offset != store.max_phy_offset:
            yield (
                f"{machine.name} ends at {copy.max_phy_offset}, its master {master.name} at "
                f"{store.max_phy_offset}"
            )
        begin = max(copy.min_phy_offset, store.min_phy_offset)
        for at in range(begin, min(copy.max_phy_offset, store.max_phy_offset), 4096):
            size = min(4096, copy.max_phy_offset - at, store.max_phy_offset - at)
            if copy.read(at, size) != store.read(at, size):
                yield f"the logs of {machine.name} and {master.name} differ behind {at}"
                break


def _numbers(clients: Clients) -> Iterator[str]:
    """A number of a queue is one message for ever, as far as consumers can tell."""
    known: dict[tuple[str, int, int], bytes] = defaultdict(bytes)
    for each in clients.delivered:
        before = known.setdefault((each.broker, each.queue_id, each.offset), each.body)
        if before != each.body:
            yield (
                f"number given twice: {each.broker}/{each.queue_id} {each.offset} was {before!r}, "
                f"and {each.body!r}"
            )
