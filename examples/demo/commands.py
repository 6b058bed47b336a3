"""``mqadmin`` as a person would type it: the command is shown, then what it prints."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

from .errors import DemoError


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
