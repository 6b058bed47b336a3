"""Signing in and out."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ...remoting.errors import RocketMQError
from ..door import TooManyAttempts
from ..site import Form, Site, address_of, form_of, query_of

MOST_FORM_BYTES: Final = 32 << 10
"""Of somebody whom nobody knows yet."""


def add_to(site: Site) -> None:
    door = site.door

    async def page(form: Form, why: str, status: int = 200) -> Response:
        wants_token, wants_account = await door.wants()
        text = site.templates.render(
            "sign_in.html",
            wants_token=wants_token,
            wants_account=wants_account,
            next=own_path(form.text("next")),
            why=why,
        )
        return HTMLResponse(text, status)

    async def show(request: Request) -> Response:
        form = query_of(request)
        return await page(form, form.text("why")[:200])

    async def sign_in(request: Request) -> Response:
        try:
            form = await form_of(request, MOST_FORM_BYTES)
        except RocketMQError as error:
            return await page(Form([]), str(error), 400)
        key = form.text("access_key")
        try:
            session = await door.sign_in(form.text("token"), key, form.raw("secret_key"))
        except TooManyAttempts as error:  # no line: who guesses does not fill the disk
            return await page(form, str(error), 429)
        except RocketMQError as error:
            site.audit.note(key or "token", address_of(request), "sign-in", "console", "refused")
            return await page(form, str(error), 403)
        site.audit.note(session.name, address_of(request), "sign-in", "console", "done")
        answer = RedirectResponse(own_path(form.text("next")) or "/", 303)
        door.give_cookie(request, answer, session)
        return answer

    async def sign_out(request: Request) -> Response:
        session = door.sessions.find(request.cookies.get(door.cookie))
        if session is not None:
            await door.sign_out(session)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(door.cookie, path="/")
        return answer

    site.routes.extend(
        (
            Route("/sign-in", show, methods=["GET"]),
            Route("/sign-in", sign_in, methods=["POST"]),
            Route("/sign-out", sign_out, methods=["POST"]),
        )
    )


def own_path(text: str) -> str:
    """A path of this console, or nothing: never the address of another one."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_path and text.isprintable() else ""
