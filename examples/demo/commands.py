"""``mqadmin`` as a person would type it: the command is shown, then what it prints."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

from aiorocketmq import Admin, NoRouteError

from .errors import DemoError

_KNOWN_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.05


async def until_known(namesrv: str, *groups: str) -> None:
    """A group that came up a moment ago is known when its retry topic is on the broker's disk: on a
    busy one that takes longer than all of the messages. Raises ``DemoError``."""
    try:
        async with asyncio.timeout(_KNOWN_WITHIN_S), Admin(namesrv=namesrv) as admin:
            for group in groups:
                while not await _is_known(admin, group):  # noqa: ASYNC110  (nothing tells)
                    await asyncio.sleep(_LOOK_EVERY_S)
    except TimeoutError:
        raise DemoError(
            f"the groups {' and '.join(groups)} are not known within {_KNOWN_WITHIN_S:.0f} s"
        ) from None


async def _is_known(admin: Admin, group: str) -> bool:
    try:
        await admin.consume_stats(group)
    except NoRouteError:
        return False
    return True


async def mqadmin(console: Console, *arguments: str) -> str:
    """Run a command of mqadmin in a process of its own; returns what it printed. Raises
    ``DemoError`` when it fails."""
    _print(console, f"\n$ mqadmin {' '.join(arguments)}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiorocketmq.tools.mqadmin", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is for us alone
    )
    try:
        output, problems = (
            stream.decode(errors="replace").rstrip() for stream in await process.communicate()
        )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if output:
        _print(console, output)
    if process.returncode:
        raise DemoError(
            problems or f"mqadmin {arguments[0]} failed with exit code {process.returncode}"
        )
    return output


def _print(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)
