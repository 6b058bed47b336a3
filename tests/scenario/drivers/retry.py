"""Consumers that give messages back, as the client does: request 36 for each that failed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ..language import ScenarioError, step
from .broker import BrokerDriver
from .simulated import code_of, settle

STEP_S = 10
"""All delays from level 3 on are multiples of it."""
LONGEST_S = 3 * 3600


class RetryDriver(BrokerDriver):
    @step("{group} gives back {body} of {queue}[ level {level}][ limit {limit}]")
    async def give_back(
        self, group: str, body: str, queue: str, level: int = 0, limit: int = -1
    ) -> str:
        """``level``: of the delay, chosen by the consumer; ``limit``: of attempts, likewise."""
        found = [m for m in self.messages(queue) if m.body.decode() == body]
        if not found:
            raise ScenarioError(f"{queue} has no message {body}")
        return await self._give_back(group, found[-1], level, limit)

    @step("{group} gives back {body} of {queue} again and again")
    async def again_and_again(self, group: str, body: str, queue: str) -> list[str]:
        """Whenever it comes, until it is a dead letter."""
        return [line async for line in self._again_and_again(group, body, queue)]

    async def _again_and_again(self, group: str, body: str, queue: str) -> AsyncIterator[str]:
        [message] = [m for m in self.messages(queue) if m.body.decode() == body]
        while True:
            before, told_at = self._count(f"%RETRY%{group}"), self.clock.time_ms()
            await self._give_back(group, message)
            if self._count(f"%DLQ%{group}"):
                yield f"dead letter after attempt {message.reconsume_times}"
                return
            while self._count(f"%RETRY%{group}") == before:
                self.clock.advance(STEP_S)
                await settle()
                assert self.clock.time_ms() < told_at + LONGEST_S * 1000, "it does not come"
            *_, message = self.messages(f"%RETRY%{group}")
            waited = (message.store_timestamp - told_at) // 1000
            yield f"attempt {message.reconsume_times} after {waited} s"

    def _count(self, topic: str) -> int:
        return self.sim.broker.store.max_offset(topic, 0)

    async def _give_back(
        self, group: str, message: MessageExt, level: int = 0, limit: int = -1
    ) -> str:
        request = ConsumerSendMsgBackRequest(
            offset=message.commit_log_offset,
            group=group,
            delay_level=level,
            max_reconsume_times=None if limit < 0 else limit,
        )
        return code_of(await self.client(group).ask(RequestCode.CONSUMER_SEND_MSG_BACK, request))

    def describe(self, message: MessageExt) -> str:
        """With the attempts so far, and the topic it was sent to."""
        origin = message.properties.get("RETRY_TOPIC")
        line = f"{message.queue_offset} {message.body.decode()} attempts {message.reconsume_times}"
        return line + (f" of {origin}" if origin else "")
