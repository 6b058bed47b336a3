"""What tests of requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from .sim_broker import SimBroker, sim_broker


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a scenario against a fresh broker."""

    def run(scenario: Callable[[SimBroker], Awaitable[None]], **config: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(30), sim_broker(tmp_path, **config) as sim:
                await scenario(sim)

        asyncio.run(main())

    return run
