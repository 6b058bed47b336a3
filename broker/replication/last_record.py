"""The first question of a slave to its master: has it the slave's last record? With the answer a
master of ours tells its word for the tables (``table_states``), and where its log ends."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import ViewMessageRequest, ViewMessageResponse
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.replica.repair import are_the_same

TIMEOUT_S: Final = 3.0


class FirstAnswer(NamedTuple):
    """What comes of it."""

    lacks: str
    """Why the master's log does not go on from the last record of this one; empty: it does."""
    tables: str | None
    """The master's word for its tables, where it has one."""
    log_end: int | None = None
    """Where the master's log ended, if it tells."""
    was_asked: bool = True
    """False: this log has no record that could be asked for."""


async def ask_for_last_record(
    store: MessageStore, remoting: RemotingClient, master: str
) -> FirstAnswer:
    """Its body may be damaged at one of both. Raises ``RocketMQError`` when the master cannot be
    asked."""
    last = store.replica.last_record()
    if last is None:
        return FirstAnswer("", None, was_asked=False)
    phy_offset, record = last
    response = await remoting.invoke(
        master,
        RequestCode.VIEW_MESSAGE_BY_ID,
        ViewMessageRequest(offset=phy_offset, tables=True),
        timeout=TIMEOUT_S,
    )
    if response.code == ResponseCode.SUCCESS and are_the_same(
        record, bytes(response.body), phy_offset
    ):
        told: ViewMessageResponse = response.header
        return FirstAnswer("", told.tables, told.log_end)
    if response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
        response.check(master)
    found = "has another one there" if response.code == ResponseCode.SUCCESS else "does not have it"
    what = f"the last record of this slave, at {phy_offset}"
    return FirstAnswer(f"{what}, is not the master's: {master} {found}", None)
