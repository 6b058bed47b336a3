"""Test messages."""

from __future__ import annotations

import asyncio

from aiorocketmq import Admin, Message
from aiorocketmq.console.cluster import ClusterView
from aiorocketmq.console.pages.sending import sent_by
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse

from ..client.scripted_broker import ScriptedBroker


def test_two_people_may_send_at_a_time() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(
            header=SendMessageResponse(msg_id="I", queue_id=0, queue_offset=0)
        )
        instance = broker.instance()
        broker.know_topic(instance, "T")
        async with instance, ClusterView(Admin(instance=instance), broker.clock) as view:
            await asyncio.gather(
                sent_by(view, Message("T", b"1"), ""), sent_by(view, Message("T", b"2"), "key")
            )
        sent = [code for code, _ in broker.asked if code is RequestCode.SEND_MESSAGE_V2]
        left = [request for code, request in broker.asked if code is RequestCode.UNREGISTER_CLIENT]
        assert len(sent) == 2
        assert [request.producer_group for request in left] == ["mqconsole"]

    asyncio.run(main())
