"""Who somebody is and what they may do: reading where neither token nor account is asked for,
everything else after signing in; changes only where the console was started for them."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ..remoting.errors import RocketMQError
from ..remoting.services import TaskSet
from ..remoting.signature import Credentials
from .cluster import ClusterView
from .sessions import Session, Sessions, same
from .settings import ConsoleSettings
from .views import NotAllowed, Views


class SignInNeededError(RocketMQError):
    """Nobody is signed in who may do this."""


class ForbiddenError(RocketMQError):
    """Signing in would not help; the text says what would."""


class TooManyAttempts(NotAllowed):
    """Signing in was not looked at."""


class Person(NamedTuple):
    """Who asks, and the cluster as they see it."""

    session: Session | None
    view: ClusterView
    may_change: bool

    @property
    def name(self) -> str:
        return self.session.name if self.session is not None else "anybody"

    @property
    def csrf(self) -> str:
        return self.session.csrf if self.session is not None else ""


class Door:
    """Lets people in, and sees them out, until ``close``."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, views: Views) -> None:
        self.settings: Final = settings
        self.sessions: Final = sessions
        self._views = views
        self._tasks = TaskSet("console-door")
        self._seeing_out: asyncio.Task[None] | None = None
        self.cookie = "mqconsole"
        """Browsers keep one jar for all ports of a host: the port is part of the name."""

    async def close(self) -> None:
        await self._tasks.close()

    async def enter(self, request: Request, *, use: bool = True) -> Person:
        """Raises ``SignInNeededError``. ``use``: somebody does something, the page does not only
        ask by itself."""
        acl = await self._views.acl_is_on()
        # From here to its view nothing is awaited: none is opened for a session that has ended.
        session = self.sessions.find(request.cookies.get(self.cookie), use=use)
        if acl and (session is None or session.credentials is None):
            raise SignInNeededError("the brokers ask for an account: sign in with yours")
        if self.settings.token_to_read and (session is None or not session.has_token):
            raise SignInNeededError("this console asks for its token")
        credentials = session.credentials if session is not None else None
        may_change = self.settings.allow_changes and session is not None
        return Person(session, await self._views.of(credentials), may_change)

    async def enter_to_change(self, request: Request) -> Person:
        """Raises ``ForbiddenError``, ``SignInNeededError``."""
        if not self.settings.allow_changes:
            raise ForbiddenError("this console only reads: start it with --allow-changes")
        person = await self.enter(request)
        if person.session is None:
            raise SignInNeededError("changes are made by who has signed in")
        return person

    def check(self, person: Person, csrf: str) -> None:
        """Raises ``ForbiddenError`` for a form that a page of the person's did not have."""
        if not csrf or not same(csrf, person.csrf):
            raise ForbiddenError("the form is not of this session: load the page again")

    # --- signing in and out
    # ----------------------------------------------------------------------------------------------

    async def wants(self) -> tuple[bool, bool]:
        """Whether signing in takes the token, and an account."""
        acl = await self._views.acl_is_on()
        return self.settings.token is not None and (self.settings.token_to_read or not acl), acl

    async def sign_in(self, token: str, access_key: str, secret_key: str) -> Session:
        """Raises ``NotAllowed`` with the reason, which never tells a secret."""
        wants_token, wants_account = await self.wants()
        if not wants_token and not wants_account:
            raise NotAllowed("there is nothing to sign in to: no token, no accounts")
        if not self.sessions.may_try():
            raise TooManyAttempts("too many failed attempts: wait a minute")
        failed = False
        try:
            if wants_token and not same(token, self.settings.token or ""):
                raise NotAllowed("that is not the token of this console")
            credentials = await self._credentials(wants_account, access_key, secret_key)
        except NotAllowed:
            failed = True
            raise
        finally:
            if not failed:
                self.sessions.forgive()
        session = self.sessions.begin(credentials, has_token=wants_token)
        self._views.keep(self.sessions.accounts())  # without who had to make room
        if self._seeing_out is None or self._seeing_out.done():
            self._seeing_out = self._tasks.spawn(self._see_out())
        return session

    async def _see_out(self) -> None:
        """A secret goes with its last session, whether anybody comes or not."""
        while len(self.sessions):
            await self.sessions.first_due()
            self._views.keep(self.sessions.accounts())

    async def _credentials(
        self, wanted: bool, access_key: str, secret_key: str
    ) -> Credentials | None:
        if not wanted:
            return None
        if not access_key or not secret_key:
            raise NotAllowed("the brokers ask for an account: access key and secret key")
        credentials = Credentials(access_key, secret_key)
        await self._views.check(credentials)
        return credentials

    def give_cookie(self, request: Request, response: Response, session: Session) -> None:
        response.set_cookie(
            self.cookie,
            session.key,
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    async def sign_out(self, session: Session) -> None:
        self.sessions.end(session)
        self._views.keep(self.sessions.accounts())
