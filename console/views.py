"""A view of the cluster for each account that is signed in, and one for everybody where the cluster
asks for no account. The console itself has no rights: it signs as the person who looks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from typing import Final

from ..client.admin import Admin
from ..remoting.clock import Clock
from ..remoting.errors import BrokerError, RocketMQError
from ..remoting.protocol.codes import ResponseCode
from ..remoting.services import TaskSet
from ..remoting.signature import Credentials
from .cached import Cached
from .cluster import ClusterView
from .settings import ConsoleSettings

REQUEST_TIMEOUT_S: Final = 3.0


def is_acl_refusal(error: BrokerError) -> bool:
    """Whether a broker turns down the account, or who has none (remoting.md, ACL). The original
    gives most refusals the code of any failure: its remark tells."""
    return error.code == ResponseCode.NO_PERMISSION or (
        error.code == ResponseCode.SYSTEM_ERROR and "AclException" in (error.remark or "")
    )


class NotAllowed(RocketMQError):
    """An account cannot sign in; the text says why."""


class Views:
    """All of them, until ``close``."""

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._open: dict[Credentials | None, ClusterView] = {}
        self._tasks = TaskSet("console-views")
        self._leaving = TaskSet("console-views-leaving")
        self._closing: Final[set[asyncio.Task[None]]] = set()
        """Of those that are left: ``close`` waits for them, and cancels none."""
        self._acl = False
        self._acl_looked: Final = Cached(self._look_for_acl, 20.0, clock, self._tasks)

    async def close(self) -> None:
        """Close all connections."""
        await self._tasks.close()
        while self._open or self._closing:
            for credentials in list(self._open):
                self._let_go(credentials)
            await asyncio.wait(self._closing)

    async def of(self, credentials: Credentials | None) -> ClusterView:
        """The view of an account; ``None``: unsigned."""
        view = self._open.get(credentials)
        if view is None:
            view = self._open[credentials] = ClusterView(self._admin(credentials), self._clock)
            await view.__aenter__()
        return view

    def keep(self, accounts: Collection[Credentials]) -> None:
        """Let go the views of accounts that nobody is signed in with: there are no more than
        sessions. They close behind that, nobody's page waits for it."""
        for credentials in list(self._open):
            if credentials is not None and credentials not in accounts:
                self._let_go(credentials)

    def _let_go(self, credentials: Credentials | None) -> None:
        view = self._open.pop(credentials)
        task = self._leaving.spawn(view.__aexit__(None, None, None), name="console-view-closes")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _admin(self, credentials: Credentials | None) -> Admin:
        return Admin(
            namesrv=self._settings.namesrv,
            credentials=credentials,
            tls=self._settings.tls,
            request_timeout=REQUEST_TIMEOUT_S,
        )

    # --- access control
    # ----------------------------------------------------------------------------------------------

    async def acl_is_on(self) -> bool:
        """Whether brokers ask for an account. Once one did, this stays so."""
        if not self._acl:
            try:
                await self._acl_looked.get()
            except RocketMQError:
                pass  # nobody can be asked: there is nothing to read either
        return self._acl

    async def _look_for_acl(self) -> None:
        view = await self.of(None)
        found, _ = await view.ask_each(self._asks_for_account, await view.masters())
        self._acl = self._acl or any(found.values())

    async def _asks_for_account(self, address: str) -> bool:
        """A broker with ACL refuses who does not sign; one that lets this machine in all the same
        tells the versions of its accounts, which others have not."""
        admin = (await self.of(None)).admin
        try:
            await admin.broker_runtime_info(address)
        except BrokerError as error:
            if not is_acl_refusal(error):
                raise
            return True
        try:
            await admin.acl_version(address)
        except BrokerError:
            return False
        return True

    async def check(self, credentials: Credentials) -> None:
        """Raises ``NotAllowed`` for an account that no broker vouches for: every one that does not
        take a wrong secret has to take this one, and to say so: no answer is no yes."""
        view = await self.of(None)
        addresses = await view.masters()
        wrong = Credentials(credentials.access_key, secrets.token_hex(16))
        refused, _ = await self._refusals(wrong, addresses)
        if not refused:
            raise NotAllowed(
                "no broker looks at the secret of this account: none can be asked, ACL is off, or "
                "they let this machine in by its address (a white address), which the console's "
                "must not be where people sign in to it"
            )
        turned_down, silent = await self._refusals(credentials, refused)
        for why in turned_down.values():
            raise NotAllowed(why)
        for address, why in silent.items():
            raise NotAllowed(f"{address} could not be asked, try again: {why}")

    async def _refusals(
        self, credentials: Credentials, addresses: Collection[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Those that turn it down, and those that could not be asked, with the reasons. Every
        broker has its own table of accounts; any account that is right may ask this."""
        async with ClusterView(self._admin(credentials), self._clock) as tried:

            async def refusal(address: str) -> str:
                try:
                    await tried.admin.broker_runtime_info(address)
                except BrokerError as error:
                    if not is_acl_refusal(error):
                        raise
                    return str(error)
                return ""

            told, silent = await tried.ask_each(refusal, addresses)
        return {address: why for address, why in told.items() if why}, silent
