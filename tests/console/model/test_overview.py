"""What is wrong, in words, from what brokers say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from aiorocketmq.client.admin import Member
from aiorocketmq.console.model.overview import Asked, Trouble, brokers_of, troubles_of

NOW = 1_700_000_000_000
FIGURES = {
    "brokerVersionDesc": "V4_9_8",
    "putTps": "12.5 3.0 1.0",
    "getTransferedTps": "0.0 0.0 0.0",
    "msgPutTotalTodayNow": "110",
    "msgPutTotalTodayMorning": "100",
    "commitLogDiskRatio": "0.28",
    "commitLogMaxOffset": "5000000",
    "bootTimestamp": str(NOW - 90_061_500),
    "runtime": "[ 1 days, 1 hours, 1 minutes, 1 seconds ]",
}


def asked(
    name: str = "a",
    broker_id: int = 0,
    problem: str | None = None,
    figures: Mapping[str, str] = MappingProxyType({}),
    **others: str,
) -> Asked:
    address = f"127.0.0.1:{10911 + broker_id}"
    told = {} if problem else {**FIGURES, **figures, **others}
    return Asked(Member("c", name, broker_id, address), told, problem, NOW)


def wrong(*answers: Asked) -> list[Trouble]:
    return troubles_of(brokers_of(answers), {"ns:9876": None}, {})


def test_a_broker_that_is_well() -> None:
    (broker,) = brokers_of([asked()])
    assert (broker.role, broker.version, broker.put_rate) == ("master", "V4_9_8", 12.5)
    assert (broker.put_today, broker.disk_ratio, broker.lag_bytes) == (10, 0.28, None)
    assert broker.clock_apart_ms is None, "half a second is not worth a word"
    assert wrong(asked()) == []


def test_a_broker_that_tells_little() -> None:
    """Of another version: what it does not say is left out."""
    told = Asked(Member("c", "a", 0, "x:1"), {"putTps": "nonsense"}, None, NOW)
    (broker,) = brokers_of([told])
    assert (broker.put_rate, broker.put_today, broker.disk_ratio) == (None, None, None)
    assert broker.clock_apart_ms is None
    assert wrong(told) == []


@pytest.mark.parametrize(
    ("rates", "quiet"),
    [
        ("0.0 0.0 0.0", True),
        ("0.0 0.0 ", True),  # up for less than ten minutes
        ("0.0  ", False),  # for less than one
        ("0.0 0.0 0.1", False),
        ("0.0 0.3 0.1", False),
        ("0.0 NaN 0.0", False),
        ("", False),
    ],
)
def test_a_broker_that_takes_no_messages(rates: str, quiet: bool) -> None:
    (broker,) = brokers_of([asked(putTps=rates)])
    assert broker.quiet is quiet


@pytest.mark.parametrize(
    ("ratio", "severity", "text"),
    [
        ("0.76", "warning", "deletes expired messages at any hour"),
        ("0.86", "bad", "deletes its oldest messages now"),
        ("0.91", "bad", "refuses messages"),
    ],
)
def test_the_rungs_of_a_disk(ratio: str, severity: str, text: str) -> None:
    (trouble,) = wrong(asked(commitLogDiskRatio=ratio))
    assert trouble.severity == severity
    assert text in trouble.text


def test_a_slave_that_is_behind() -> None:
    near = asked(broker_id=1, commitLogMaxOffset="4999000")
    far = asked(broker_id=1, commitLogMaxOffset="1000000")
    assert wrong(asked(), near) == []
    (trouble,) = wrong(asked(), far)
    assert "(slave, 127.0.0.1:10912) is 3.8 MiB behind its master" in trouble.text
    assert brokers_of([asked(), far])[1].lag_bytes == 4_000_000


@pytest.mark.parametrize(("hours", "way"), [(2, "ahead of"), (0, "behind")])
def test_a_clock_apart(hours: int, way: str) -> None:
    (trouble,) = wrong(asked(runtime=f"[ 1 days, {hours} hours, 1 minutes, 1 seconds ]"))
    assert re.search(rf"is (1 h|60 min) {way} the console's", trouble.text)


def test_a_broker_that_does_not_answer_is_first() -> None:
    assert wrong(asked(consumeQueueDiskRatio="0.76")) == wrong(asked(commitLogDiskRatio="0.76"))
    found = wrong(asked(commitLogDiskRatio="0.76"), asked("b", problem="connection refused"))
    assert [each.severity for each in found] == ["bad", "warning"]
    assert "connection refused" in found[0].text


def test_slaves_without_a_master() -> None:
    assert "no master" in wrong(asked(broker_id=1))[0].text


def test_a_name_server_that_does_not_answer_and_no_broker() -> None:
    found = troubles_of([], {"ns:9876": "timeout"}, {"a": "1700000000000"})
    assert [each.text.split(":")[0] for each in found][:2] == [
        "The name server ns",
        "The name server knows no broker",
    ]
    assert "2023-11-14T22:13:20Z" in found[2].text


@pytest.mark.parametrize(
    ("ratio", "rung"), [("0.75", ""), ("0.76", "warning"), ("0.86", "bad"), ("-1", ""), ("", "")]
)
def test_the_rung_of_a_disk(ratio: str, rung: str) -> None:
    (broker,) = brokers_of([asked(commitLogDiskRatio=ratio)])
    assert broker.disk_rung == rung


def test_a_lost_broker_that_is_back_is_no_trouble() -> None:
    assert troubles_of(brokers_of([asked()]), {}, {"a": "1"}) == []


RAFT = {"raftGroup": "g", "raftMember": "n0", "raftRole": "LEADER", "raftTerm": "3",
        "raftLeader": "n0", "raftCommittedIndex": "10", "raftVotes": "true"}  # fmt: skip


def test_a_group_with_a_leader() -> None:
    (broker,) = brokers_of([asked(figures=RAFT, raftLag_n1="0")])
    assert broker.role == "leader"
    assert broker.raft is not None
    assert (broker.raft.term, broker.raft.lags) == (3, {"n1": 0})
    assert wrong(asked(figures=RAFT)) == []
    assert wrong(asked(figures=RAFT, raftLag_n1="0"), a_follower("n1")) == []


def test_a_member_that_is_not_there() -> None:
    """Name servers forget who does not speak to them: its leader knows that there is one."""
    (trouble,) = wrong(asked(figures=RAFT, raftLag_n1="0", raftLag_n2="0"), a_follower("n2"))
    assert trouble.severity == "bad"
    assert "n1 of the group g is not there" in trouble.text
    assert "2 of 3 members are left" in trouble.text
    deposed = asked(broker_id=2, figures=RAFT | {"raftTerm": "2", "raftLag_n7": "0"})
    assert wrong(asked(figures=RAFT, raftLag_n2="0"), deposed, a_follower("n2")) == []


def a_follower(name: str) -> Asked:
    return asked(broker_id=1, figures=RAFT | {"raftRole": "FOLLOWER", "raftMember": name})


def test_a_member_that_began_with_another_log() -> None:
    (trouble,) = wrong(
        asked(figures=RAFT, raftLag_n1="0"),
        asked(
            broker_id=1,
            figures=RAFT
            | {"raftRole": "FOLLOWER", "raftMember": "n1", "raftOldLogDiffers": "true"},
        ),
    )
    assert trouble.severity == "warning"
    assert "n1 of the group g has another commit log from before the group" in trouble.text


def test_a_group_without_a_leader() -> None:
    follower = RAFT | {"raftRole": "CANDIDATE", "raftVotes": "false", "raftLag_n1": "5000"}
    texts = [each.text for each in wrong(asked(figures=follower))]
    assert "The group g has no leader: it takes no messages." in texts
    assert any("5,000 entries behind" in text for text in texts)
    assert any("does not vote" in text for text in texts)
