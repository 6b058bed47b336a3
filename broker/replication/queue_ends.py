"""A replica asks another one where the queues end of which its own log has nothing
(``gone_queues``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ...remoting.errors import RocketMQError
from ...remoting.protocol.bodies.codec import BodyError, decode_body
from ...remoting.protocol.bodies.consumer_offsets import QueueEndTable
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.offset import QueueEndsRequest
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError

log: Final = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0


async def take_queue_ends(
    store: MessageStore, remoting: RemotingClient, address: str, is_current: Callable[[], bool]
) -> bool:
    """They are on the disk when it returns; False: not all of them, for what was asked for does not
    count any more (``is_current``). A broker of the original does not know them: that is all that
    can be had. Others have a turn after each. Raises ``RocketMQError``, ``BodyError``,
    ``StoreError``."""
    response = await remoting.invoke(
        address,
        RequestCode.GET_QUEUE_ENDS,
        QueueEndsRequest(begin=store.min_phy_offset),
        timeout=TIMEOUT_S,
    )
    if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return is_current()
    table = decode_body(QueueEndTable, response.check(address).body).end_table
    taken = 0
    for topic, queues in table.items():
        for queue_id, end in queues.items():
            if not is_current():
                return False
            if store.gone_queues.take(topic, queue_id, end):
                taken += 1
                await asyncio.sleep(0)
    if taken:
        log.info(
            "the numbers of %d queues of which nothing is left were told by %s", taken, address
        )
    if table and not await store.sync():  # also what was taken before: it may not be there yet
        raise StoreError("where queues end was told, and cannot be put on the disk")
    return True


async def note_numbers(store: MessageStore, known: Callable[[], bool]) -> None:
    """In the marker of a member. Raises ``StoreError``."""
    if store.raft is not None and store.raft.files.knows_numbers != known():
        await asyncio.to_thread(store.raft.files.save_numbers, known)


async def take_from_others(
    store: MessageStore,
    remoting: RemotingClient,
    addresses: Iterable[Awaitable[str | None]],
    is_current: Callable[[], bool],
) -> None:
    """A member leads that does not know them, and takes no messages yet: all that others know.
    What nobody knows now begins at 0 again. Raises ``StoreError``."""

    async def take_from(address: Awaitable[str | None]) -> bool:
        try:
            known = await address
            return known is not None and await take_queue_ends(store, remoting, known, is_current)
        except (RocketMQError, BodyError) as error:
            log.warning("a member does not tell where its queues end: %s", error)
            return False

    told = sum(await asyncio.gather(*map(take_from, addresses)))
    if not told:
        log.error(
            "the log of this member, which leads now, began anew, and no other member tells where "
            "the queues ended of which nothing is left: their numbers begin at 0 again"
        )
