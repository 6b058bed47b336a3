"""Pulls that may be held: each consumer has one at a time, of a group of its own name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiorocketmq.remoting.errors import RemotingError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import (
    PullMessageRequest,
    PullSysFlag,
)
from aiorocketmq.remoting.responses import Response
from tests.stored import decode_messages

from ..language import step
from .broker import BrokerDriver, queue_of
from .simulated import settle


class LongPollingDriver(BrokerDriver):
    async def start(self) -> None:
        self.waiting: dict[str, asyncio.Task[Response]] = {}
        await super().start()

    @step("{name} pulls {queue} at {offset}[ for {seconds} s][ tags {tags}]")
    async def pull(
        self, name: str, queue: str, offset: int, seconds: float = 15, tags: list[str] | None = None
    ) -> list[str]:
        """``for``: how long it may be held."""
        return await self._pull(name, queue, offset, seconds, " ".join(tags or ["*"]), "TAG")

    @step("{name} pulls {queue} at {offset} sql {expression}")
    async def pull_sql(
        self, name: str, queue: str, offset: int, expression: list[str]
    ) -> list[str]:
        return await self._pull(name, queue, offset, 15, " ".join(expression), "SQL92")

    @step("{name} asks {queue} at {offset}")
    async def ask(self, name: str, queue: str, offset: int) -> list[str]:
        """A pull that must not be held."""
        return await self._pull(name, queue, offset, 0, "*", "TAG")

    @step("answers")
    async def answers(self) -> list[str]:
        """Those that came since, and who still waits."""
        await settle()
        said = list(self._answers())
        held = self.sim.broker.reads.pull.held_pulls
        return [*said, f"{held} held"]

    async def _pull(
        self, name: str, queue: str, offset: int, seconds: float, wanted: str, kind: str
    ) -> list[str]:
        topic, queue_id = queue_of(queue)
        header = PullMessageRequest(
            consumer_group=name,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if seconds else 0),
            commit_offset=0,
            suspend_timeout_millis=round(seconds * 1000),
            subscription=wanted,
            sub_version=1,
            expression_type=kind,
        )
        request = self.client(name).connection.invoke(
            RequestCode.PULL_MESSAGE, header, timeout=seconds + 10
        )
        self.waiting[name] = asyncio.ensure_future(request)
        await settle()
        return list(self._answers()) or ["held"]

    def _answers(self) -> Iterator[str]:
        for name, task in list(self.waiting.items()):
            if task.done():
                del self.waiting[name]
                yield f"{name}: {_said(task)}"


def _said(task: asyncio.Task[Response]) -> str:
    if isinstance(task.exception(), RemotingError):
        return "connection lost"
    answer = task.result()
    code = "FOUND" if answer.code == 0 else ResponseCode(answer.code).name
    if answer.code and not code.startswith("PULL_"):
        return code
    bodies = [message.body.decode() for message in decode_messages(answer.body)]
    return " ".join([code, *bodies, f"next {answer.header.next_begin_offset}"])
