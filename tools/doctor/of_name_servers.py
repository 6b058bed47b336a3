"""What name servers show: whether they answer, and whether they say the same. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from ...client.cluster.lost_brokers import how_to_forget, when_lost
from ...remoting.protocol.bodies.route import ClusterInfo
from .finding import Finding, unseen, wrong
from .seen import NameServer, Seen
from .troubles import of_server

MOST_LINES: Final = 20
"""Of one kind: whoever talks nonsense may name any number."""


def of_name_servers(seen: Seen) -> Iterator[Finding]:
    """Each for itself, then all of them beside each other."""
    for each in seen.name_servers:
        yield from _of_one(seen, each)
    answering = [each for each in seen.name_servers if each.cluster is not None]
    if not answering:
        yield unseen("brokers and topics", "no name server tells where they are")
        return
    yield unseen("clocks of the name servers", "they do not tell the time; look there: date -u")
    if not any(brokers_of(each.cluster) for each in answering):
        yield wrong(
            "; ".join(_place(each.server.address) for each in answering),
            "no broker is registered",
            "start one (mqbroker) whose namesrvAddr names these name servers; its log tells "
            "whether it registers",
        )
    for one, other in combinations(answering, 2):
        yield from _disagreement(seen, one, other)
    yield from _lost(answering)


def _place(address: str) -> str:
    return f"name server {address}"


def _of_one(seen: Seen, each: NameServer) -> Iterator[Finding]:
    place = _place(each.server.address)
    if each.is_broker:
        yield wrong(
            place,
            "that is a broker and no name server",
            "give -n and clients the address of a name server, whose port is 9876 unless it was "
            "told another",
        )
    else:
        yield from of_server(seen, "name server", place, each.server)


def brokers_of(info: ClusterInfo | None) -> set[tuple[str, int, str]]:
    """Name, id and address of each."""
    return {
        (name, number, address)
        for name, broker in (info.broker_addr_table if info is not None else {}).items()
        for number, address in broker.broker_addrs.items()
    }


def _disagreement(seen: Seen, one: NameServer, other: NameServer) -> Iterator[Finding]:
    known, known_there = brokers_of(one.cluster), brokers_of(other.cluster)
    if known and known_there and not known & known_there:
        yield wrong(
            f"{_place(one.server.address)}; {_place(other.server.address)}",
            "they have no broker in common: are they of two clusters?",
            "-n and namesrv= name the servers of one cluster, and namesrvAddr of every broker "
            "names all of them",
        )
        return
    twice = _addresses_of_one(known, known_there)
    for (name, number), (here, there) in sorted(twice.items())[:MOST_LINES]:
        yield wrong(
            f"broker {name} {number}",
            f"{one.server.address} says that it is at {here}, {other.server.address} that it is "
            f"at {there}",
            "look again in a minute: it may just have moved, or been elected. If it is still so, "
            "two brokers have that name and id and take turns, messages seem lost and come twice: "
            "stop one of them, or give it another brokerName or brokerId",
        )
    for has, lacks in ((one, other), (other, one)):
        missing = sorted(
            broker
            for broker in brokers_of(has.cluster) - brokers_of(lacks.cluster)
            if broker[:2] not in twice
        )
        if len(missing) > MOST_LINES:
            yield wrong(
                _place(lacks.server.address),
                f"it does not know {len(missing)} brokers that {has.server.address} knows, the "
                "first of which follow",
                _registers_at(seen, ""),
            )
        for name, number, address in missing[:MOST_LINES]:
            yield wrong(
                _place(lacks.server.address),
                f"it does not know broker {name} {number}, {address}, which "
                f"{has.server.address} knows",
                _registers_at(seen, address),
            )


def _addresses_of_one(
    known: set[tuple[str, int, str]], known_there: set[tuple[str, int, str]]
) -> dict[tuple[str, int], tuple[str, str]]:
    """Name and id of those that both know, each at another address."""
    there = {(name, number): address for name, number, address in known_there}
    return {
        (name, number): (address, there[name, number])
        for name, number, address in known
        if there.get((name, number), address) != address
    }


def _registers_at(seen: Seen, address: str) -> str:
    told = next(
        (each.setting("namesrvAddr") for each in seen.brokers if each.server.address == address), ""
    )
    now = f" (it is {told} now)" if told else ""
    return (
        f"set namesrvAddr of that broker to all name servers, separated by ;{now}, and see that it "
        "reaches them: it registers every 30 s"
    )


def _lost(answering: list[NameServer]) -> Iterator[Finding]:
    """Brokers that died without a word. One that somebody knows is not gone."""
    known = {name for each in answering for name, _, _ in brokers_of(each.cluster)}
    lost = {name: since for each in answering for name, since in each.lost.items()}
    gone = [(name, since) for name, since in sorted(lost.items()) if name not in known]
    for name, since in gone[:MOST_LINES]:
        yield wrong(
            f"broker {name}",
            f"it died{when_lost(since)}, and its topics are away with it",
            f"start it again; {how_to_forget(name)}",
        )
