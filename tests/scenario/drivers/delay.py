"""Delayed messages: how long one waits is written as it is told."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ..language import step
from .broker import BrokerDriver


class DelayDriver(BrokerDriver):
    @step("levels {levels}")
    async def change_levels(self, levels: list[str]) -> None:
        """The broker is restarted with another table of delays."""
        self.levels = " ".join(levels)
        await self.restart()

    @step("crash")
    async def crash(self) -> None:
        """What was not written is lost; the store was synced a moment before."""
        await self.sim.broker.store.sync()
        await self._life.aclose()
        await self._open()

    def describe(self, message: MessageExt) -> str:
        """With the time between sending and delivery."""
        waited = (message.store_timestamp - message.born_timestamp) / 1000
        return f"{message.queue_offset} {message.body.decode()} after {waited:g} s"
