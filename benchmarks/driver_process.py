"""A Spark driver in a process group of its own, with its Java and its Python."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from examples.demo.errors import DemoError

PATIENCE_S: Final = 600.0


class DriverProcess:
    """One life of it: ``python -m MODULE WHAT NAMESRV FOLDER``."""

    def __init__(self, module: str, what: str, namesrv: str, folder: Path) -> None:
        self._arguments = (module, what, namesrv, str(folder))
        self._log = folder / "driver.log"
        self._output = folder / "driver.out"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log, self._output.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )

    async def to_the_end(self) -> str:
        """Start it; what it has printed when it has ended by itself. Raises ``DemoError``."""
        await self.start()
        assert self._process is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                code = await self._process.wait()
        finally:
            await self.kill()
        if code:
            raise DemoError(
                f"the driver ended with exit code {code}; the end of its log:", self._last_words()
            )
        return self._output.read_text()

    async def kill(self) -> None:
        """SIGKILL for all of its processes at once."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    @property
    def pid(self) -> int | None:
        """Of its group, while it lives."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def check(self) -> None:
        """Raise ``DemoError`` when it has ended."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise DemoError("the driver ended by itself; the end of its log:", self._last_words())

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
