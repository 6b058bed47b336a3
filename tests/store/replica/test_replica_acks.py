"""What sends wait for: acks of slaves."""

from __future__ import annotations

import pytest

from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.replica.replica_acks import ReplicaAcks


def waiting_acks(in_sync: int = 1) -> tuple[ReplicaAcks, list[PutStatus]]:
    acks = ReplicaAcks(in_sync, 1000, 3.0)
    acks.update([100] * in_sync)
    told: list[PutStatus] = []
    acks.when_acked(150, 0.0, told.append)
    acks.when_acked(200, 0.0, told.append)
    assert not told
    return acks, told


def test_one_report_completes_all_that_it_covers() -> None:
    acks, told = waiting_acks()
    acks.update([149])
    assert not told
    acks.update([180])
    assert told == [PutStatus.PUT_OK]
    acks.update([200, 120])
    assert told == [PutStatus.PUT_OK] * 2
    acks.when_acked(200, 0.0, told.append)
    assert told == [PutStatus.PUT_OK] * 3


def test_several_slaves_must_have_it_when_so_configured() -> None:
    acks, told = waiting_acks(in_sync=2)
    acks.update([300, 149])
    assert not told
    acks.update([300, 150])
    assert told == [PutStatus.PUT_OK]
    acks.update([300])
    acks.when_acked(400, 0.0, told.append)
    assert told[1:] == [PutStatus.SLAVE_NOT_AVAILABLE]


def test_who_waits_too_long_is_told_so() -> None:
    acks, told = waiting_acks()
    acks.expire(2.9)
    assert not told
    acks.expire(3.0)
    assert told == [PutStatus.FLUSH_SLAVE_TIMEOUT] * 2
    assert acks.waiting == 0


@pytest.mark.parametrize("acked", [[], [-1], [100]])
def test_without_a_slave_that_keeps_up_nobody_waits(acked: list[int]) -> None:
    """The third is 1000 bytes behind."""
    acks = ReplicaAcks(1, 1000, 3.0)
    acks.update(acked)
    told: list[PutStatus] = []
    acks.when_acked(1100, 0.0, told.append)
    assert told == [PutStatus.SLAVE_NOT_AVAILABLE]
