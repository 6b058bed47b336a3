"""Groups that elect their master: who leads, how far everybody is, and who is to lead.

Brokers of ours tell it among their figures (28) and take the wish for another leader at their usual
port. Those of the original tell nothing there: what they have configured (26) says where their
DLedger port is, which anybody may ask (dledger.md §2.4, §2.8, §3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from ...remoting.errors import ProtocolError, RemotingError, RocketMQError
from ...remoting.protocol.bodies.codec import BodyError
from ...remoting.protocol.bodies.dledger import (
    DledgerBody,
    DledgerCode,
    MetadataRequest,
    MetadataResponse,
    TransferRequest,
    TransferResponse,
    VoteRequest,
    VoteResponse,
    decode_dledger,
    encode_dledger,
)
from ...remoting.protocol.codes import RequestCode
from ..errors import ConfigError
from .brokers import BrokerOperations

B = TypeVar("B", bound=DledgerBody)

_ASKED: Final = {
    MetadataRequest: RequestCode.DLEDGER_METADATA,
    VoteRequest: RequestCode.DLEDGER_VOTE,
    TransferRequest: RequestCode.DLEDGER_LEADERSHIP_TRANSFER,
}


class LeadershipError(RocketMQError):
    """Leadership of a group stays where it is; the text says why."""


class RaftMember(NamedTuple):
    """What a broker of a group says; ``None``: one of the original does not tell."""

    group: str
    member: str
    """Its id in the group."""
    address: str
    """Of the broker."""
    role: str
    term: int
    leader: str | None
    """None: it knows none."""
    begin_index: int | None = None
    end_index: int | None = None
    committed_index: int | None = None
    votes: bool | None = None
    """False: it has lost entries, and votes again when it has caught up."""
    lags: Mapping[str, int] = {}
    """Of a leader: how many entries the others are behind."""
    old_log_end: int | None = None
    """Where its commit log from before the group ends; 0: it has none."""
    old_log_differs: bool = False
    """That is not its leader's."""


class RaftOperations(BrokerOperations):
    async def raft_member(self, address: str) -> RaftMember:
        """Raises ``ConfigError`` for a broker that belongs to no group."""
        figures = await self.broker_runtime_info(address)
        if "raftGroup" in figures:
            return _from_figures(address, figures)
        group = await self._java_group(address)
        leader = await self._java_leader(group)
        role = "leader" if leader == group.self_id else "follower" if leader else "candidate"
        term = await self._java_term(group, group.self_id)
        return RaftMember(group.name, group.self_id, address, role, term, leader)

    async def transfer_leader(self, address: str, to: str | None = None) -> str:
        """Have another member lead: ``to``, by default the one that is furthest. ``address`` is the
        leader's broker, of the original's any broker of the group. Returns who leads then as far as
        is known. Raises ``ConfigError``, ``LeadershipError``."""
        figures = await self.broker_runtime_info(address)
        if "raftGroup" in figures:
            wish = encode_dledger(TransferRequest(transferee_id=to))
            await self._invoke(address, RequestCode.DLEDGER_LEADERSHIP_TRANSFER, body=wish)
            return to or (await self.raft_member(address)).leader or "another member"
        group = await self._java_group(address)
        leader = await self._java_leader(group)
        if leader is None:
            raise LeadershipError(f"nobody leads the group {group.name} now: try again later")
        if to == leader:
            raise LeadershipError(f"{to} leads the group {group.name} already")
        to = to or next((each for each in group.peers if each != leader), leader)
        answer = await self._ask_member(
            group,
            leader,
            TransferRequest(
                group=group.name,
                remote_id=leader,
                transfer_id=leader,
                transferee_id=to,
                term=await self._java_term(group, leader),
            ),
            TransferResponse,
        )
        if answer.code != DledgerCode.SUCCESS:
            raise LeadershipError(f"{leader} still leads: it answers code {answer.code}")
        return to

    # --- members of the original

    async def _java_group(self, address: str) -> _JavaGroup:
        config = await self.broker_config(address)
        peers, self_id = config.get("dLegerPeers", ""), config.get("dLegerSelfId", "")
        if config.get("enableDLegerCommitLog") != "true" or not peers or not self_id:
            raise ConfigError(
                f"{address} belongs to no group that elects its master: it has no "
                "enableDLegerCommitLog=true"
            )
        members = dict(entry.strip().split("-", 1) for entry in peers.split(";") if "-" in entry)
        return _JavaGroup(config.get("dLegerGroup", ""), self_id, members)

    async def _java_leader(self, group: _JavaGroup) -> str | None:
        """Whoever can be asked is."""
        for member in (group.self_id, *group.peers):
            request = MetadataRequest(group=group.name, remote_id=member)
            try:
                answer = await self._ask_member(group, member, request, MetadataResponse)
            except RemotingError:
                continue
            if answer.leader_id is not None:
                return answer.leader_id
        return None

    async def _java_term(self, group: _JavaGroup, member: str) -> int:
        """It tells its term when it refuses a vote. One for a term that was before all others, by
        a log that has nothing, changes nothing (dledger.md §3.4)."""
        other = next((each for each in group.peers if each != member), member)
        request = VoteRequest(group=group.name, remote_id=member, leader_id=other)
        return (await self._ask_member(group, member, request, VoteResponse)).term

    async def _ask_member(
        self, group: _JavaGroup, member: str, request: DledgerBody, kind: type[B]
    ) -> B:
        """Raises ``ConfigError``, ``LeadershipError``, ``RemotingError``."""
        address = group.peers.get(member)
        if address is None:
            raise ConfigError(f"{member} is no member of the group {group.name}")
        code, timeout = _ASKED[type(request)], self.instance.request_timeout
        answer = await self.instance.remoting.invoke(
            address, code, None, encode_dledger(request), timeout=timeout
        )
        try:
            return decode_dledger(kind, answer.body)
        except BodyError as error:
            raise LeadershipError(f"{address}: {answer.remark or error}") from None


class _JavaGroup(NamedTuple):
    """What a broker has configured; ``peers``: addresses of DLedger ports by id."""

    name: str
    self_id: str
    peers: dict[str, str]


def _from_figures(address: str, figures: Mapping[str, str]) -> RaftMember:
    """Raises ``ProtocolError`` where a figure is no number."""

    def number(name: str) -> int:
        try:
            return int(figures.get(name, "-1"))
        except ValueError:
            raise ProtocolError(
                f"{address} says {name}={figures[name][:40]!r}, which is no number"
            ) from None

    lag = "raftLag_"
    return RaftMember(
        figures.get("raftGroup", ""),
        figures.get("raftMember", ""),
        address,
        figures.get("raftRole", ""),
        number("raftTerm"),
        figures.get("raftLeader") or None,
        number("raftBeginIndex"),
        number("raftEndIndex"),
        number("raftCommittedIndex"),
        figures.get("raftVotes") == "true",
        {name.removeprefix(lag): number(name) for name in figures if name.startswith(lag)},
        number("raftOldLogEnd") if figures.get("raftOldLogEnd") else None,
        figures.get("raftOldLogDiffers") == "true",
    )
