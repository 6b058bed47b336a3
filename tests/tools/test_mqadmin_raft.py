"""Groups that elect their master, as ``mqadmin`` sees those of the original: their brokers tell
nothing, their DLedger ports are asked. (Groups of ours: tests/e2e/test_raft_port.py.)"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.dledger import (
    DledgerBody,
    MetadataRequest,
    MetadataResponse,
    TransferRequest,
    TransferResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
    decode_dledger,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.admin import GetBrokerConfigResponse
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.server import RemotingServer

from .conftest import MqAdmin

TERM = 7


class JavaGroup:
    """Broker n1 and the DLedger ports of all three, on one port."""

    def __init__(self) -> None:
        self.leader: str | None = "n0"
        self.transfer_code = 200
        self.transfers: list[TransferRequest] = []
        self.votes: list[VoteRequest] = []
        self.member = True
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> JavaGroup:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _run(self) -> None:
        async def serve() -> None:
            server = RemotingServer(
                Dispatcher(
                    {
                        RequestCode.GET_BROKER_RUNTIME_INFO: self._figures,
                        RequestCode.GET_BROKER_CONFIG: self._config,
                        RequestCode.DLEDGER_METADATA: self._metadata,
                        RequestCode.DLEDGER_VOTE: self._vote,
                        RequestCode.DLEDGER_LEADERSHIP_TRANSFER: self._transfer,
                    }
                ),
                ServerSettings(host="127.0.0.1", port=0),
                clock=SystemClock(),
            )
            await server.listen()
            self.port = server.port
            self._listening.set()
            await server.run()

        async def main() -> None:
            self._task = asyncio.ensure_future(serve())
            await asyncio.wait([self._task])

        self._loop.run_until_complete(main())
        self._loop.close()

    def _figures(self, _request: Any, _body: Body, _ctx: Context) -> Reply:
        return Reply(body=encode_body(KVTable(table={"brokerVersionDesc": "V4_9_8"})))

    def _config(self, _request: Any, _body: Body, _ctx: Context) -> Reply:
        peers = ";".join(f"n{number}-{self.address}" for number in range(3))
        lines = f"dLegerGroup=RaftG\ndLegerPeers={peers}\ndLegerSelfId=n1\n"
        lines += f"enableDLegerCommitLog={str(self.member).lower()}\n"
        return Reply(header=GetBrokerConfigResponse(version="{}"), body=lines.encode())

    def _metadata(self, _request: Any, body: Body, _ctx: Context) -> Reply:
        asked = decode_dledger(MetadataRequest, body)
        return _answer(MetadataResponse(group=asked.group, leader_id=self.leader))

    def _vote(self, _request: Any, body: Body, _ctx: Context) -> Reply:
        self.votes.append(decode_dledger(VoteRequest, body))
        result = VoteResult.REJECT_EXPIRED_LEDGER_TERM
        return _answer(VoteResponse(term=TERM, vote_result=result))

    def _transfer(self, _request: Any, body: Body, _ctx: Context) -> Reply:
        self.transfers.append(decode_dledger(TransferRequest, body))
        return _answer(TransferResponse(code=self.transfer_code, term=TERM))


def _answer(body: DledgerBody) -> Reply:
    return Reply(200, body=encode_dledger(body))


@pytest.fixture
def group() -> Iterator[JavaGroup]:
    with JavaGroup() as started:
        yield started


def test_a_member_of_the_original_is_asked_at_its_own_port(
    mqadmin: MqAdmin, group: JavaGroup
) -> None:
    for leader, role, shown in (("n0", "follower", "n0"), ("n1", "leader", "n1"), (None, "", "-")):
        group.leader = leader
        printed = mqadmin("raftStatus", "-n", group.address, "-b", group.address)
        assert (printed.code, printed.err) == (0, "")
        cells = printed.out.splitlines()[1].split()
        assert cells[:6] == ["RaftG", "n1", group.address, role or "candidate", str(TERM), shown]
        assert cells[6:9] == ["-", "-", "-"]
    vote = group.votes[-1]
    assert (vote.term, vote.ledger_end_term, vote.ledger_end_index) == (-1, -1, -1)
    assert vote.leader_id != vote.remote_id, "a member that is asked for its own vote is no voter"


def test_leadership_of_the_original_goes_to_another_member(
    mqadmin: MqAdmin, group: JavaGroup
) -> None:
    call = ("transferLeader", "-n", group.address, "-b", group.address)
    printed = mqadmin(*call, "-t", "n2")
    assert printed == (0, "leadership of RaftG goes to n2\n", "")
    assert mqadmin(*call).out == "leadership of RaftG goes to n1\n"
    first, second = group.transfers
    assert (first.remote_id, first.transfer_id, first.transferee_id) == ("n0", "n0", "n2")
    assert (first.group, first.term, second.transferee_id) == ("RaftG", TERM, "n1")
    group.transfer_code = 417
    assert mqadmin(*call).problem == "mqadmin transferLeader: n0 still leads: it answers code 417"
    already = mqadmin(*call, "-t", "n0")
    assert already.problem == "mqadmin transferLeader: n0 leads the group RaftG already"
    group.leader = None
    assert "nobody leads the group RaftG" in mqadmin(*call).problem


def test_who_belongs_to_no_group_says_so(mqadmin: MqAdmin, group: JavaGroup) -> None:
    group.member = False
    printed = mqadmin("raftStatus", "-n", group.address, "-b", group.address)
    assert printed.code == 1
    assert "belongs to no group that elects its master" in printed.err
