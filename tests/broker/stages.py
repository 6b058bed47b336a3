"""Services that tell what becomes of them."""

from __future__ import annotations

import asyncio


class Stage:
    """Writes down when it begins and when it has ended."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self._name = name
        self._diary = diary

    async def run(self) -> None:
        self._diary.append(f"{self._name} begins")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self._diary.append(f"{self._name} ends")


class Failing:
    async def run(self) -> None:
        raise OSError("broken")
