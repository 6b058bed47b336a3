"""The captured transactions of the original, played to our broker: the same records, the same
questions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.commands.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.wire import from_fields, to_fields
from tests.stored import decode_messages

from ..broker.sim_broker import SimBroker, SimClient, sim_broker
from ..golden_files import golden_lines
from ..sim import turns

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "PID_gold_tx"
ROUND_S = 2.0


def frames() -> list[dict[str, Any]]:
    return [
        frame
        for frame in golden_lines("json-wire")
        if frame["kind"] != "resp"
        and (frame["code"] in (37, 39) or "TRAN_MSG\x01true" in str(fields(frame).get("i")))
    ]


def fields(frame: dict[str, Any]) -> dict[str, str]:
    return frame["header"].get("extFields") or {}


def body(frame: dict[str, Any]) -> bytes:
    data = bytes.fromhex(frame["hex"])
    return data[len(data) - frame["bodyLen"] :]


def original(topic: str) -> list[dict[str, Any]]:
    """What the original has stored in a topic: what does not depend on time and place."""
    cluster = {"DefaultCluster": "C"}
    return [
        {
            "properties": {
                name: cluster.get(value, value) for name, value in record["properties"].items()
            },
            "queueOffset": record["queueOffset"],
            "queueId": record["queueId"],
            "flag": record["flag"],
            "sysFlag": record["sysFlag"],
            "bodyCRC": record["bodyCRC"],
            "prepared": record["preparedTransactionOffset"] > 0,
        }
        for record in golden_lines("store-clean-master.dump")
        if record["type"] == "msg" and record["topic"] == topic
    ]


def ours(world: SimBroker, topic: str) -> list[dict[str, Any]]:
    messages = decode_messages(world.broker.store.get(topic, 0, 0).body)
    assert len(messages) == world.broker.store.max_offset(topic, 0)
    return [
        {
            "properties": message.properties,
            "queueOffset": message.queue_offset,
            "queueId": message.queue_id,
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "bodyCRC": message.body_crc,
            "prepared": message.prepared_transaction_offset > 0,
        }
        for message in messages
    ]


class Played:
    """The captured producer, talking to our broker."""

    def __init__(self, world: SimBroker, client: SimClient) -> None:
        self.world = world
        self.client = client
        self.places: dict[str, tuple[int, int]] = {}
        """Of a transaction: number and offset of its newest half message, as our broker said."""
        self.asked: list[tuple[dict[str, str], MessageExt]] = []

    async def send(self, frame: dict[str, Any]) -> None:
        changed = {**fields(frame), "g": str(self.world.clock.time_ms())}
        header = from_fields(SendMessageRequestV2, changed)
        sent = (
            (await self.client.ask(RequestCode.SEND_MESSAGE_V2, header, body(frame))).check().header
        )
        key = dict(pair.split("\x01") for pair in changed["i"].split("\x02"))["UNIQ_KEY"]
        self.places[key] = sent.queue_offset, parse_offset_message_id(sent.msg_id).phy_offset

    async def end(self, frame: dict[str, Any]) -> None:
        """Oneway, as captured, with the places that our broker named."""
        number, phy_offset = self.places[fields(frame)["msgId"]]
        assert int(fields(frame)["tranStateTableOffset"]) == number
        header = from_fields(
            EndTransactionRequest,
            {
                **fields(frame),
                "tranStateTableOffset": str(number),
                "commitLogOffset": str(phy_offset),
            },
        )
        self.client.connection.invoke_oneway(RequestCode.END_TRANSACTION, header)
        await turns()

    async def round(self) -> None:
        self.world.clock.advance(ROUND_S)
        await self.world.broker.storage.transaction_check.check()
        await turns()
        for (_, request), record in zip(self.client.pushed, self.client.pushed_bodies, strict=True):
            assert isinstance(request, CheckTransactionStateRequest)
            message = decode_record(record)
            self.asked.append((to_fields(request), message))
            self.places[message.msg_id] = request.tran_state_table_offset, request.commit_log_offset
        self.client.pushed.clear()
        self.client.pushed_bodies.clear()


def test_the_captured_transactions_end_as_they_did(tmp_path: Path) -> None:
    async def main() -> None:
        config: dict[str, Any] = {  # as in golden/conf
            "transaction_time_out": 1000,
            "transaction_check_max": 3,
        }
        async with sim_broker(tmp_path, **config) as world:
            client = world.connect()
            await client.heartbeat("c", producers=(GROUP,))
            await client.send("Other", b"so that no half message lies at 0")
            played = Played(world, client)
            captured = frames()
            for frame in captured:
                if frame["code"] == 310:
                    await played.send(frame)
                elif frame["code"] == 37:
                    await played.end(frame)
                elif len(played.asked) < 1 + sum(
                    f["code"] == 39 for f in captured[: captured.index(frame)]
                ):
                    await played.round()
            await played.round()  # gives up
            for topic in (HALF, OP, "GoldTx", GIVEN_UP):
                assert ours(world, topic) == original(topic), topic
            await world.broker.storage.transaction_check.check()
            positions = [
                world.broker.state.offsets.get("CID_RMQ_SYS_TRANS", topic, 0)
                for topic in (HALF, OP)
            ]
            assert positions == [10, 4]  # consumerOffset.json of the capture
            compare_questions(played.asked, [frame for frame in captured if frame["code"] == 39])

    asyncio.run(main())


def compare_questions(
    asked: list[tuple[dict[str, str], MessageExt]], captured: list[dict[str, Any]]
) -> None:
    """By transaction and check: the original asks in any order."""

    def key(message: MessageExt) -> tuple[str, str]:
        return message.msg_id, message.properties["TRANSACTION_CHECK_TIMES"]

    ours_by_key = {key(message): (header, message) for header, message in asked}
    theirs = [(fields(frame), decode_record(body(frame))) for frame in captured]
    assert ours_by_key.keys() == {key(message) for _, message in theirs}
    for header, message in theirs:
        our_header, our_message = ours_by_key[key(message)]
        assert our_header.keys() == header.keys()
        for name in ("tranStateTableOffset", "msgId", "transactionId"):
            assert our_header[name] == header[name]
        assert our_message.properties == {**message.properties, "CLUSTER": "C"}
        for attribute in (
            "topic",
            "queue_id",
            "queue_offset",
            "flag",
            "sys_flag",
            "body",
            "reconsume_times",
        ):
            assert getattr(our_message, attribute) == getattr(message, attribute)
        assert int(our_header["commitLogOffset"]) == our_message.commit_log_offset
        assert our_header["offsetMsgId"] == our_message.offset_msg_id
