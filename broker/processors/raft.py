"""Leadership of a group, for administrators: 51005 at a broker's usual port, where ACL and TLS are
those of all requests; members among themselves have a port of their own (``broker/raft``)."""

from __future__ import annotations

from typing import Final, Protocol

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import BodyError
from ...remoting.protocol.bodies.dledger import (
    DledgerCode,
    TransferRequest,
    TransferResponse,
    decode_dledger,
    encode_dledger,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.wire import NoFields

_REASONS: Final = {
    DledgerCode.UNKNOWN_MEMBER: "{to} is no other member of the group",
    DledgerCode.NOT_LEADER: "this member does not lead, {leader} does: ask its broker",
    DledgerCode.FALL_BEHIND_TOO_MUCH: "{to} is too far behind: wait until raftStatus shows less; "
    "or it has less of the commit log from before the group: see there",
    DledgerCode.LEADER_TRANSFERRING: "leadership is on its way to another member already",
    DledgerCode.TAKE_LEADERSHIP_FAILED: "{to} has not caught up, cannot store messages, or was not "
    "elected in time",
}


class Leadership(Protocol):
    """The node, as far as this is concerned."""

    @property
    def leader_id(self) -> str | None: ...
    async def transfer(self, to: str | None) -> TransferResponse:
        """Have another member lead; None: whoever is furthest."""


class RaftProcessor:
    """``transfereeId`` of the body is who is to lead; without it the member that is furthest."""

    def __init__(self, node: Leadership) -> None:
        self._node = node

    @property
    def table(self) -> ProcessorTable:
        return {RequestCode.DLEDGER_LEADERSHIP_TRANSFER: self.transfer}

    async def transfer(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        try:
            to = decode_dledger(TransferRequest, body).transferee_id if body else None
        except BodyError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        answer = await self._node.transfer(to)
        if answer.code != DledgerCode.SUCCESS:
            raise RequestError(ResponseCode.SYSTEM_ERROR, self._reason(answer.code, to))
        return Reply(body=encode_dledger(answer))

    def _reason(self, code: int, to: str | None) -> str:
        if code not in DledgerCode._value2member_map_:
            return f"leadership was not handed over (code {code})"
        name = DledgerCode(code)
        if name is DledgerCode.UNKNOWN_MEMBER and to is not None and to == self._node.leader_id:
            return f"{to} leads the group already"
        text = _REASONS.get(name, f"leadership was not handed over ({name.name})")
        return text.format(to=to or "the other member", leader=self._node.leader_id or "nobody")
