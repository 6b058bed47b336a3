"""Attempts: hooks see each of them, checks forbid them, slow brokers are got around, the VIP
channel takes the first one.

The brokers are functions; connections are none of this module's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.errors import SendFailed, SendTimedOut
from aiorocketmq.client.producer.delivery import Delivery, DeliverySettings
from aiorocketmq.client.producer.fault_latency import FaultLatency
from aiorocketmq.client.producer.hooks import MessageKind, SendContext, SendHooks
from aiorocketmq.client.producer.sending import Outgoing, SendStatus, single
from aiorocketmq.remoting.errors import ConnectError, RocketMQError, SystemBusy
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.responses import Response

from ...sim import ManualClock

PORTS = {"a": 10911, "b": 20911, "c": 30911}
STORED = {"msgId": "OFFSET", "queueId": "0", "queueOffset": "17"}


class World:
    """A client that knows three brokers with a queue each. ``answer`` is asked with address and
    number of the attempt."""

    def __init__(self, answer: Callable[[str, int], tuple[int, float]], **options: Any) -> None:
        self.clock = ManualClock()
        self.instance = ClientInstance(namesrv="ns:1", clock=self.clock, **options)
        self.instance.remoting = self.instance.name_servers._remoting = self  # type: ignore[assignment]
        self.addresses: list[str] = []
        self._answer = answer
        queues = [
            QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            for name in PORTS
        ]
        brokers = [
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"h:{port}"})
            for name, port in PORTS.items()
        ]
        self.instance.routes._store(
            topic_route("T", TopicRouteData(queue_datas=queues, broker_datas=brokers))
        )

    async def invoke(
        self,
        address: str,
        code: RequestCode,
        _header: object,
        _body: bytes,
        *,
        timeout: float,
        ext_fields: object = None,
    ) -> Response:
        if code is RequestCode.GET_ROUTEINFO_BY_TOPIC:
            raise ConnectError("the name server is away")
        self.addresses.append(address)
        result, seconds = self._answer(address, len(self.addresses))
        self.clock.advance(seconds)
        if result < 0:
            raise ConnectError("refused")
        return Response.of(
            RemotingCommand(code=result, opaque=1, flag=1, remark="why", ext_fields=STORED),
            b"",
            code,
        )

    def back_off(self, _address: str) -> float:
        return 0.0

    async def invoke_oneway(self, address: str, *_: object, timeout: float) -> None:
        self.addresses.append(address)


class Recorder:
    """A hook."""

    def __init__(self) -> None:
        self.events: list[tuple[str, SendContext]] = []

    def before_send(self, context: SendContext) -> None:
        context.notes["seen"] = True
        self.events.append(("before", context))

    def after_send(self, context: SendContext) -> None:
        assert context.notes["seen"]
        self.events.append(("after", context))


def outgoing(message: Message | None = None) -> Outgoing:
    message = message or Message("T", b"body")
    result = single(message, "ID", 1000)
    result.messages = (message,)
    return result


def test_hooks_see_every_attempt() -> None:
    async def scenario() -> None:
        world, recorder = World(lambda _, number: (-1 if number == 1 else 0, 0.25)), Recorder()
        delivery = Delivery(world.instance, "g", hooks=SendHooks([recorder], []))
        message = Message("T", b"body")
        result = await delivery.deliver(outgoing(message), None, 3)
        assert [name for name, _ in recorder.events] == ["before", "after", "before", "after"]
        failed, stored = recorder.events[1][1], recorder.events[3][1]
        assert isinstance(failed.error, ConnectError)
        assert failed.result is None
        assert (stored.result, stored.error, stored.seconds) == (result, None, 0.25)
        assert (stored.group, stored.messages, stored.kind) == ("g", (message,), MessageKind.NORMAL)
        assert stored.broker_address == world.addresses[1]
        assert failed.queue.broker_name != stored.queue.broker_name

    asyncio.run(scenario())


def test_what_a_hook_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def before_send(self, context: SendContext) -> None:
            raise KeyError("oh")

        after_send = before_send

    async def scenario() -> None:
        world, recorder = World(lambda *_: (0, 0)), Recorder()
        delivery = Delivery(world.instance, "g", hooks=SendHooks([Broken(), recorder], []))
        assert (await delivery.deliver(outgoing(), None, 3)).status is SendStatus.SEND_OK
        assert len(recorder.events) == 2

    asyncio.run(scenario())
    assert caplog.text.count("a send hook failed") == 2


def test_a_check_forbids_a_send_for_good() -> None:
    class Forbidden(Exception):
        pass

    def check(context: SendContext) -> None:
        raise Forbidden(context.queue.topic)

    async def scenario() -> None:
        world, recorder = World(lambda *_: (0, 0)), Recorder()
        delivery = Delivery(world.instance, "g", hooks=SendHooks([recorder], [check]))
        with pytest.raises(Forbidden, match="T"):
            await delivery.deliver(outgoing(), None, 3)
        with pytest.raises(Forbidden, match="T"):
            await delivery.deliver_oneway(outgoing(), None, 3)
        assert world.addresses == []
        assert recorder.events == []

    asyncio.run(scenario())


def test_oneway_has_hooks_too() -> None:
    async def scenario() -> None:
        world, recorder = World(lambda *_: (0, 0)), Recorder()
        await Delivery(world.instance, "g", hooks=SendHooks([recorder], [])).deliver_oneway(
            outgoing(), None, 3
        )
        (_, before), (_, after) = recorder.events
        assert before is after
        assert (after.oneway, after.result, after.error) == (True, None, None)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("message", "sys_flag", "kind"),
    [
        (Message("T", b"x"), 0, MessageKind.NORMAL),
        (Message("T", b"x"), MessageSysFlag.TRANSACTION_PREPARED, MessageKind.HALF),
        (Message("T", b"x", delay_level=1), MessageSysFlag.TRANSACTION_PREPARED, MessageKind.DELAY),
        (Message("T", b"x", properties={"__STARTDELIVERTIME": "1"}), 0, MessageKind.DELAY),
    ],
)
def test_hooks_are_told_the_kind_of_a_message(
    message: Message, sys_flag: int, kind: MessageKind
) -> None:
    async def scenario() -> None:
        world, recorder = World(lambda *_: (0, 0)), Recorder()
        sent = outgoing(message)
        sent.sys_flag |= sys_flag
        await Delivery(world.instance, "g", hooks=SendHooks([recorder], [])).deliver(sent, None, 3)
        assert recorder.events[0][1].kind is kind

    asyncio.run(scenario())


def test_a_slow_broker_and_a_failed_one_are_left_out() -> None:
    behaviour = {"h:10911": (0, 1.5), "h:20911": (-1, 0.0), "h:30911": (0, 0.01)}

    async def scenario() -> None:
        world = World(lambda address, _: behaviour[address])
        delivery = Delivery(world.instance, "g", faults=FaultLatency())
        for _ in range(20):
            await delivery.deliver(outgoing(), None, 3)
        assert sorted(world.addresses[:3]) == sorted(behaviour)
        assert set(world.addresses[3:]) == {"h:30911"}
        world.addresses.clear()
        world.clock.advance(61)  # 60 s for 1.5 s, ten minutes for a failure
        for _ in range(20):
            await delivery.deliver(outgoing(), None, 3)
        assert set(world.addresses) == {"h:30911", "h:10911"}

    asyncio.run(scenario())


def test_the_first_attempt_goes_over_the_vip_channel() -> None:
    async def scenario() -> None:
        world = World(lambda _, number: (-1 if number < 3 else 0, 0), vip_channel=True)
        result = await Delivery(world.instance, "g").deliver(outgoing(), None, 3)
        ports = [int(address.partition(":")[2]) for address in world.addresses]
        assert [port in (10909, 20909, 30909) for port in ports] == [True, False, False]
        assert PORTS[result.queue.broker_name] == ports[-1]
        world.addresses.clear()
        await Delivery(world.instance, "g").deliver_oneway(outgoing(), MessageQueue("T", "a", 0), 3)
        assert world.addresses == ["h:10909"]

    asyncio.run(scenario())


@pytest.mark.parametrize(("codes", "attempts"), [((), 1), ((2,), 3)])
def test_further_answers_may_be_tried_again(codes: tuple[int, ...], attempts: int) -> None:
    async def scenario() -> None:
        world = World(lambda *_: (2, 0))
        delivery = Delivery(world.instance, "g", DeliverySettings(retry_codes=codes))
        with pytest.raises(SystemBusy if attempts == 1 else SendFailed) as failure:
            await delivery.deliver(outgoing(), None, 3)
        assert isinstance(failure.value, RocketMQError)
        assert len(world.addresses) == attempts

    asyncio.run(scenario())


@pytest.mark.parametrize("bound", [None, MessageQueue("T", "a", 0)])
def test_when_the_time_is_up_nothing_is_sent(bound: MessageQueue | None) -> None:
    async def scenario() -> None:
        world = World(lambda *_: (0, 0))
        with pytest.raises(SendTimedOut):
            await Delivery(world.instance, "g").deliver(outgoing(), bound, 0.0)
        assert world.addresses == []

    asyncio.run(scenario())


def test_attempts_share_the_time() -> None:
    async def scenario() -> None:
        world = World(lambda *_: (-1, 2.0))
        with pytest.raises(SendTimedOut) as failure:
            await Delivery(world.instance, "g").deliver(outgoing(), None, 3.0)
        assert len(world.addresses) == len(failure.value.attempts) == 2

    asyncio.run(scenario())
