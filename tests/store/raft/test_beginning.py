"""Where a log without entries begins: where the leader's first one lies."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    Entry,
    HeartbeatRequest,
    PushRequest,
    PushResponse,
    PushType,
)
from aiorocketmq.remoting.protocol.record.entry import ENTRY_HEAD, ENTRY_MAGIC
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState
from aiorocketmq.store.raft.settings import RaftSettings

from .list_log import ListLog

PEERS = {"n0": "a:1", "n1": "b:1", "n2": "c:1"}
BODY = b"record"
SETTINGS = RaftSettings("G", "n0", PEERS)


@pytest.mark.parametrize(
    ("index", "pos"),
    [
        (0, 0),
        pytest.param(0, 65_536, id="behind an old log, which this member has lost"),
        pytest.param(7, 65_536, id="older ones are deleted"),
    ],
)
def test_an_empty_log_takes_the_first_entry_wherever_it_lies(index: int, pos: int) -> None:
    log = ListLog()
    member = Member(SETTINGS, HardState(1), log, lambda a, _b: a, 0, committed=-1, votes=True)
    heartbeat = HeartbeatRequest(group="G", remote_id="n0", local_id="n1", leader_id="n1", term=1)
    member.receive(1, heartbeat, "heartbeat")
    size = ENTRY_HEAD.size + len(BODY)
    entry = Entry(index=index, term=1, pos=pos, body=BODY, size=size, magic=ENTRY_MAGIC)
    push = PushRequest(
        group="G",
        remote_id="n0",
        local_id="n1",
        leader_id="n1",
        term=1,
        type=PushType.TRUNCATE,
        entry=entry,
    )
    member.receive(2, push, "truncate")
    answers = {each.token: each.body for each in member.take(2).answers}
    answer = answers["truncate"]
    assert isinstance(answer, PushResponse)
    assert answer.code == DledgerCode.SUCCESS
    assert (log.begin_index, log.end_index) == (index, index)
