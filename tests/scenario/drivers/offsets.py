"""Where groups stand, who moves them, and where queues begin and end."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.reset import ResetOffsetBody
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import (
    CloneGroupOffsetRequest,
    QueryConsumerOffsetRequest,
    QueueRequest,
    ResetOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)

from ..language import step
from .broker import BrokerDriver, queue_of
from .simulated import code_of, settle


class OffsetDriver(BrokerDriver):
    async def start(self) -> None:
        self.began_ms = self.clock.time_ms()
        await super().start()

    @step("member {name} of {group} on {topic}")
    async def member(self, name: str, group: str, topic: str) -> None:
        (await self.client(name).heartbeat(name, group, topic=topic)).check()

    @step("{group} commits {queue} {offset}")
    async def commit(self, group: str, queue: str, offset: int) -> None:
        topic, queue_id = queue_of(queue)
        request = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        client = self.client("consumer")
        (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, request)).check()

    @step("where is {group} in {queue}")
    async def where(self, group: str, queue: str) -> str:
        topic, queue_id = queue_of(queue)
        request = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=queue_id)
        answer = await self.client("consumer").ask(RequestCode.QUERY_CONSUMER_OFFSET, request)
        return code_of(answer) if answer.code else f"at {answer.header.offset}"

    @step("ends of {queue}")
    async def ends(self, queue: str) -> str:
        topic, queue_id = queue_of(queue)
        request = QueueRequest(topic=topic, queue_id=queue_id)
        client = self.client("consumer")
        first = (await client.ask(RequestCode.GET_MIN_OFFSET, request)).check()
        last = (await client.ask(RequestCode.GET_MAX_OFFSET, request)).check()
        return f"{first.header.offset} to {last.header.offset}"

    @step("search {queue} at {seconds} s")
    async def search(self, queue: str, seconds: float) -> str:
        """The first message that was stored then or later; seconds count from the beginning."""
        topic, queue_id = queue_of(queue)
        request = SearchOffsetRequest(
            topic=topic, queue_id=queue_id, timestamp=self._at_ms(seconds)
        )
        answer = await self.client("consumer").ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, request)
        return f"offset {answer.check().header.offset}"

    @step("reset {group} on {topic} to {seconds} s[ {force}]")
    async def reset(self, group: str, topic: str, seconds: float, force: str = "") -> list[str]:
        """Without ``force`` nobody is moved forwards."""
        return await self._reset(group, topic, self._at_ms(seconds), force)

    @step("reset {group} on {topic} to the end[ {force}]")
    async def reset_to_end(self, group: str, topic: str, force: str = "") -> list[str]:
        return await self._reset(group, topic, -1, force)

    @step("clone {source} to {target} on {topic}")
    async def clone(self, source: str, target: str, topic: str) -> str:
        request = CloneGroupOffsetRequest(src_group=source, dest_group=target, topic=topic)
        return code_of(await self.client("admin").ask(RequestCode.CLONE_GROUP_OFFSET, request))

    async def _reset(self, group: str, topic: str, at_ms: int, force: str) -> list[str]:
        """The broker asks no more than its members: it is they who go back and commit."""
        request = ResetOffsetRequest(
            topic=topic, group=group, timestamp=at_ms, is_force=force == "force"
        )
        answer = await self.client("admin").ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, request)
        await settle()
        said = [code_of(answer)]
        for name, client in self.clients.items():
            for (code, _), body in zip(client.pushed, client.pushed_bodies, strict=True):
                if code is RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                    table = decode_body(ResetOffsetBody, body).offset_table
                    moves = sorted((q.topic, q.queue_id, offset) for q, offset in table.items())
                    said += [
                        f"{name} is told: {t}/{number} {offset}" for t, number, offset in moves
                    ]
            client.pushed.clear()
            client.pushed_bodies.clear()
        return said

    def _at_ms(self, seconds: float) -> int:
        return self.began_ms + round(seconds * 1000)
