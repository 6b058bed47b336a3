"""What all pages have in common: who may see them, the frame around them, forms, live parts, and
what they look like when the cluster refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..remoting.errors import RocketMQError
from .audit import AuditLog
from .cluster import ClusterView
from .door import Door, ForbiddenError, Person, SignInNeededError
from .live import Live, Parts, TooManyStreamsError
from .rendering import Templates, link

MOST_FIELDS: Final = 2000
MOST_BODY_BYTES: Final = 4 << 20
"""Of a form: a body of 1 MiB as it is encoded."""
FORM_S: Final = 30.0
LONGEST_NAME: Final = 300
"""A topic has 127 characters at most, a group 255, in front of which stands ``%RETRY%``."""


class BadFormError(RocketMQError):
    """A form, or what stands in an address, cannot be used; the text says why."""


class Form:
    """The fields of a form or of an address."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """Without blanks around it."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        return next((value for field, value in self._fields if field == name), default)

    def all(self, name: str) -> list[str]:
        return [value for field, value in self._fields if field == name]

    def needed(self, name: str) -> str:
        """Raises ``BadFormError`` where it is missing, or longer than a name can be: answers are
        kept by name."""
        value = self.text(name)
        if not value:
            raise BadFormError(f"{name} is missing")
        if len(value) > LONGEST_NAME:
            raise BadFormError(f"{name} has more than {LONGEST_NAME} characters")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Raises ``BadFormError`` for what is no whole number."""
        text = self.text(name)
        if not text and default is not None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise BadFormError(f"{name} is a whole number, not {text[:40]!r}")
        return int(text)


def query_of(request: Request) -> Form:
    return Form(list(request.query_params.multi_items()))


async def form_of(request: Request, most_bytes: int = MOST_BODY_BYTES) -> Form:
    """Raises ``BadFormError``."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadFormError("a form comes as application/x-www-form-urlencoded")
    try:
        async with asyncio.timeout(FORM_S):
            text = (await _body_of(request, most_bytes)).decode("ascii")
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except TimeoutError:
        raise BadFormError(f"the form did not come within {FORM_S:.0f} s") from None
    except ValueError as error:
        raise BadFormError(f"the form cannot be read: {error}") from None


async def _body_of(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise BadFormError(f"such a form has at most {most_bytes:,} bytes")
    return bytes(body)


_TIMES: Final = ("at_ms", "point")

Shown = Callable[[Request, Person, Form], Awaitable[Response]]
Facts = dict[str, Any]
MadeFacts = Callable[[ClusterView, Form], Awaitable[Facts]]


class Site:
    """Made once; each area of pages adds its routes."""

    def __init__(self, door: Door, live: Live, templates: Templates, audit: AuditLog) -> None:
        self.door: Final = door
        self.live: Final = live
        self.audit: Final = audit
        self.templates: Final = templates
        self.routes: Final[list[Route]] = []

    # --- routes
    # ----------------------------------------------------------------------------------------------

    def page(self, path: str, show: Shown) -> None:
        """A page to read."""

        async def serve(request: Request) -> Response:
            try:
                return await show(request, await self.door.enter(request), query_of(request))
            except RocketMQError as error:
                return self._failed(request, error)

        self.routes.append(Route(path, serve, methods=["GET"]))

    def live_page(self, path: str, name: str, facts: MadeFacts, *parts: str) -> None:
        """A page to read that stays up to date by itself: ``<name>.html``, made of ``facts``, and
        as ``/live/<name>`` its blocks ``parts`` (see ``stream``)."""

        async def show(request: Request, person: Person, form: Form) -> Response:
            found = await facts(person.view, form)
            return self.html(request, person, f"{name}.html", **found)

        self.page(path, show)
        self.stream(f"/live/{name}", facts, f"{name}.html", *parts)

    def change(self, path: str, show: Shown) -> None:
        """What a form does, which is not read of who has not signed in. ``show`` writes the audit
        line (``Site.noted``)."""

        async def serve(request: Request) -> Response:
            try:
                person = await self.door.enter_to_change(request)
                form = await form_of(request)
                self.door.check(person, form.text("csrf"))
                return await show(request, person, form)
            except RocketMQError as error:
                return self._failed(request, error)

        self.routes.append(Route(path, serve, methods=["POST"]))

    def stream(self, path: str, facts: MadeFacts, template: str, *parts: str) -> None:
        """Live parts of a page: blocks of its template. Of facts that are as they were, but for
        their time ``at_ms``, only the block ``age`` is made again, and ``point``, what a chart
        gets."""

        async def serve(request: Request) -> Response:
            try:
                person = await self.door.enter(request)
                form = query_of(request)
                key = (id(person.view), path, str(request.query_params))
                return self.live.stream(
                    key,
                    changing(self.templates, partial(facts, person.view, form), template, parts),
                    address_of(request),
                    lambda: self.still_in(person),
                )
            except TooManyStreamsError as error:
                return Response(str(error), 503)
            except RocketMQError as error:
                return Response(str(error), 403)

        self.routes.append(Route(path, serve, methods=["GET"]))

    def still_in(self, person: Person) -> bool:
        """Whether the session of an open stream goes on."""
        session = person.session
        return session is None or self.door.sessions.find(session.key, use=False) is not None

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def html(
        self, request: Request, person: Person, template: str, status: int = 200, **context: Any
    ) -> HTMLResponse:
        text = self.templates.render(
            template,
            path=request.url.path,
            here=str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
            person=person,
            read_only=not self.door.settings.allow_changes,
            **context,
        )
        return HTMLResponse(text, status)

    def _failed(self, request: Request, error: RocketMQError) -> Response:
        if isinstance(error, SignInNeededError):
            there = str(request.url.path) + (f"?{request.url.query}" if request.url.query else "")
            there = there if request.method == "GET" else ""
            return RedirectResponse(link("/sign-in", next=there, why=str(error)), 303)
        status, title = 502, "The cluster says"
        if isinstance(error, TooManyStreamsError):
            status, title = 503, "Not now"
        elif isinstance(error, ForbiddenError):
            status, title = 403, "Not done"
        elif isinstance(error, BadFormError | ValueError):
            status, title = 400, "That cannot be used"
        text = self.templates.render("error.html", title=title, text=str(error))
        return HTMLResponse(text, status)

    async def noted(
        self,
        request: Request,
        person: Person,
        action: str,
        subject: str,
        doing: Awaitable[Any],
    ) -> tuple[Any, str]:
        """Do a change and write its line. Returns what came of it, and what the cluster said when
        it refused ("": it did not)."""
        done, refused, outcome = None, "", "not known: it was broken off"
        try:
            done = await doing
            outcome = "done"
        except RocketMQError as error:
            refused = str(error)
            outcome = f"refused: {refused}"
        finally:
            self.audit.note(person.name, address_of(request), action, subject, outcome)
        return done, refused


def changing(
    templates: Templates, facts: Callable[[], Awaitable[Facts]], template: str, parts: Sequence[str]
) -> Parts:
    """The parts of one live page; of facts that are as they were only those that show a time."""
    before: Facts = {}

    async def made() -> Mapping[str, str]:
        nonlocal before
        found = await facts()
        lasting = {name: fact for name, fact in found.items() if name not in _TIMES}
        names = [name for name in parts if name == "age" or lasting != before]
        before = lasting
        texts = {name: templates.part(template, name, **found) for name in names}
        return texts | ({"chart:lag": found["point"]} if "point" in found else {})

    return made


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else "?"
