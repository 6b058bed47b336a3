"""A console in this process, asked as a browser asks it, without a socket of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import httpx

from aiorocketmq.console.app import Console, serve
from aiorocketmq.console.settings import ConsoleSettings
from aiorocketmq.remoting.clock import Clock

ORIGIN: Final = "http://localhost:8199"
TOKEN: Final = "a-token-of-the-tests"
PAGES = ("/", "/topics", "/groups", "/messages", "/dead-letters", "/tail", "/send", "/accounts")
STREAMS = ("/live/overview", "/live/topics", "/live/groups", "/live/topic?name=T",
           "/live/group?name=G", "/live/tail?topic=T")  # fmt: skip
CHANGES = ("/topic/change", "/group/reset", "/dead-letters/send-again", "/send")


class Asked(NamedTuple):
    """The console, and who asks it."""

    console: Console
    client: httpx.AsyncClient

    async def page(self, path: str, **query: object) -> str:
        """A page that can be read."""
        answer = await self.client.get(path, params={k: str(v) for k, v in query.items()} or None)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        return await self.client.post(path, data=fields, headers={"origin": ORIGIN})

    async def sign_in(self, **fields: str) -> httpx.Response:
        return await self.post("/sign-in", **fields)

    async def csrf(self) -> str:
        """The token of the session's forms."""
        found = re.search(r'name="csrf" value="([^"]+)"', await self.page("/send"))
        assert found is not None
        return found[1]

    async def change(self, path: str, **fields: Any) -> str:
        answer = await self.post(path, csrf=await self.csrf(), **fields)
        assert answer.status_code == 200, answer.text
        return answer.text


@asynccontextmanager
async def a_console(
    namesrv: str, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Asked]:
    """Not signed in. ``clock``: of sessions, and of how old an answer is."""
    console = Console(ConsoleSettings(namesrv=namesrv, port=8199, **settings), 8199, clock)
    transport = httpx.ASGITransport(console.app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, timeout=60) as client:
            yield Asked(console, client)
    finally:
        await console.close()


@asynccontextmanager
async def a_changing_console(namesrv: str, **settings: Any) -> AsyncIterator[Asked]:
    """Signed in with its token."""
    async with a_console(namesrv, allow_changes=True, token=TOKEN, **settings) as asked:
        answer = await asked.sign_in(token=TOKEN)
        assert answer.status_code == 303
        yield asked


@asynccontextmanager
async def served(namesrv: str, **settings: Any) -> AsyncIterator[int]:
    """The port of a console that is served in this process: where an answer is to be read as it
    comes."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(ConsoleSettings(namesrv=namesrv, port=0, **settings), ready.set_result)
    )
    try:
        yield int((await ready).rstrip("/").rpartition(":")[2])
    finally:
        serving.cancel()
        await asyncio.wait((serving,))
