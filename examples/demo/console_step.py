"""The end of the demo for somebody who sits in front of it: the cluster in a browser."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

SHOWN = "docs/console/overview.png"


async def console_step(console: Console, namesrv: str) -> None:
    """Serve the console until Ctrl-C."""
    try:
        import aiorocketmq.console.app  # noqa: F401 - is it there?
    except ImportError:
        console.print(
            "\nTo look at a cluster in a browser: pip install 'aiorocketmq[console]', and "
            f"mqconsole. It looks like {SHOWN}.",
            soft_wrap=True,
        )
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aiorocketmq.console", "-n", namesrv, "--port", "0",
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().split()[-1]
        console.print(f"\nThe cluster in a browser: {address}", soft_wrap=True)
        console.print(f"It looks like {SHOWN}. Ctrl-C here stops everything.", soft_wrap=True)
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
