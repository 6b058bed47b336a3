"""Leadership as administrators change it, and what a member tells of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiorocketmq.broker.processors.raft import RaftProcessor
from aiorocketmq.broker.raft.figures import figures
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerCode,
    TransferRequest,
    TransferResponse,
    decode_dledger,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.wire import NoFields

from .world import PEERS, Group, Sends


class Node:
    """Answers with one code."""

    leader_id = "n2"

    def __init__(self, code: int) -> None:
        self.code = code
        self.wanted: list[str | None] = []

    async def transfer(self, to: str | None) -> TransferResponse:
        self.wanted.append(to)
        return TransferResponse(code=self.code)


def call(node: Node, body: bytes) -> Any:
    ctx: Any = None
    return asyncio.run(RaftProcessor(node).transfer(NoFields(), body, ctx))


def test_the_wish_is_passed_on() -> None:
    node = Node(200)
    reply = call(node, encode_dledger(TransferRequest(transferee_id="n1")))
    assert (reply.code, decode_dledger(TransferResponse, reply.body).code) == (0, 200)
    call(node, b"")
    assert node.wanted == ["n1", None]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (DledgerCode.NOT_LEADER, "this member does not lead, n2 does"),
        (DledgerCode.UNKNOWN_MEMBER, "n1 is no other member of the group"),
        (DledgerCode.FALL_BEHIND_TOO_MUCH, "n1 is too far behind"),
        (DledgerCode.TIMEOUT, r"not handed over \(TIMEOUT\)"),
        (999, r"not handed over \(code 999\)"),
    ],
)
def test_what_came_of_it_is_told_in_words(code: int, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        call(Node(code), encode_dledger(TransferRequest(transferee_id="n1")))


def test_who_leads_already_is_told_so() -> None:
    wish = encode_dledger(TransferRequest(transferee_id=Node.leader_id))
    with pytest.raises(RequestError, match=r"^n2 leads the group already$"):
        call(Node(DledgerCode.UNKNOWN_MEMBER), wish)


def test_what_is_no_wish_is_refused() -> None:
    with pytest.raises(RequestError, match="TransferRequest"):
        call(Node(200), b"{")


def test_a_leader_tells_how_far_the_others_are_behind() -> None:
    async def main() -> None:
        group = Group()
        try:
            group.start()
            leader, sends = await group.leader(), Sends()
            sends.send(leader, b"1")
            await group.until(lambda: all(len(s.bodies) == 1 for s in group.stores.values()))
            told = figures(leader.node)
            others = [peer for peer in PEERS if peer != leader.id]
            assert {key: text for key, text in told.items() if "Lag" in key} == {
                f"raftLag_{peer}": "0" for peer in others
            }
            assert (told["raftRole"], told["raftLeader"]) == ("leader", leader.id)
            assert (told["raftEndIndex"], told["raftCommittedIndex"]) == ("0", "0")
            assert (told["raftTerm"], told["raftVotes"]) == (str(leader.node.term), "true")
            assert int(told["raftElections"]) > 0
            follower = figures(group.members[others[0]].node)
            assert follower["raftRole"] == "follower"
            assert not any("Lag" in key for key in follower)
        finally:
            await group.close()

    asyncio.run(main())
