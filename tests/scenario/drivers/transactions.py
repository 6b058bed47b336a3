"""Producers of the group pg, what they decide about their half messages, and what they are asked.

A half message is known by its key, which is its body too (``body K``).
"""

from __future__ import annotations

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.commands.transaction import CheckTransactionStateRequest
from aiorocketmq.remoting.protocol.record.decode import MessageExt

from ...broker.transaction_scenes import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    answer_to,
    asked,
    half,
    word,
)
from ..language import step
from .broker import BrokerDriver, queue_of
from .simulated import code_of, keep_running, pass_time, settle

HEARTBEAT_S = 30.0
DECISIONS = {"commits": COMMIT, "rolls-back": ROLLBACK, "leaves-open": UNKNOWN}


class TransactionDriver(BrokerDriver):
    async def start(self) -> None:
        self.sent: dict[str, SendMessageResponse] = {}
        self.checks: dict[str, CheckTransactionStateRequest] = {}
        await super().start()

    async def opened(self) -> None:
        await super().opened()
        await self.sim.broker.storage.transaction_check.load()
        keep_running(self._life, self._heartbeats())

    async def _heartbeats(self) -> None:
        while True:
            await self.clock.sleep(HEARTBEAT_S)
            for name in self.clients:
                await self.producer(name)

    @step("producer {name}")
    async def producer(self, name: str) -> None:
        """It says that it belongs to the group, and may be asked, now and every 30 s."""
        (await self.client(name).heartbeat(name, producers=("pg",))).check()

    @step("{name} sends half {key} to {queue}[ immune {seconds} s]")
    async def half(self, name: str, key: str, queue: str, seconds: int = 0) -> None:
        """``immune``: it must not be asked for before."""
        topic, queue_id = queue_of(queue)
        more = f"\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01{seconds}" if seconds else ""
        self.sent[key] = await half(
            self.sim, self.client(name), key, more=more, topic=topic, queue_id=queue_id
        )

    @step("{name} {decision} {key}")
    async def decide(self, name: str, decision: str, key: str) -> str:
        """At the end of its local transaction: ``commits``, ``rolls-back``, ``leaves-open``."""
        request = word(self.sent[key], DECISIONS[decision], msg_id=key)
        return await self._say(name, request)

    @step("{name} answers: {decision} {key}")
    async def answer(self, name: str, decision: str, key: str) -> str:
        """To the last check of this half message."""
        return await self._say(name, answer_to(self.checks[key], DECISIONS[decision]))

    async def _say(self, name: str, request: object) -> str:
        client = self.client(name)
        if request.commit_or_rollback == UNKNOWN:  # type: ignore[attr-defined]
            client.connection.invoke_oneway(RequestCode.END_TRANSACTION, request)  # type: ignore[arg-type]
            await settle()
            return "not answered"
        return code_of(await client.ask(RequestCode.END_TRANSACTION, request))  # type: ignore[arg-type]

    @step("check after {seconds} s[, {times} times]")
    async def check(self, seconds: float, times: int = 1) -> list[str]:
        """Rounds of the broker, and whom it asks."""
        said = []
        for _ in range(times):
            await pass_time(self.clock, seconds)
            await self.sim.broker.storage.transaction_check.check()
            await settle()
            for name, client in self.clients.items():
                for request, message in asked(client):
                    key = message.body.decode().removeprefix("body ")
                    self.checks[key] = request
                    time = message.properties["TRANSACTION_CHECK_TIMES"]
                    said.append(f"{name} is asked about {key}, check {time}")
        return said or ["nobody is asked"]

    def describe(self, message: MessageExt) -> str:
        checks = message.properties.get("TRANSACTION_CHECK_TIMES")
        return super().describe(message) + (f", checks {checks}" if checks else "")
