"""A group of brokers elects another master: whoever sends finds it as soon as the name server
knows, and asks neither too often."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq import Message, Producer, SendFailed, SendTimedOut, TransactionProducer
from aiorocketmq.client.cluster.master_watch import FIRST_GAP_S
from aiorocketmq.client.errors import Attempt, NoRouteError
from aiorocketmq.client.producer.sending import SendResult, SendStatus
from aiorocketmq.client.producer.transaction import TransactionState
from aiorocketmq.remoting.errors import BrokerError, ClientClosedError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..moving_master import (
    ELECTING,
    GONE,
    GROUP,
    NAME_SERVER,
    ONE,
    SLAVE,
    THREE,
    TOPIC,
    TWO,
    MovingMaster,
    Says,
)

BEFORE = {0: ONE, 2: TWO, 3: THREE}
MASTERLESS = {2: TWO, 3: THREE}
AFTER = {0: TWO, 1: ONE, 3: THREE}
ALL_SLAVES = {ONE: SLAVE, TWO: SLAVE, THREE: SLAVE}
SOON_S = 0.3
"""A gap between two questions, and a step of the clock."""

How = Callable[[Producer], Coroutine[None, None, SendResult]]


def plain(producer: Producer) -> Coroutine[None, None, SendResult]:
    return producer.send(Message(TOPIC, b"x"))


def by_key(producer: Producer) -> Coroutine[None, None, SendResult]:
    return producer.send(Message(TOPIC, b"x"), sharding_key="k")


def batch(producer: Producer) -> Coroutine[None, None, SendResult]:
    return producer.send([Message(TOPIC, b"x"), Message(TOPIC, b"y")])


def after_the_fast_path(producer: Producer) -> Coroutine[None, None, SendResult]:
    """Its only attempt has just failed."""
    failed = Attempt(GROUP, ONE, BrokerError(SLAVE.code, SLAVE.remark, ONE), 0.0)
    return producer.send_again(Message(TOPIC, b"x"), "ID", QUEUE, None, failed)


QUEUE = MessageQueue(TOPIC, GROUP, 1)


def fails_on_the_fast_path(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each first attempt goes to ``QUEUE`` of the old master, and is refused."""
    error = BrokerError(SLAVE.code, SLAVE.remark, ONE)
    failed = Attempt(GROUP, ONE, error, 0.0)
    target = SimpleNamespace(queue=QUEUE, address=ONE, failed=lambda *_: failed)

    def written(*_: object) -> object:
        answer = asyncio.get_running_loop().create_future()
        answer.set_exception(error)
        return target, "ID", 0.0, answer

    monkeypatch.setattr(producer, "_written", written)


class Scene(MovingMaster):
    """A producer that has sent before."""

    def __init__(
        self, brokers: dict[str, Says] | None = None, ids: dict[int, str] | None = None
    ) -> None:
        super().__init__(BEFORE if ids is None else ids, {**ALL_SLAVES, ONE: Says()})
        self.producer = Producer("g", instance=self.instance)
        self.producer._running = True
        self._next = brokers

    async def begin(self) -> None:
        if self.ids.get(0) == ONE:
            await self.producer.send(Message(TOPIC, b"first"))
        self.asked.clear()
        self.brokers |= self._next or {}

    def elect(self, *, known: bool = True) -> None:
        """The second broker is the master now."""
        self.brokers[TWO] = Says()
        if known:
            self.ids = AFTER


def play(scene: Callable[[], Scene], test: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            there = scene()
            await there.begin()
            await test(there)

    asyncio.run(main())


@pytest.mark.parametrize("says", [GONE, SLAVE, ELECTING])
@pytest.mark.parametrize("how", [plain, by_key, batch, after_the_fast_path])
@pytest.mark.parametrize("elected_after_s", [0.0, 0.6, 2.0])
def test_a_send_goes_to_the_new_master(says: Says, how: How, elected_after_s: float) -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(how(scene.producer))
        await scene.pass_time(elected_after_s)
        assert not sent.done()
        scene.elect()
        await scene.pass_time(SOON_S)
        assert sent.done()
        assert (await sent).status is SendStatus.SEND_OK
        assert len(scene.asked_of(TWO)) == 1
        assert len(scene.asked_of(ONE)) <= 2 + 3 * elected_after_s + 4
        assert len(scene.asked_of(NAME_SERVER)) <= 12 + 10 * elected_after_s

    play(lambda: Scene({ONE: says}), test)


@pytest.mark.parametrize("bound", [{"queue": QUEUE}, {"sharding_key": "k"}])
@pytest.mark.parametrize("soon", [False, True])
def test_what_is_bound_to_a_queue_goes_to_the_same_one(
    bound: dict[str, Any], soon: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(scene: Scene) -> None:
        fails_on_the_fast_path(scene.producer, monkeypatch)
        send = scene.producer.send_soon if soon else scene.producer.send
        sent = asyncio.ensure_future(send(Message(TOPIC, b"x"), **bound))
        scene.elect()
        await scene.pass_time(SOON_S)
        await sent
        assert len(scene.asked_of(TWO)) == 1
        [header] = scene.headers[-1:]
        assert isinstance(header, SendMessageRequestV2)
        assert header.queue_id == QUEUE.queue_id

    play(lambda: Scene({ONE: SLAVE}), test)


def test_a_route_without_a_master_is_waited_for() -> None:
    async def test(scene: Scene) -> None:
        sent = [asyncio.create_task(how(scene.producer)) for how in (plain, by_key, batch)]
        await scene.pass_time(0.2)
        scene.ids = MASTERLESS
        later = [asyncio.create_task(how(scene.producer)) for how in (plain, by_key, batch)]
        await scene.pass_time(1.0)
        assert not any(each.done() for each in sent + later)
        scene.elect()
        await scene.pass_time(SOON_S)
        assert len(await asyncio.gather(*sent, *later)) == 6

    play(lambda: Scene({ONE: GONE}), test)


def test_so_it_is_by_who_has_never_seen_one() -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(plain(scene.producer))
        await scene.pass_time(2.0)
        scene.elect()
        await scene.pass_time(SOON_S)
        assert (await sent).queue.broker_name == GROUP

    play(lambda: Scene(ids=MASTERLESS), test)


def test_the_time_limit_ends_it_and_tells_why() -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(plain(scene.producer))
        await scene.pass_time(2.9)
        assert not sent.done()
        await scene.pass_time(0.3)
        with pytest.raises(NoRouteError, match="no master at present"):
            await sent
        assert len(scene.asked_of(NAME_SERVER)) < 35

    play(lambda: Scene(ids=MASTERLESS), test)


@pytest.mark.parametrize("says", [GONE, SLAVE, ELECTING])
def test_what_was_tried_meanwhile_is_told_once(says: Says) -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(plain(scene.producer))
        await scene.pass_time(1.0)
        scene.ids = MASTERLESS
        await scene.pass_time(2.5)
        with pytest.raises(SendTimedOut) as failure:
            await sent
        [attempt] = failure.value.attempts
        assert attempt.broker_name == GROUP
        assert len(scene.asked_of(ONE)) <= 6

    play(lambda: Scene({ONE: says}), test)


def test_many_sends_ask_no_more_than_one() -> None:
    async def test(scene: Scene) -> None:
        sent = [asyncio.create_task(plain(scene.producer)) for _ in range(50)]
        await scene.pass_time(1.5)
        questions = scene.asked_of(NAME_SERVER)
        assert len(questions) <= 25
        assert min(b - a for a, b in itertools.pairwise(questions)) > FIRST_GAP_S - 0.001
        scene.elect()
        await scene.pass_time(SOON_S)
        assert len(await asyncio.gather(*sent)) == 50
        assert len(scene.asked_of(TWO)) == 50

    play(lambda: Scene({ONE: GONE}), test)


def test_a_client_that_is_stopped_waits_for_nobody() -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(plain(scene.producer))
        await scene.pass_time(0.5)
        await scene.instance._tasks.close()
        scene.closed = True
        await scene.pass_time(0.6)
        with pytest.raises(ClientClosedError):
            await sent

    play(lambda: Scene({ONE: GONE}), test)


def test_a_name_server_that_is_away_as_well() -> None:
    async def test(scene: Scene) -> None:
        scene.name_server_answers = False
        sent = asyncio.create_task(plain(scene.producer))
        await scene.pass_time(1.0)
        scene.name_server_answers = True
        scene.elect()
        await scene.pass_time(SOON_S)
        assert (await sent).status is SendStatus.SEND_OK

    play(lambda: Scene({ONE: GONE}), test)


def test_a_broker_without_replicas_is_not_waited_for() -> None:
    """No other will be the master; its disk is full, or it is being stopped."""

    async def test(scene: Scene) -> None:
        with pytest.raises(SendFailed):
            await plain(scene.producer)
        assert len(scene.asked_of(ONE)) == 3

    play(lambda: Scene({ONE: SLAVE}, {0: ONE}), test)


def test_other_errors_use_up_attempts() -> None:
    async def test(scene: Scene) -> None:
        with pytest.raises(SendFailed):
            await plain(scene.producer)
        assert len(scene.asked_of(ONE)) == 3

    play(lambda: Scene({ONE: Says(1, "some other error")}), test)


def test_a_topic_that_nobody_has_is_told_at_once() -> None:
    async def test(scene: Scene) -> None:
        scene.ids = {}
        with pytest.raises(NoRouteError, match="create it"):
            await scene.producer.send(Message("Unknown", b"x"))

    play(Scene, test)


def test_the_usual_send_asks_nobody_else() -> None:
    async def test(scene: Scene) -> None:
        for _ in range(10):
            await plain(scene.producer)
        assert len(scene.asked) == len(scene.asked_of(ONE)) == 10

    play(Scene, test)


def test_oneway_is_written_to_the_new_master() -> None:
    async def test(scene: Scene) -> None:
        sent = asyncio.create_task(scene.producer.send_oneway(Message(TOPIC, b"x")))
        await scene.pass_time(1.0)
        assert not sent.done()
        scene.elect()
        await scene.pass_time(SOON_S)
        await sent
        assert scene.asked_of(TWO)

    play(lambda: Scene({ONE: GONE}), test)


@pytest.mark.parametrize("known", [True, False])
def test_the_end_of_a_transaction_goes_to_the_new_master(
    known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The half message is there as well. Where there is no new one, the broker will ask."""

    async def test(scene: Scene) -> None:
        async def check(_message: object) -> TransactionState:
            return TransactionState.UNKNOWN

        producer = TransactionProducer("t", checker=check, instance=scene.instance)
        transaction = producer.transaction(Message(TOPIC, b"x"))
        queue = MessageQueue(TOPIC, GROUP, 0)
        transaction._sent = SendResult(SendStatus.SEND_OK, "ID", "7F" * 16, queue, 0, "ID")
        ended = asyncio.create_task(transaction.end(TransactionState.COMMIT))
        await scene.pass_time(1.0)
        assert not ended.done()
        scene.elect(known=known)
        await scene.pass_time(SOON_S if known else 2.5)
        await ended
        told = [code for _, address, code in scene.asked if address == TWO]
        assert told == [RequestCode.END_TRANSACTION] * known
        assert ("it will ask" in caplog.text) is not known

    play(lambda: Scene({ONE: GONE}), test)
