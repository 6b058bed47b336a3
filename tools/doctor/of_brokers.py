"""What brokers show: addresses, masters and slaves, clocks, versions. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ...remoting.protocol.codes import version_name
from .finding import Finding, note, unseen, wrong
from .seen import Broker, Kind, Seen, Trouble, whole
from .troubles import ip_of, not_told, of_access, of_server

V4_9_0: Final = 393
"""Ordinal of the first version that speaks as we do."""
CLOCK_MS: Final = 5_000
"""By how much clocks may differ: what people take for the same time."""
FULL: Final = 0.90
"""``diskSpaceWarningLevelRatio`` as it is by default: from here on messages are refused."""

_RUNTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
_NUMBER: Final = re.compile(r"[01]\.\d{1,9}")


def of_brokers(seen: Seen) -> Iterator[Finding]:
    """Each for itself, then all of them beside each other."""
    for each in seen.brokers:
        yield from _address(seen, each)
        if each.server.trouble is not None:
            yield from of_server(seen, "broker", each.place, each.server)
        else:
            yield from _answers(seen, each)
    if seen.left_out:
        yield unseen("brokers", f"{seen.left_out} more, which were not looked at")
    yield from _one_address_twice(seen)
    yield from _masters(seen)
    yield from _versions(seen)


# --- addresses
# --------------------------------------------------------------------------------------------------


def _address(seen: Seen, each: Broker) -> Iterator[Finding]:
    ip = ip_of(each.server.address)
    if ip is None:
        return
    if ip.is_unspecified:
        yield wrong(each.place, "it is registered with an address that leads nowhere", _BROKER_IP)
    elif ip.is_loopback and any(
        other.cluster is not None and not other.server.is_loopback for other in seen.name_servers
    ):
        yield wrong(
            each.place,
            "it is registered with a loopback address, which leads every client to its own machine",
            _BROKER_IP,
        )


_BROKER_IP: Final = "set brokerIP1 of the broker to an address that its clients reach"


def _one_address_twice(seen: Seen) -> Iterator[Finding]:
    by_address: dict[str, list[Broker]] = defaultdict(list)
    for each in seen.brokers:
        by_address[each.server.address].append(each)
    for address, found in by_address.items():
        if len({(each.name, each.id) for each in found}) > 1:
            yield wrong(
                "; ".join(f"broker {each.name} {each.id}" for each in found),
                f"they are registered with one address, {address}",
                "give each its own listenPort and brokerIP1; after a rename the old name goes "
                "within 120 s",
            )


# --- what one answers
# --------------------------------------------------------------------------------------------------


def _answers(seen: Seen, each: Broker) -> Iterator[Finding]:
    if isinstance(each.runtime, Trouble):
        if each.runtime.kind is Kind.ACCESS:
            yield of_access(seen, each.place, each.runtime)
            return
        yield not_told(each.place, "its version, clock and disk", each.runtime)
    else:
        yield from _clock(each)
        yield from _disk(each)
    yield from _identity(each)
    if each.vip is not None:
        yield note(
            each.place,
            f"its port for small requests, listenPort - 2, cannot be reached ({each.vip.text})",
            "only clients with vip_channel (vipChannelEnabled in Java) miss it: switch that off, "
            "or publish the port",
        )
    yield from _behind(seen, each)


def _clock(each: Broker) -> Iterator[Finding]:
    span = clock_ahead_ms(each)
    if span is None:
        yield unseen(each.place, "its clock: it does not tell since when it runs")
        return
    low, high = span
    if low > CLOCK_MS or high < -CLOCK_MS:
        seconds = (low + high) // 2 // 1000
        way = "ahead of" if seconds > 0 else "behind"
        yield wrong(
            each.place,
            f"its clock is {abs(seconds)} s {way} this machine's",
            "let NTP set both: times of messages, searches by time and traces are off by that much",
        )


def clock_ahead_ms(each: Broker) -> tuple[int, int] | None:
    """Between what its clock is ahead of ours. It tells when it started and, in whole seconds, how
    long ago that was; the question took some time. ``None``: it does not."""
    start, ran = whole(each.figure("bootTimestamp")), _RUNTIME.fullmatch(each.figure("runtime"))
    if start is None or ran is None or max(map(len, ran.groups())) > 9:
        return None
    days, hours, minutes, seconds = map(int, ran.groups())
    now = start + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return now - each.answered_ms, now + 1000 - each.asked_ms


def _disk(each: Broker) -> Iterator[Finding]:
    if each.figure("raftOldLogDiffers") == "true":
        yield wrong(
            each.place,
            "its commit log from before the group is not that of its leader: messages of it come "
            "and go with who leads",
            "see the ERROR line in its log, and docs/raft.md, A disk is lost",
        )
    told = (each.figure(f"{name}DiskRatio") for name in ("commitLog", "consumeQueue"))
    ratio = max((float(text) for text in told if _NUMBER.fullmatch(text)), default=0.0)
    if ratio >= FULL:
        yield wrong(
            each.place,
            f"its disk is {ratio:.0%} full: it refuses messages, or will soon",
            "make room, or keep less: fileReservedTime, or another storePathRootDir",
        )


def _identity(each: Broker) -> Iterator[Finding]:
    if isinstance(each.config, Trouble):
        yield not_told(each.place, "whether it is the one that is registered", each.config)
    elif (name := each.setting("brokerName")) and name != each.name:
        yield wrong(
            each.place,
            f"from here that address leads to the broker {name}",
            f"{_BROKER_IP}, and see which ports its host passes on to whom",
        )


def _behind(seen: Seen, each: Broker) -> Iterator[Finding]:
    if each.behind_bytes > 0:
        yield wrong(
            each.place,
            f"a slave that lacks {each.behind_bytes} bytes of what its master had "
            f"{seen.waited_s:g} s ago",
            "see its log: can it reach the master's haListenPort (brokerIP2), and does its disk "
            "keep up? Until then messages may be lost with the master",
        )
    elif each.behind_bytes < 0:
        yield wrong(
            each.place,
            f"a slave whose log has {-each.behind_bytes} bytes more than its master's",
            "its history is another one: see the logs of both, and docs/operations.md, Replication",
        )


# --- beside each other
# --------------------------------------------------------------------------------------------------


def _masters(seen: Seen) -> Iterator[Finding]:
    names = sorted({each.name for each in seen.brokers})
    for name in names:
        if not any(each.is_master for each in seen.brokers if each.name == name):
            yield wrong(
                f"broker {name}",
                "it has no master: its queues can be read and not written",
                "start the one with brokerId=0 again; in a group, see that most members run and "
                "reach each other (mqadmin raftStatus)",
            )


def _versions(seen: Seen) -> Iterator[Finding]:
    told = {each.place: whole(each.figure("brokerVersion")) for each in seen.brokers}
    told |= {
        f"name server {each.server.address}": each.version
        for each in seen.name_servers
        if each.version
    }
    by_version: dict[int, list[str]] = defaultdict(list)
    for place, ordinal in told.items():
        if ordinal is not None:
            by_version[ordinal].append(place)
    if len(by_version) > 1:
        yield note(
            "versions",
            "they are mixed: "
            + ", ".join(f"{version_name(o)} ({len(p)})" for o, p in sorted(by_version.items())),
            "fine during an upgrade; bring all to one",
        )
    for ordinal, places in by_version.items():
        if ordinal < V4_9_0:
            for place in places:
                yield note(
                    place,
                    f"its version is {version_name(ordinal)}, and this client speaks as 4.9 does",
                    "what it does not know it answers with code 3; an upgrade helps",
                )
