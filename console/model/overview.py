"""The cluster at a glance: brokers with their figures, and what is wrong, in words.

What a broker of the original does not tell is ``None``, and the page leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...client.admin import Member
from ...client.cluster.lost_brokers import when_lost
from .texts import number, percent, size, span, whole

SCARCE, URGENT, FULL = 0.75, 0.85, 0.90
"""The rungs of a broker's disk, as they are unless it was told otherwise."""
LAG_BYTES: Final = 1 << 20
"""A slave that is so much behind is worth a word."""
LAG_ENTRIES: Final = 1000
CLOCK_APART_MS: Final = 5_000
"""A broker tells its time to the second, and the answer takes its way."""
_RUN_TIME: Final = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


class Asked(NamedTuple):
    """What came of asking one broker."""

    member: Member
    figures: Mapping[str, str]
    problem: str | None
    """Why it gave none."""
    at_ms: int
    """Our clock."""


class Raft(NamedTuple):
    """What a broker says of its group."""

    group: str
    member: str
    role: str
    term: int | None
    leader: str
    committed_index: int | None
    lags: Mapping[str, int]
    """Of a leader: entries that the others are behind."""
    votes: bool
    old_log_differs: bool
    """What it had before the group is not what its leader had."""


class Broker(NamedTuple):
    """A row of the overview."""

    cluster: str
    name: str
    broker_id: int
    address: str
    role: str
    problem: str | None
    version: str
    put_rate: float | None
    get_rate: float | None
    put_today: int | None
    disk_ratio: float | None
    log_end: int | None
    lag_bytes: int | None
    """Of a slave."""
    clock_apart_ms: int | None
    """Only when that is worth a word: it is another one each time."""
    quiet: bool
    """It has taken no message for a minute at least, and says so."""
    raft: Raft | None

    @property
    def copies(self) -> bool:
        """What comes in, another one has taken and counted: a slave, or a member that follows."""
        return self.broker_id != 0

    @property
    def disk_rung(self) -> str:
        """``warning`` or ``bad`` where its disk is worth a word."""
        ratio = self.disk_ratio or 0
        return "bad" if ratio > URGENT else "warning" if ratio > SCARCE else ""


class Trouble(NamedTuple):
    """Something that is wrong. ``severity``: ``bad`` or ``warning``."""

    severity: str
    text: str
    link: str = ""


def brokers_of(asked: Iterable[Asked]) -> list[Broker]:
    """A row for each, slaves with what they are behind their master."""
    asked = list(asked)
    ends = {
        each.member.broker_name: whole(each.figures.get("commitLogMaxOffset"))
        for each in asked
        if each.member.is_master
    }
    return [_broker(each, ends.get(each.member.broker_name)) for each in asked]


def _broker(asked: Asked, master_end: int | None) -> Broker:
    member, figures = asked.member, asked.figures
    raft = _raft(figures)
    end = whole(figures.get("commitLogMaxOffset"))
    behind = None
    if not member.is_master and raft is None and end is not None and master_end is not None:
        behind = max(0, master_end - end)
    put_now, put_morning = (
        whole(figures.get(f"msgPutTotalToday{when}")) for when in ("Now", "Morning")
    )
    return Broker(
        member.cluster,
        member.broker_name,
        member.broker_id,
        member.address,
        _role(member, raft),
        asked.problem,
        figures.get("brokerVersionDesc", ""),
        _latest(figures, "putTps"),
        _latest(figures, "getTransferedTps"),
        None if put_now is None or put_morning is None else put_now - put_morning,
        _fullest_disk(figures),
        end,
        behind,
        clock_apart(figures, asked.at_ms),
        _is_quiet(figures),
        raft,
    )


def _fullest_disk(figures: Mapping[str, str]) -> float | None:
    """Of the log's and of what is made of it: either keeps a broker from taking messages."""
    told = (number(figures.get(f"{name}DiskRatio")) for name in ("commitLog", "consumeQueue"))
    return max((ratio for ratio in told if ratio is not None), default=None)


def _role(member: Member, raft: Raft | None) -> str:
    if raft is not None:
        return raft.role.lower() or "member"
    return "master" if member.is_master else "slave"


def _latest(figures: Mapping[str, str], name: str) -> float | None:
    """Of averages over 10 s, 1 min and 10 min the first."""
    return number(figures.get(name, "").partition(" ")[0])


def _is_quiet(figures: Mapping[str, str]) -> bool:
    """A broker that is young does not tell all of its averages."""
    rates = [number(text) for text in figures.get("putTps", "").split()]
    return len(rates) > 1 and all(rate == 0 for rate in rates)


def _raft(figures: Mapping[str, str]) -> Raft | None:
    if "raftGroup" not in figures:
        return None
    lag = "raftLag_"
    return Raft(
        figures["raftGroup"],
        figures.get("raftMember", ""),
        figures.get("raftRole", ""),
        whole(figures.get("raftTerm")),
        figures.get("raftLeader", ""),
        whole(figures.get("raftCommittedIndex")),
        {
            name.removeprefix(lag): whole(value) or 0
            for name, value in figures.items()
            if name.startswith(lag)
        },
        figures.get("raftVotes") != "false",
        figures.get("raftOldLogDiffers") == "true",
    )


def clock_apart(figures: Mapping[str, str], now_ms: int) -> int | None:
    """How far a broker's clock is ahead of ours, ms, to the second; ``None``: not so far that it is
    worth a word, or it does not tell."""
    boot, ran = whole(figures.get("bootTimestamp")), _RUN_TIME.search(figures.get("runtime", ""))
    if boot is None or ran is None:
        return None
    days, hours, minutes, seconds = map(int, ran.groups())
    apart = boot + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 - now_ms
    return apart if abs(apart) > CLOCK_APART_MS else None


# --- what is wrong
# --------------------------------------------------------------------------------------------------


def troubles_of(
    brokers: Sequence[Broker],
    name_servers: Mapping[str, str | None],
    lost: Mapping[str, str],
) -> list[Trouble]:
    """The worst first. ``name_servers``: why one does not answer; ``lost``: last sign of life of
    brokers that name servers remember, ms."""
    found = [
        Trouble("bad", f"The name server {address} does not answer: {why}")
        for address, why in name_servers.items()
        if why is not None
    ]
    if not brokers:
        found.append(Trouble("bad", "The name server knows no broker: has one been started?"))
    here = {broker.name for broker in brokers}
    found += [
        Trouble("bad", f"The broker {name} is gone; it gave its last sign of life{when_lost(at)}.")
        for name, at in sorted(lost.items())
        if name not in here
    ]
    found += _without_master(brokers)
    for broker in brokers:
        found += _of_broker(broker)
    found += _of_groups(brokers)
    return sorted(found, key=lambda each: each.severity != "bad")


def _without_master(brokers: Sequence[Broker]) -> Iterator[Trouble]:
    masters = {broker.name for broker in brokers if broker.broker_id == 0}
    for name in sorted({broker.name for broker in brokers} - masters):
        yield Trouble("bad", f"{name} has slaves but no master: it can be read, not written.")


def _named(broker: Broker) -> str:
    return f"{broker.name} ({broker.role}, {broker.address})"


def _of_broker(broker: Broker) -> Iterator[Trouble]:
    if broker.problem is not None:
        yield Trouble("bad", f"The broker {_named(broker)} gives no figures: {broker.problem}")
        return
    ratio = broker.disk_ratio
    if ratio is not None and ratio > SCARCE:
        used = f"The disk of {_named(broker)} is {percent(ratio)} full"
        if ratio > FULL:
            yield Trouble("bad", f"{used}: it refuses messages until there is room.")
        elif ratio > URGENT:
            yield Trouble("bad", f"{used}: it deletes its oldest messages now, expired or not.")
        else:
            yield Trouble("warning", f"{used}: it deletes expired messages at any hour.")
    if broker.lag_bytes is not None and broker.lag_bytes > LAG_BYTES:
        yield Trouble("warning", f"{_named(broker)} is {size(broker.lag_bytes)} behind its master.")
    apart = broker.clock_apart_ms
    if apart is not None:
        way = "ahead of" if apart > 0 else "behind"
        yield Trouble(
            "warning",
            f"The clock of {_named(broker)} is {span(abs(apart))} {way} the console's: times of "
            "messages, delays and resets by time are off by as much.",
        )


def _of_groups(brokers: Sequence[Broker]) -> Iterator[Trouble]:
    groups: dict[str, list[Broker]] = {}
    for broker in brokers:
        if broker.raft is not None:
            groups.setdefault(broker.raft.group, []).append(broker)
    for group, members in sorted(groups.items()):
        rafts = [each.raft for each in members if each.raft is not None]
        if not any(each.role.upper() == "LEADER" for each in rafts):
            yield Trouble("bad", f"The group {group} has no leader: it takes no messages.")
        here = {each.member for each in rafts}
        leaders = [each for each in rafts if each.role.upper() == "LEADER"]
        for leader in sorted(leaders, key=lambda each: each.term or 0)[-1:]:
            for missing in sorted(set(leader.lags) - here):
                yield Trouble(
                    "bad",
                    f"{missing} of the group {group} is not there: it does not run, or no name "
                    f"server knows it. {len(here)} of {len(leader.lags) + 1} members are left.",
                )
        for raft in rafts:
            for member, behind in raft.lags.items():
                if behind > LAG_ENTRIES:
                    yield Trouble(
                        "warning",
                        f"{member} of the group {group} is {behind:,} entries behind its leader.",
                    )
            if not raft.votes:
                yield Trouble(
                    "warning",
                    f"{raft.member} of the group {group} has lost entries and does not vote until "
                    "it has caught up.",
                )
            if raft.old_log_differs:
                yield Trouble(
                    "warning",
                    f"{raft.member} of the group {group} has another commit log from before the "
                    "group than its leader: messages of it come and go with who leads.",
                )
