"""A master asks its slaves for what is damaged in its own commit log, whoever found it: the scrub,
a pull, or a start.

A slave has the record at the same place of its log, and tells it to who asks for the message of
that id (VIEW_MESSAGE_BY_ID; one of the original as well). It has to prove itself
(``store.replica.repair.put_record_back``). Readers wait until a slave has told it, as it may be
away for a moment, or its disk may: for ``PATIENCE_S``, where there is one, or may be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from ...remoting.clock import Clock
from ...remoting.errors import RocketMQError
from ...remoting.outages import Outages, without_figures
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.pull import NO_RECORD, ViewMessageRequest
from ...remoting.services import to_the_end
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.replica.repair import RepairError
from .damage_watch import UNHEARD_S, Tries, keep_mended

log: Final = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0
PATIENCE_S: Final = 60.0
"""So long readers wait while nobody tells anything, and so long a slave that was connected counts
as one that comes back. A group of consumers never gets what its members have passed over; but a
slave may be gone for good."""
_AT_ONCE: Final = 100


class MasterMending:
    """Service. ``slaves`` asks a name server for their addresses; ``connected``: one follows this
    master now; ``has_slave``: a SYNC_MASTER has one, which comes soon where it is away."""

    def __init__(
        self,
        store: MessageStore,
        remoting: RemotingClient,
        slaves: Callable[[], Awaitable[Collection[str]]],
        connected: Callable[[], bool],
        clock: Clock,
        *,
        has_slave: bool,
    ) -> None:
        self._store: Final = store
        self._remoting: Final = remoting
        self._slaves: Final = slaves
        self._connected: Final = connected
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._tries: Final = Tries()
        self._expected_until = clock.monotonic() + PATIENCE_S if has_slave else 0.0
        """A slave may come (back) until then."""
        self._alone_until = 0.0
        self._silent_since: float | None = None
        """Nobody has told anything since."""
        store.damage.is_watched = True

    async def run(self) -> None:
        """Until cancelled."""
        await keep_mended(self._store, self._clock, self.mend)

    async def mend(self) -> None:
        """Ask for what it is time for."""
        damage, now = self._store.damage, self._clock.monotonic()
        if self._connected():
            self._expected_until = now + PATIENCE_S
        if not damage.is_known:
            self._silent_since = None
        slaves: list[str] | None = None
        untold: set[int] = set()
        self._tries.tell(damage, now)
        for _ in range(_AT_ONCE):
            places = damage.places  # one that is mended in part leaves another one
            due = [each for each in self._tries.due(places, now) if each not in untold]
            if not due:
                return
            if slaves is None:
                slaves = await self._who_may_answer(now)
            for phy_offset in due if not slaves else due[:1]:
                self._tries.count(phy_offset, now)
                if await self._mend(phy_offset, places[phy_offset], slaves):
                    self._silent_since = None
                elif self._may_be_told(now):
                    untold.add(phy_offset)
                    self._tries.forget(phy_offset)
                    continue
                else:
                    self._tries.was_unheard(phy_offset, now)
                damage.is_asked_for(phy_offset)

    def _may_be_told(self, now: float) -> bool:
        """Of what nobody has told just now: readers wait until it was asked for once more."""
        if self._silent_since is None:
            self._silent_since = now
        return now >= self._alone_until and now - self._silent_since < PATIENCE_S

    async def _who_may_answer(self, now: float) -> list[str]:
        """Without any slave, or a name server that knows, not all who read wait for that answer."""
        if now < self._alone_until:
            return []
        slaves = sorted(await self._slaves())
        if not slaves and now >= self._expected_until:
            self._alone_until = now + UNHEARD_S
        return slaves

    async def _mend(self, phy_offset: int, size: int, slaves: list[str]) -> bool:
        """Whether somebody has told what he has; who has not answered is not among ``slaves`` any
        more."""
        told = False
        for slave in tuple(slaves):
            try:
                record = await self._ask(slave, phy_offset)
                told = True
                if record is not None and await self._put_back(phy_offset, size, record):
                    log.info(
                        "a damaged record is mended phy_offset=%d size=%d slave=%s",
                        phy_offset, len(record), slave,
                    )  # fmt: skip
                    return True
            except (RocketMQError, StoreError) as error:
                if isinstance(error, RocketMQError):
                    slaves.remove(slave)
                self._outages.occurs(
                    log,
                    ("mend", slave, without_figures(str(error))),
                    "a damaged record is not mended phy_offset=%d slave=%s reason=%s",
                    phy_offset, slave, error,
                )  # fmt: skip
        return told

    async def _ask(self, slave: str, phy_offset: int) -> bytes | None:
        """The record that a slave has there, None without one. Raises ``RocketMQError``."""
        request = ViewMessageRequest(offset=phy_offset)
        answer = await self._remoting.invoke(
            slave, RequestCode.VIEW_MESSAGE_BY_ID, request, timeout=TIMEOUT_S
        )
        if answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith(NO_RECORD):
            return None
        return bytes(answer.check(slave).body)

    async def _put_back(self, phy_offset: int, size: int, record: bytes) -> bool:
        """Whether it fits into the place. Raises StoreError."""
        left = size - len(record)
        if left < 0:
            return False
        places = {phy_offset: len(record), phy_offset + len(record): left}
        try:
            await to_the_end(asyncio.to_thread(self._store.put_record_back, phy_offset, record))
        except RepairError:
            if left:  # what lies behind it is asked for all the same
                self._store.damage.divide(phy_offset, places)
            raise
        if left:
            self._store.damage.divide(phy_offset, places)
        self._store.mended(phy_offset, len(record))
        return True
