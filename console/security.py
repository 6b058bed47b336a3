"""What stands in front of every request: who may speak to the console at all, and what a browser
may do with its answers.

A console on loopback can be reached by every page that a browser on this machine shows. So each
request, streams of events included, must name a host that is ours (a foreign name that resolves to
us does not get in), must not come from another origin, and what it gets can be neither framed,
cached nor run: there is no script and no style but our own files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
READS: Final = ("GET", "HEAD")
_NAVIGATION: Final = ("navigate", "document")


class Gate:
    """ASGI middleware. ``hosts``: what may stand in ``Host``, ``name:port`` in lower case, and
    ``http`` or ``https``, as browsers speak there. What is behind it finds the latter as the
    scheme of its request."""

    def __init__(self, app: ASGIApp, hosts: Mapping[str, str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        why = refusal(scope["method"], headers, self._hosts)
        if why is not None:
            await PlainTextResponse(f"Refused: {why}\n", 403)(scope, receive, send_guarded)
            return
        scheme = self._hosts[headers["host"].lower()]
        await self._app({**scope, "scheme": scheme}, receive, send_guarded)


def refusal(method: str, headers: Headers, hosts: Mapping[str, str]) -> str | None:
    """Why a request does not get in; ``None``: it does."""
    named = headers.getlist("host")
    if len(named) != 1 or named[0].lower() not in hosts:
        return "this console is not called so; name it with --publicHost where it is"
    origins = headers.getlist("origin")
    host = named[0].lower()
    own = f"{hosts[host]}://{host}"
    if any(origin.lower() != own for origin in origins):
        return "the request comes from another origin"
    site = headers.get("sec-fetch-site", "same-origin")
    if method in READS:
        going_there = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == _NAVIGATION
        if site not in ("same-origin", "none") and not going_there:
            return "the request comes from a page of another site"
        return None
    if not origins:
        return "a change names its origin"
    return None if site == "same-origin" else "a change comes from a page of this console"
