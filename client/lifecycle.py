"""What starts and stops, as an asynchronous context manager."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Startable"]


class Startable(ABC):
    """``async with`` means ``start`` and ``stop``."""

    @abstractmethod
    async def start(self) -> None:
        """Begin to work."""

    @abstractmethod
    async def stop(self) -> None:
        """End what ``start`` began."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.stop()
