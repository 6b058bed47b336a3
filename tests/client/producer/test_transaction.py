"""What a broker is told about a transaction that failed."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq import Message, MessageExt, TransactionProducer, TransactionState
from aiorocketmq.client.errors import ClientStateError
from aiorocketmq.client.producer.sending import SendResult, SendStatus
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Handler, Reply
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.commands.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)

from ...sim import SimOwner, turns
from ..messages import stored
from ..scripted_broker import ADDRESS, ScriptedBroker


def test_the_reason_of_an_unknown_end_goes_along() -> None:
    async def scenario() -> None:
        broker = ScriptedBroker()
        told: list[tuple[int, bool | None, str | None]] = []

        def hear(request: EndTransactionRequest, _body: Body, ctx: Context) -> None:
            told.append((request.commit_or_rollback, request.from_transaction_check, ctx.remark))

        broker.owner = SimOwner(Dispatcher({RequestCode.END_TRANSACTION: hear}), clock=broker.clock)
        instance = broker.instance()
        [queue] = broker.know_topic(instance, "T", 1)

        async def check(message: MessageExt) -> TransactionState:
            if message.body == b"good":
                return TransactionState.COMMIT
            raise LookupError("no database" + "!" * 2000)

        producer = TransactionProducer("g", checker=check, instance=instance)
        sent = SendResult(
            SendStatus.SEND_OK, "ID", "7F00000100002A9F0000000000000000", queue, 0, "ID"
        )
        transaction = producer.transaction(Message("T", b"x"))
        transaction._sent = sent
        await transaction.end(TransactionState.COMMIT)
        await transaction.end(TransactionState.ROLLBACK, KeyError("k"))
        request = CheckTransactionStateRequest(
            tran_state_table_offset=1, commit_log_offset=2, transaction_id="ID"
        )
        await producer._check(request, stored(1, b"good"), ADDRESS)
        await producer._check(request, stored(1, b"bad"), ADDRESS)
        for _ in range(20):
            await asyncio.sleep(0)
        assert told[:3] == [
            (8, False, None),
            (12, False, "executeLocalTransactionBranch exception: KeyError: 'k'"),
            (8, True, None),
        ]
        decision, from_check, remark = told[3]
        assert (decision, from_check) == (0, True)
        assert remark is not None
        assert remark.startswith("checkLocalTransactionState exception: LookupError: no database!!")
        assert len(remark) == 1000

    asyncio.run(scenario())


def test_nobody_is_asked_about_a_transaction_that_is_still_open() -> None:
    """Its traces are not there yet: the checker would say that it is rolled back, and the local
    part commits."""

    async def scenario() -> None:
        broker = ScriptedBroker()
        told: list[tuple[int, bool | None]] = []
        asked: list[str] = []
        half: list[str] = []

        def hear(request: EndTransactionRequest, _body: Body, _ctx: Context) -> None:
            told.append((request.commit_or_rollback, request.from_transaction_check))

        def store(request: SendMessageRequest, _body: Body, _ctx: Context) -> Reply:
            half.append(request.properties or "")
            return Reply(
                header=SendMessageResponse(
                    msg_id="7F00000100002A9F0000000000000000", queue_id=0, queue_offset=0
                )
            )

        handlers: dict[RequestCode, Handler] = {
            RequestCode.END_TRANSACTION: hear,
            RequestCode.SEND_MESSAGE: store,
            RequestCode.SEND_MESSAGE_V2: store,
        }
        broker.owner = SimOwner(Dispatcher(handlers), clock=broker.clock)
        instance = broker.instance()
        broker.know_topic(instance, "T", 1)

        async def check(message: MessageExt) -> TransactionState:
            asked.append(message.msg_id)
            return TransactionState.ROLLBACK

        producer = TransactionProducer("g", checker=check, instance=instance)
        request = CheckTransactionStateRequest(
            tran_state_table_offset=1, commit_log_offset=2, transaction_id="ID"
        )
        producer._running = True  # what else starting does is not wanted here
        async with producer.transaction(Message("T", b"x")) as transaction:
            its_own = stored(1, b"x", properties={"UNIQ_KEY": transaction.msg_id})
            await producer._check(request, its_own, ADDRESS)
        await producer._check(request, its_own, ADDRESS)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(half) == 1
        assert asked == [transaction.msg_id]
        assert told == [(0, True), (8, False), (12, True)]

    asyncio.run(scenario())


def test_an_end_that_nobody_can_be_told_is_no_error_of_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its local part is done: whoever sees an error would do it again."""

    async def scenario() -> None:
        broker = ScriptedBroker()
        instance = broker.instance()
        [queue] = broker.know_topic(instance, "T", 1)

        async def just_started(_topic: str) -> None:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "name server not ready", "ns:9876")

        instance.routes._brokers.clear()
        monkeypatch.setattr(instance.routes, "refresh", just_started)
        producer = TransactionProducer("g", checker=lambda _: 8, instance=instance)  # type: ignore[arg-type,return-value]
        transaction = producer.transaction(Message("T", b"x"))
        transaction._sent = SendResult(
            SendStatus.SEND_OK, "ID", "7F00000100002A9F0000000000000000", queue, 0, "ID"
        )
        ending = asyncio.create_task(transaction.end(TransactionState.COMMIT))
        while not ending.done():
            await asyncio.sleep(0)
            broker.clock.advance(0.1)
        await ending

    asyncio.run(scenario())
    [told] = [each.getMessage() for each in caplog.records if "was not told" in each.getMessage()]
    assert "COMMIT" in told
    assert "name server not ready" in told


def test_a_producer_that_could_not_start_leaves_the_checker_of_its_group_alone() -> None:
    async def scenario() -> None:
        instance = ScriptedBroker().instance()
        await instance.start()
        first = TransactionProducer(
            "g", checker=lambda _: TransactionState.COMMIT, instance=instance
        )
        second = TransactionProducer(
            "g", checker=lambda _: TransactionState.COMMIT, instance=instance
        )
        await first.start()
        with pytest.raises(ClientStateError, match="has a producer of the group g already"):
            await second.start()
        await second.stop()
        assert instance.checkers == {"g": first._check}
        await first.stop()
        assert instance.checkers == {}
        await instance.stop()

    asyncio.run(scenario())


def test_a_checker_that_does_not_return_keeps_one_place(caplog: pytest.LogCaptureFixture) -> None:
    """Its broker asks again each minute. The answer has the numbers of the newest question."""

    async def scenario() -> None:
        broker = ScriptedBroker()
        told: list[tuple[str | None, int, int]] = []
        go, calls = asyncio.Event(), 0

        def hear(request: EndTransactionRequest, _body: Body, _ctx: Context) -> None:
            told.append(
                (request.msg_id, request.tran_state_table_offset, request.commit_log_offset)
            )

        async def check(message: MessageExt) -> TransactionState:
            nonlocal calls
            calls += 1
            if message.body == b"hangs":
                await go.wait()
            return TransactionState.COMMIT

        broker.owner = SimOwner(Dispatcher({RequestCode.END_TRANSACTION: hear}), clock=broker.clock)
        producer = TransactionProducer("g", checker=check, instance=broker.instance())
        one = stored(1, b"hangs", properties={"UNIQ_KEY": "ONE"})
        other = stored(2, b"x", properties={"UNIQ_KEY": "OTHER"})
        asks = []
        for number in range(9):
            request = CheckTransactionStateRequest(
                tran_state_table_offset=number, commit_log_offset=10 + number
            )
            asks.append(asyncio.create_task(producer._check(request, one, ADDRESS)))
            await turns()
            broker.clock.advance(8)
        asks.append(asyncio.create_task(producer._check(request, other, ADDRESS)))
        await turns()
        assert (calls, told) == (2, [("OTHER", 8, 18)])
        go.set()
        await asyncio.gather(*asks)
        await turns()
        assert (calls, told[1:]) == (2, [("ONE", 8, 18)])

    asyncio.run(scenario())
    [slow] = [each.getMessage() for each in caplog.records if "checker takes" in each.getMessage()]
    assert "over 60 s" in slow
    assert "ONE" in slow


def test_each_broker_that_asks_about_a_message_is_answered() -> None:
    """The send of a half message that had to be tried again may have stored it at two."""

    async def scenario() -> None:
        broker, go = ScriptedBroker(), asyncio.Event()
        told: list[int] = []

        def hear(request: EndTransactionRequest, _body: Body, _ctx: Context) -> None:
            told.append(request.commit_log_offset)

        async def check(_message: MessageExt) -> TransactionState:
            await go.wait()
            return TransactionState.COMMIT

        broker.owner = SimOwner(Dispatcher({RequestCode.END_TRANSACTION: hear}), clock=broker.clock)
        producer = TransactionProducer("g", checker=check, instance=broker.instance())
        asks = [
            producer._check(
                CheckTransactionStateRequest(tran_state_table_offset=1, commit_log_offset=offset),
                stored(1, b"x", properties={"UNIQ_KEY": "ONE"}),
                address,
            )
            for offset, address in ((1, ADDRESS), (2, "127.0.0.1:10912"))
        ]
        asyncio.get_running_loop().call_soon(go.set)
        await asyncio.gather(*asks)
        await turns()
        assert told == [1, 2]

    asyncio.run(scenario())
