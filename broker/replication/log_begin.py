"""A slave asks its master where the master's commit log begins: what lay in front has expired
there."""

from __future__ import annotations

from typing import Final

from ...remoting.protocol.bodies.codec import decode_body
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.wire import NoFields
from ...remoting.transport.client import RemotingClient

TIMEOUT_S: Final = 3.0
_MOST_DIGITS: Final = 19


async def ask_where_log_begins(remoting: RemotingClient, master: str) -> int | None:
    """A physical offset; None where it does not say. A broker of the original tells it, too, in
    what it tells of itself (``commitLogMinOffset``). Raises ``RocketMQError``, ``BodyError``."""
    response = await remoting.invoke(
        master, RequestCode.GET_BROKER_RUNTIME_INFO, NoFields(), timeout=TIMEOUT_S
    )
    told = decode_body(KVTable, response.check(master).body).table.get("commitLogMinOffset", "")
    is_number = told.isascii() and told.isdigit() and len(told) <= _MOST_DIGITS
    return int(told) if is_number else None
