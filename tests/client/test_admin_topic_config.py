"""One topic of a broker: asked for as such, or found in all of them where a broker is old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq import Admin
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode

from ..sim import SimOwner
from .scripted_broker import ADDRESS, ScriptedBroker

TOPIC = TopicConfig(topic_name="T", read_queue_nums=3)
NOT_KNOWN = Reply(ResponseCode.TOPIC_NOT_EXIST)
OLD = Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


def run(
    one: Reply, every: Reply, test: Callable[[Awaitable[TopicConfig | None]], Awaitable[None]]
) -> None:
    """What ``topic_config`` says of two brokers in one: ``one`` and ``every`` answer 351 and 21."""

    async def main() -> None:
        broker = ScriptedBroker()
        answers = {RequestCode.GET_TOPIC_CONFIG: one, RequestCode.GET_ALL_TOPIC_CONFIG: every}
        table = {code: lambda *_, reply=reply: reply for code, reply in answers.items()}
        broker.owner = SimOwner(Dispatcher(table), clock=broker.clock)
        async with asyncio.timeout(30), broker.instance() as instance:
            await test(Admin(instance=instance).topic_config(ADDRESS, "T"))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("one", "every", "told"),
    [
        (Reply(body=encode_body(TOPIC)), Reply(ResponseCode.SYSTEM_ERROR), TOPIC),
        (NOT_KNOWN, Reply(ResponseCode.SYSTEM_ERROR), None),
        (OLD, Reply(body=encode_body(TopicConfigTable(topic_config_table={"T": TOPIC}))), TOPIC),
        (OLD, Reply(body=encode_body(TopicConfigTable())), None),
    ],
    ids=["has it", "has it not", "old, has it", "old, has it not"],
)
def test_a_broker_tells_of_one_topic(one: Reply, every: Reply, told: TopicConfig | None) -> None:
    async def test(answer: Awaitable[TopicConfig | None]) -> None:
        assert await answer == told

    run(one, every, test)


def test_a_refusal_is_not_taken_for_an_old_broker() -> None:
    async def test(answer: Awaitable[TopicConfig | None]) -> None:
        with pytest.raises(BrokerError, match="no rights"):
            await answer

    run(
        Reply(ResponseCode.NO_PERMISSION, remark="no rights"),
        Reply(body=encode_body(TopicConfigTable(topic_config_table={"T": TOPIC}))),
        test,
    )
