"""Before a slave follows: the master has the slave's last record, whatever has rotted."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record import body_crc
from aiorocketmq.remoting.transport.address import moved_port
from aiorocketmq.store.replica.replication import ReplicationError

from ..fault.damage import flip
from .replication.slave_scenes import Pair, play

BODY_AT = 88
"""In a record."""


def crc_of(body: bytes) -> bytes:
    return body_crc(body).to_bytes(4, "big")


def test_the_last_record_must_be_the_masters(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        await pair.sync.verify("10.0.0.1:10912")
        assert pair.network.asked == []
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        await pair.sync.verify("10.0.0.1:10912")
        store = pair.slave.broker.store
        await pair.at_master.send("T", b"here this")
        record = pair.master.broker.store.message_by_offset(store.max_phy_offset)
        assert record is not None
        another = record.replace(b"here this", b"here that").replace(
            crc_of(b"here this"), crc_of(b"here that")
        )
        store.replica.append(store.max_phy_offset, another)
        with pytest.raises(ReplicationError, match=r"10\.0\.0\.1:10911 has another one there"):
            await pair.sync.verify("10.0.0.1:10912")
        at = store.max_phy_offset
        ahead = record[:28] + at.to_bytes(8, "big") + record[36:]
        store.replica.append(at, ahead)
        with pytest.raises(ReplicationError, match="does not have it"):
            await pair.sync.verify("10.0.0.1:10912")

    play(tmp_path, scene)


@pytest.mark.parametrize("where", ["s", "m"], ids=["at the slave", "at the master"])
@pytest.mark.parametrize(
    "at", [8, BODY_AT, BODY_AT + 4], ids=["crc", "begin of the body", "end of the body"]
)
def test_a_last_record_that_is_damaged_at_one_of_both_ends_is_the_same(
    tmp_path: Path, where: str, at: int
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        flip(tmp_path / where, at)
        await pair.sync.verify("10.0.0.1:10912")

    play(tmp_path, scene)


@pytest.mark.parametrize("at", [23, 55, BODY_AT + 6], ids=["number", "host", "topic"])
def test_records_that_differ_where_no_crc_tells_which_is_damaged_are_two(
    tmp_path: Path, at: int
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        flip(tmp_path / "m", at)
        with pytest.raises(ReplicationError, match="has another one there"):
            await pair.sync.verify("10.0.0.1:10912")
        flip(tmp_path / "m", BODY_AT)
        with pytest.raises(ReplicationError, match="has another one there"):
            await pair.sync.verify("10.0.0.1:10912")

    play(tmp_path, scene)


def test_a_master_that_is_back_is_asked_even_if_somebody_else_has_just_asked_in_vain(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        pair.network.backs_off = True
        await pair.sync.verify("10.0.0.1:10912")

    play(tmp_path, scene)


def test_the_port_of_the_master_is_found_without_a_name_server() -> None:
    assert moved_port("10.0.0.1:10912", -1) == "10.0.0.1:10911"
    assert moved_port("[::1]:10911", -2) == "[::1]:10909"
