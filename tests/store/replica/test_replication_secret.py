"""The proof that slave and master share a secret, cut anywhere on its way."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.store.replica.replication import ReplicationError
from aiorocketmq.store.replica.replication_secret import (
    MAGIC,
    MasterHandshake,
    SlaveHandshake,
    says_hello,
)

SECRET = b"one that both of them know"
CUTS = st.lists(st.integers(1, 40), max_size=8)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    found = []
    for size in [*cuts, len(data)]:
        found.append(data[:size])
        data = data[size:]
    return [piece for piece in found if piece]


def meet(
    slave: SlaveHandshake, master: MasterHandshake, cuts: list[int], behind: bytes = b""
) -> None:
    """Carry everything, in pieces; ``behind`` follows the slave's proof."""
    to_master, to_slave = slave.hello, b""
    for _ in range(3):
        answers = [master.receive(piece) for piece in pieces(to_master, cuts)]
        to_slave = b"".join(answers)
        to_master = b"".join([slave.receive(piece) for piece in pieces(to_slave, cuts)])
        if to_master:
            to_master += behind


@given(
    st.binary(min_size=1, max_size=40),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16),
    CUTS,
)
def test_who_knows_the_secret_is_believed(
    secret: bytes, one: bytes, other: bytes, cuts: list[int]
) -> None:
    slave, master = SlaveHandshake(secret, one), MasterHandshake(secret, other)
    report = struct.pack(">q", 4711)
    meet(slave, master, cuts, behind=report)
    assert (slave.done, master.done, master.rest) == (True, True, report)


@given(CUTS)
def test_another_secret_is_refused_by_the_master_before_it_proves_anything(cuts: list[int]) -> None:
    slave, master = (
        SlaveHandshake(SECRET, bytes(16)),
        MasterHandshake(b"another secret of theirs", bytes(16)),
    )
    with pytest.raises(ReplicationError, match="haSecret"):
        meet(slave, master, cuts)
    assert (slave.done, master.done) == (False, False)


def test_a_master_that_only_repeats_what_it_hears_proves_nothing() -> None:
    slave = SlaveHandshake(SECRET, bytes(16))
    proof = slave.receive(slave.hello)
    with pytest.raises(ReplicationError, match="haSecret"):
        slave.receive(proof)


@given(st.integers(0, 2**63 - 1))
def test_no_offset_says_hello(offset: int) -> None:
    """So a slave of the original is never taken for one that proves something, and the other way
    round."""
    report = struct.pack(">q", offset)
    assert not says_hello(report)
    with pytest.raises(ReplicationError, match="haSecret"):
        MasterHandshake(SECRET, bytes(16)).receive(report)
    assert says_hello(MAGIC)
    assert MAGIC[0] != 0x16, "nor for TLS"


def test_a_batch_of_the_original_is_no_challenge() -> None:
    slave = SlaveHandshake(SECRET, bytes(16))
    with pytest.raises(ReplicationError, match="the original has none"):
        slave.receive(struct.pack(">qi", 0, 0))
