"""Whose place counts: what a slave was told while its master was away, or what the master says when
it is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aiorocketmq.broker.replication.accepted_offsets import AcceptedOffsets, AcceptedOffsetTable
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.codes import RequestCode

from .slave_scenes import Pair, commit, play

KEY = "T@g"


def accepted_after(*commits: int, master: int = 50) -> AcceptedOffsets:
    accepted = AcceptedOffsets()
    accepted.heard({KEY: {0: master}})
    for offset in commits:
        accepted.accept(KEY, 0, offset)
    return accepted


def test_what_was_accepted_is_kept_until_the_master_comes_to_it() -> None:
    accepted = accepted_after(80, 100)
    assert not accepted.settled(KEY, 0, 50), "a master that was restarted knows what it knew"
    assert not accepted.settled(KEY, 0, 99)
    assert accepted.settled(KEY, 0, 120)
    assert accepted.settled(KEY, 0, 60), "from then on it is the master's again"


def test_a_reset_at_the_master_counts() -> None:
    assert accepted_after(100).settled(KEY, 0, 49)
    on_its_way = accepted_after(100)
    assert not on_its_way.settled(KEY, 0, 70)
    assert on_its_way.settled(KEY, 0, 60)


def test_a_consumer_may_go_back_at_the_slave_too() -> None:
    accepted = accepted_after(100, 60)
    assert not accepted.settled(KEY, 0, 50)
    assert accepted.settled(KEY, 0, 60)
    assert accepted_after(100, 40).settled(KEY, 0, 50)


def test_other_queues_are_the_masters() -> None:
    accepted = accepted_after(100)
    assert accepted.settled(KEY, 1, 5)
    assert accepted.settled("T@other", 0, 5)


def test_it_survives_a_restart() -> None:
    again = AcceptedOffsets()
    again.load(decode_body(AcceptedOffsetTable, encode_body(accepted_after(100).record())))
    assert not again.settled(KEY, 0, 50)
    assert again.settled(KEY, 0, 49)


@pytest.mark.parametrize(("saved", "begun"), [(None, 100), (40, 100), (120, 120)])
def test_a_start_knows_what_was_accepted_though_the_other_file_is_older(
    saved: int | None, begun: int
) -> None:
    """Or the group has no place at all: the master's counts only when it has come to this one."""
    offsets = ConsumerOffsets()
    if saved is not None:
        offsets.commit("g", "T", 0, saved)
    accepted_after(100).restore(offsets)
    assert offsets.get("g", "T", 0) == begun


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50), min_size=1))
def test_a_place_is_lowered_by_a_reset_only(commits: list[int], heard: list[int]) -> None:
    accepted = accepted_after(*commits, master=heard[0])
    place = max([heard[0], *commits[-1:]]) if commits else heard[0]
    before = heard[0]
    for master in heard:
        if accepted.settled(KEY, 0, master):
            assert master >= place or master < before or not commits
            place = master
        before = master


def test_a_place_committed_while_the_master_was_away_is_not_lowered_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.master.make_topic("T")
        await pair.once()
        unmade = replace(commit(50), topic="never-made")
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, unmade)
        assert pair.slave.broker.state.offsets.get("g", "never-made", 0) == -1
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(50))
        await pair.once()
        assert pair.offset() == 50
        here, pair.network.client = pair.network.client, None
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(100))
        await pair.once()
        pair.network.client = here
        await pair.once()
        assert pair.offset() == 100
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(60))
        await pair.once()
        assert pair.offset() == 100, "somebody began at the master's old place"
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(10))
        await pair.once()
        assert pair.offset() == 10, "a reset"

    play(tmp_path, scene)
