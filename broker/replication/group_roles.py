"""Who a member of a group is to everybody else, and when that changes (class
DLedgerRoleChangeHandler; dledger.md §5.4).

==========  =========  ===========  ===============================================================
it          brokerId   brokerRole   it does
==========  =========  ===========  ===============================================================
undecided   -1         ASYNC_MASTER nothing: no name server is told of it, messages are refused
leads       0          SYNC_MASTER  what a master does, once all that its log has is committed
follows     number + 1 SLAVE        what a slave does: its tables come from the leader
==========  =========  ===========  ===============================================================

A member that has led or followed and does so no more is a slave without a master. What ends with
the leadership ends in the turn in which it is lost: from then on this broker answers as a slave.
What begins with it waits until it is certain. Unlike the original an undecided member is not
registered: there it is shown with the id -1 for up to 10 s. Where there is no majority at all it
is, after a while, with the id that it would follow with: administrators see it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from ...remoting.clock import Clock
from ...remoting.services import Service, run_services

log: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0


class Appearance(Protocol):
    """What others see of a broker's role. All of it changes in one turn of the loop."""

    def be_master(self) -> None:
        """From now on."""

    def be_slave(self) -> None:
        """From now on."""


class GroupRoles:
    """Service: does what the role of the member asks for."""

    def __init__(
        self,
        appearance: Appearance,
        ready: Callable[[], Awaitable[bool]],
        of_master: Sequence[Service],
        of_slave: Sequence[Service],
    ) -> None:
        """``ready`` waits until everything in the log is committed, and in its queues; False: this
        member does not lead any more. ``of_master``, ``of_slave`` run while it is one."""
        self._appearance: Final = appearance
        self._ready: Final = ready
        self._of_master: Final = of_master
        self._of_slave: Final = of_slave
        self._work: Callable[[], Awaitable[None]] = self._nothing
        self._changes = 0
        self._changed: Final = asyncio.Event()
        self.is_decided: bool = False
        """It has led or followed."""
        self.is_master: bool = False

    # -- what the election says; each takes effect before it returns, but a master's work begins
    # -- later

    def elected(self) -> None:
        """This member leads."""
        self._do(self._lead)

    def follows(self) -> None:
        """It follows somebody, or somebody else than before."""
        self._be_slave()
        self._do(self._follow)

    def alone(self) -> None:
        """It neither leads nor follows."""
        if self.is_decided:
            self._be_slave()
        self._do(self._nothing)

    def _be_slave(self) -> None:
        if self.is_master or not self.is_decided:
            self.is_decided, self.is_master = True, False
            self._appearance.be_slave()

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._changes += 1
        self._changed.set()

    # -- what it does

    async def run(self) -> None:
        """Until cancelled. One role's work has ended before the next one's begins."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                task = group.create_task(_awaited(self._work()))
                await self._changed.wait()
                task.cancel()
                await asyncio.wait((task,))

    async def _lead(self) -> None:
        changes = self._changes
        if not await self._ready() or self._changes != changes:
            return
        self.is_decided = self.is_master = True
        self._appearance.be_master()
        await run_services(*self._of_master)

    async def _follow(self) -> None:
        await run_services(*self._of_slave)

    async def _nothing(self) -> None:
        """Wait for what comes."""


async def _awaited(work: Awaitable[None]) -> None:
    await work


class LongUndecided:
    """Service: has a member known to name servers that has found no leader for ``PATIENCE_S``."""

    def __init__(self, roles: GroupRoles, be_known: Callable[[], None], clock: Clock) -> None:
        """``be_known``: as a follower, which it still is not."""
        self._roles: Final = roles
        self._be_known: Final = be_known
        self._clock: Final = clock

    async def run(self) -> None:
        """Until cancelled."""
        await self._clock.sleep(PATIENCE_S)
        if not self._roles.is_decided:
            log.warning(
                "no member leads: is there a majority of them? Known to name servers as a follower"
            )
            self._be_known()
        await asyncio.Event().wait()
