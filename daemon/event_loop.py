"""Which event loop everything of ours runs on."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (not on Windows), else asyncio's own. For
    ``asyncio.Runner(loop_factory=...)``."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
