"""Messages that nobody could consume go back to the brokers (client.md §4.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.send_back import SendBack
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse

from ..messages import stored
from ..scripted_broker import ScriptedBroker

FULL = {"mine": "x" * 32_755}
"""As many properties as a message may have."""
BACK = RequestCode.CONSUMER_SEND_MSG_BACK


def play(scene: Callable[[ScriptedBroker, ClientInstance], Awaitable[None]]) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        instance = broker.instance()
        for topic in ("T", "%RETRY%g"):
            broker.know_topic(instance, topic, 1)
        try:
            await scene(broker, instance)
        finally:
            await instance.remoting.close()

    asyncio.run(main())


def test_what_has_no_space_for_more_properties_is_made_a_dead_letter_by_its_broker() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.answers[BACK] = lambda _: Reply()
        await SendBack(instance, "g", 3).to_dead_letters(stored(4, properties=FULL))
        (asked,) = broker.requests(BACK)
        assert (asked.offset, asked.delay_level, asked.max_reconsume_times) == (4000, -1, 3)

    play(scene)


def test_what_neither_its_broker_nor_another_one_takes_is_refused_as_usual() -> None:
    """Whoever hands it back knows that error, keeps the message and tries again."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.answers[BACK] = lambda _: Reply(ResponseCode.SYSTEM_BUSY, remark="not now")
        with pytest.raises(BrokerError, match="not now"):
            await SendBack(instance, "g", 3)(stored(4, properties=FULL), 0)

    play(scene)


@pytest.mark.parametrize(("before", "last"), [(0, False), (1, True)])
def test_as_a_new_message_it_has_as_many_attempts(before: int, last: bool) -> None:
    """A broker makes a dead letter of what was tried as often as it may be, and counts this one
    already (SendMessageProcessor.handleRetryAndDLQ)."""

    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.answers[BACK] = lambda _: Reply(ResponseCode.SYSTEM_BUSY, remark="not now")
        stored_there = SendMessageResponse(msg_id="AA", queue_id=0, queue_offset=17)
        broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(header=stored_there)
        message = stored(4)
        message.reconsume_times = before
        await SendBack(instance, "g", 1)(message, 0)
        (sent,) = broker.requests(RequestCode.SEND_MESSAGE_V2)
        assert (sent.reconsume_times >= sent.max_reconsume_times) is last

    play(scene)


def test_what_a_disk_may_forget_is_not_given_back() -> None:
    async def scene(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.answers[BACK] = lambda _: Reply(ResponseCode.SYSTEM_BUSY, remark="not now")
        late = SendMessageResponse(msg_id="AA", queue_id=0, queue_offset=17)
        broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(
            ResponseCode.FLUSH_DISK_TIMEOUT, header=late
        )
        with pytest.raises(BrokerError, match="not known to be on the disk"):
            await SendBack(instance, "g", 3)(stored(4), 0)

    play(scene)
