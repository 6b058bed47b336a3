"""A slave asks its master for what is damaged in its own commit log, whoever found it: the scrub, a
pull, or the slave itself when it came.

Over a connection of its own to the port for slaves, in a thread, which ends before the service
does: the store is closed then. What comes has to prove itself (``store.replica.repair``). The wire
may have been wrong, or the master's disk: so a few times, further and further apart. That a master
could not be asked counts for nothing; but then it is asked where its log begins (its port for
slaves does not say why it closes): what lay in front has expired there, and nobody has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.errors import ConnectError
from ...remoting.outages import Outages, without_figures
from ...remoting.services import to_the_end
from ...remoting.transport.address import split_address
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError
from ...store.replica.log_fetch import LogStream, log_stream
from ...store.replica.repair import BESIDE, DamagedThereTooError, RepairError
from .damage_watch import Tries, keep_mended
from .door import LinkSecurity

log: Final = logging.getLogger(__name__)

_AT_ONCE: Final = 100


class SelfMending:
    """Service. ``master``: the address of its port for slaves, None while it is not followed;
    ``begin_of_log``: where the master's log begins, None where that cannot be told now."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        security: LinkSecurity,
        master: Callable[[], str | None],
        begin_of_log: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._outages: Final = Outages(clock)
        self._security: Final = security
        self._master: Final = master
        self._begin_of_log: Final = begin_of_log
        self._tries = Tries()
        self._asked: str | None = None
        """Who was, so often."""
        self._due: Final[deque[int]] = deque()
        """Places that are asked for in this turn."""
        self._stream: LogStream | None = None
        """That the thread reads."""
        self._ended = False

    async def run(self) -> None:
        """Until cancelled."""
        await keep_mended(self._store, self._clock, self.mend)

    async def mend(self) -> None:
        """Ask for what it is time for."""
        address = self._master()
        if address is None or not self._store.damage.places:
            return
        if address != self._asked:  # another one may have what the last one had not
            self._asked, self._tries = address, Tries()
        now, places = self._clock.monotonic(), self._store.damage.places
        self._due.clear()
        self._due.extend(self._tries.due(places, now))
        unheard: dict[int, int] = {}
        for _ in range(_AT_ONCE):
            if not self._due or self._master() != address:
                break  # the next turn asks whom there is then
            phy_offset = self._due.popleft()
            if (size := places.get(phy_offset)) is None:
                continue  # found meanwhile, beside one that was mended: the next turn has it
            last = self._tries.count(phy_offset, now)
            if not await self._mend(phy_offset, size, address, last=last):
                self._tries.was_unheard(phy_offset, now)
                unheard[phy_offset] = size
        if unheard:
            self._leave_expired(unheard, await self._begin_of_log())

    async def _mend(self, phy_offset: int, size: int, address: str, *, last: bool) -> bool:
        """Whether the master was heard, whatever it had."""
        fetch = asyncio.to_thread(
            self._store.fetch_again, phy_offset, size, partial(self._stream_from, address)
        )
        try:
            await to_the_end(fetch, hurry=self._abort)
            self._store.mended(phy_offset, size)
        except (StoreError, ConnectError) as error:
            heard = isinstance(error, RepairError)
            divided = isinstance(error, DamagedThereTooError) and self._divide(phy_offset, error)
            last = last and heard and not divided
            self._outages.occurs(
                log,
                ("mend", last, without_figures(str(error))),
                "a damaged record is not mended%s phy_offset=%d master=%s reason=%s",
                ", and not asked for again" if last else "", phy_offset, address, error,
                level=logging.ERROR if last else logging.WARNING,
            )  # fmt: skip
            return heard
        self._ask_beside(phy_offset - BESIDE, phy_offset + size + BESIDE)
        log.info(
            "a damaged record is mended phy_offset=%d size=%d master=%s", phy_offset, size, address
        )
        return True

    def _leave_expired(self, places: dict[int, int], begin: int | None) -> None:
        """What the master's log begins behind is waited for, and asked for, no more."""
        for phy_offset, size in places.items():
            if begin is not None and phy_offset + size <= begin:
                self._tries.give_up(phy_offset)
                self._store.damage.is_nowhere_intact(phy_offset)
                log.error(
                    "a damaged record cannot be mended, it has expired at the master "
                    "phy_offset=%d size=%d master_begins=%d",
                    phy_offset, size, begin,
                )  # fmt: skip

    def _divide(self, phy_offset: int, found: DamagedThereTooError) -> bool:
        """What the master has intact of it is asked for in the next turn; what it has not, readers
        of the master pass over as well. Whether there is anything intact."""
        if found.intact:
            self._store.damage.divide(phy_offset, {**found.intact, **found.damaged})
            for each in (phy_offset, *found.intact):
                self._tries.forget(each)
        for each in found.damaged:
            self._store.damage.is_nowhere_intact(each)
        return bool(found.intact)

    def _ask_beside(self, begin: int, end: int) -> None:
        """What lies there can be told by what is intact again: in this turn, as if for the first
        time. (Nothing lies in front of what the log begins with: of many there each is told by the
        one behind it.)"""
        for phy_offset, size in self._store.damage.places.items():
            if phy_offset <= end and begin <= phy_offset + size:
                self._tries.forget(phy_offset)
                if phy_offset not in self._due:
                    self._due.append(phy_offset)

    @contextlib.contextmanager
    def _stream_from(self, address: str, begin: int) -> Iterator[LogStream]:
        """In the thread. Raises ConnectError, ReplicationError."""
        security = self._security
        with log_stream(
            split_address(address), begin, secret=security.secret, tls=security.outbound
        ) as stream:
            self._stream = stream
            if self._ended:
                stream.abort()
            yield stream

    def _abort(self) -> None:
        self._ended = True
        if self._stream is not None:
            self._stream.abort()
