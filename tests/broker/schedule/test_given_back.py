"""Messages that consumers give back: they come again later, and in the end to the dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendMessageRequest,
)
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.store.model.config import MessageStoreConfig

from ..schedule_scenes import SCHEDULE, deliver, messages, play
from ..sim_broker import SimBroker, SimClient


async def give_back(client: SimClient, offset: int = 0, delay_level: int = 0) -> None:
    """As a consumer of g; ``offset``: where the message lies in the log."""
    back = ConsumerSendMsgBackRequest(offset=offset, group="g", delay_level=delay_level)
    (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).check()


@pytest.mark.parametrize("level", [-1, 1])
def test_a_message_that_claims_all_attempts_that_can_be_counted_is_taken_back(
    tmp_path: Path, level: int
) -> None:
    """Its consumer would give it back for ever, and never get past it."""

    async def scene(sim: SimBroker, client: SimClient) -> None:
        most = 2**31 - 1
        header = SendMessageRequest(
            producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=0, sys_flag=0, born_timestamp=1, flag=0, properties="A\x01b",
            reconsume_times=most,
        )  # fmt: skip
        (await client.ask(RequestCode.SEND_MESSAGE, header, b"x")).check()
        await give_back(client, delay_level=level)
        [letter] = messages(sim, "%DLQ%g")
        assert letter.reconsume_times == most

    play(tmp_path, scene)


def test_the_whole_life_of_a_message_that_nobody_can_consume(tmp_path: Path) -> None:
    """16 attempts, each after a longer time, then the dead letter queue."""
    levels = MessageStoreConfig().message_delay_level
    seconds = {"s": 1, "m": 60, "h": 3600}
    table = [int(part[:-1]) * seconds[part[-1]] for part in levels.split()]

    async def scene(sim: SimBroker, client: SimClient) -> None:
        sent = await client.send("T", b"x", properties="TAGS\x01a")
        [message] = messages(sim)
        waited = []
        for attempt in range(16):
            await give_back(client, message.commit_log_offset)
            given_back = sim.clock.time_ms()
            while len(messages(sim, "%RETRY%g")) == attempt:
                sim.clock.advance(deliver(sim))
            message = messages(sim, "%RETRY%g")[attempt]
            assert (message.reconsume_times, message.properties["ORIGIN_MESSAGE_ID"]) == (
                attempt + 1,
                sent.msg_id,
            )
            assert (message.properties["RETRY_TOPIC"], message.tags) == ("T", "a")
            waited.append((message.store_timestamp - given_back) // 1000)
        assert waited == table[2:18]
        await give_back(client, message.commit_log_offset)
        [dead] = messages(sim, "%DLQ%g")
        assert (dead.reconsume_times, dead.body) == (17, b"x")
        assert decode_properties(dead.raw_properties)["DELAY"] == "0"

    play(tmp_path, scene, levels=levels)


def test_a_consumer_may_choose_the_delay(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, client: SimClient) -> None:
        await client.send("T", b"x")
        for level, queue_id in ((1, 0), (4, 3), (99, 3)):
            await give_back(client, delay_level=level)
            assert messages(sim, SCHEDULE, queue_id)[-1].properties["DELAY"] == str(queue_id + 1)

    play(tmp_path, scene)
