"""Where a follower's leader takes requests: what the leader itself says at the members' port, and
of one that does not say it (Java's) what the name servers say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.protocol.commands.route import RegisterBrokerResponse
from .slave_sync import SlaveSync

ASK_AGAIN_S: Final = 0.2
REGISTER_AGAIN_S: Final = 1.0


class FindLeader:
    """Service of a follower, begun anew with each leader: tells ``SlaveSync`` where it is."""

    def __init__(
        self,
        sync: SlaveSync,
        ask: Callable[[], Awaitable[str | None]],
        look_up: Callable[[], None],
        complain: Callable[[], None],
        clock: Clock,
    ) -> None:
        """``ask`` asks the leader: None, it has not answered; empty, it does not say. ``look_up``
        has name servers tell where the master is (``registered``). ``complain`` to the leader that
        one of them takes somebody else for it."""
        self._sync: Final = sync
        self._ask: Final = ask
        self._look_up: Final = look_up
        self._clock: Final = clock
        self._complain: Final = complain
        self._told: str | None = None
        """By a name server; empty: there is no master."""
        self._found: str | None = None
        """As the leader says; empty: it does not say, the name servers' word counts."""

    async def run(self) -> None:
        """Until cancelled."""
        self._sync.forget_master()
        self._told = self._found = None
        looked_up_at = self._clock.monotonic()
        while True:
            said = await self._ask()
            address = self._told if said == "" else said
            if address:
                self._sync.master_is(address)
                self._found = said
                self._compare(self._told)
                try:
                    await asyncio.Event().wait()
                finally:
                    self._found = None
            await self._clock.sleep(ASK_AGAIN_S)
            if said == "" and self._clock.monotonic() - looked_up_at >= REGISTER_AGAIN_S:
                looked_up_at = self._clock.monotonic()
                self._look_up()

    def registered(self, answer: RegisterBrokerResponse) -> None:
        """A name server says where the master is. It may say what a former leader told it that did
        not know yet that it was none any more: the present one would only register again within
        half a minute."""
        self._told = answer.master_addr or ""
        if self._found == "" and self._told:  # it may have been the last one's until now
            self._sync.master_is(self._told)
        self._compare(self._told)

    def _compare(self, told: str | None) -> None:
        if self._found and told is not None and told != self._found:
            self._complain()
