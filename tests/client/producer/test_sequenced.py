"""A lost answer never doubles a message: idempotent producers against brokers that keep the rules,
over a network that loses, delays and repeats."""

from __future__ import annotations

import asyncio
import itertools
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq import (
    Accumulate,
    BrokerError,
    ConfigError,
    IdempotenceNotSupported,
    Message,
    MessageError,
    MessageQueue,
    SendContext,
    SendFailed,
    SendResult,
    SendTimedOut,
    SequenceError,
    SequenceFenced,
    SequenceGap,
    SequencesFull,
    SequenceUnknown,
    TransactionProducer,
)
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.client.producer.sequences import RepeatedResult
from aiorocketmq.client.producer.transaction import TransactionState
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode

from ..messages import stored as stored_message
from .sequence_broker import ADDRESSES, HEARD, LOST, QUEUES, TOPIC, Broker, Fate, Network
from .test_request_reply import ASKED

QUEUE = QUEUES[1]
A, B = ADDRESSES.values()
IN_DOUBT = sorted(LOST | {Fate.COMMITTED_LATER, Fate.DEPOSED}, key=lambda fate: fate.name)
HELLO_IS_FINE = [Fate.FINE]
"""The first request to a queue is the question whether sequences are known."""


def message(number: int = 1) -> Message:
    return Message(TOPIC, b"%d" % number)


def broker_of(network: Network, queue: MessageQueue = QUEUE) -> Broker:
    return network.brokers[ADDRESSES[queue.broker_name]]


def send_all(
    network: Network, producer: Producer, numbers: range, queue: MessageQueue | None = QUEUE
) -> list[SendResult | SendFailed]:
    """One after the other."""

    async def scene() -> list[SendResult | SendFailed]:
        results: list[SendResult | SendFailed] = []
        for number in numbers:
            try:
                results.append(await producer.send(message(number), queue=queue))
            except SendFailed as error:
                results.append(error)
        return results

    return network.play(scene())


# --- whatever happens
# --------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """One call of ``send``."""

    queue: MessageQueue | None
    messages: int
    cancel_after: int | None
    """Turns of the event loop."""


orders = st.lists(
    st.builds(
        Order,
        st.sampled_from([None, QUEUES[1], QUEUES[1], QUEUES[2]]),
        st.sampled_from([1, 1, 1, 3]),
        st.sampled_from([None, None, None, 3, 8]),
    ),
    min_size=1,
    max_size=12,
)
fates = st.lists(
    st.sampled_from(
        [
            *([fate] for fate in Fate),
            *([Fate.FINE] * times for times in range(1, 4)),
            *([fate, *[Fate.REQUEST_TIMED_OUT] * 3] for fate in (Fate.LATE, Fate.ANSWER_LOST)),
        ]
    ),
    max_size=20,
)


async def carry_out(producer: Producer, order: Order, bodies: list[bytes]) -> object:
    """What came of it: a result, or an error."""
    parts = [Message(TOPIC, body) for body in bodies]
    sent = producer.send_soon(parts if len(parts) > 1 else parts[0], queue=order.queue)
    if order.cancel_after is not None:
        for _ in range(order.cancel_after):
            await asyncio.sleep(0)
        sent.cancel()
    try:
        return await sent
    except (SendFailed, BrokerError, asyncio.CancelledError) as error:
        return error


@pytest.mark.parametrize("repeats_over_epochs", [True, False])
@settings(deadline=None)
@given(orders=orders, fates=fates, timeout=st.sampled_from([0.5, 3.0]), later=st.integers(1, 9))
def test_what_is_acknowledged_is_stored_once_and_nothing_twice(
    *,
    repeats_over_epochs: bool,
    orders: list[Order],
    fates: list[list[Fate]],
    timeout: float,
    later: int,
) -> None:
    network = Network(itertools.chain(*fates))
    network.later = later
    for each in network.brokers.values():
        each.repeats_over_epochs = repeats_over_epochs
    producer = network.producer(send_timeout=timeout)
    bodies = [
        [b"%d.%d" % (index, part) for part in range(order.messages)]
        for index, order in enumerate(orders)
    ]

    async def scene() -> list[object]:
        ways = zip(orders, bodies, strict=True)
        return await asyncio.gather(*(carry_out(producer, *each) for each in ways))

    outcomes = network.play(scene())
    network.deliver_late(all_of_them=True)
    stored = [body for queue in network.stored().values() for body in queue]
    for order, parts, outcome in zip(orders, bodies, outcomes, strict=True):
        counts = {stored.count(part) for part in parts}
        if isinstance(outcome, SendResult):
            assert counts == {1}
            if (at := outcome.queue_offset) >= 0:
                assert network.stored()[outcome.queue][at : at + len(parts)] == parts
            assert order.queue in {None, outcome.queue}
        elif isinstance(outcome, asyncio.CancelledError) or getattr(outcome, "in_doubt", False):
            assert counts in ({0}, {1})
        else:
            assert counts == {0}, outcome
    for queue, log in network.stored().items():
        bound = [body for order, each in zip(orders, bodies, strict=True)
                 if order.queue == queue for body in each]  # fmt: skip
        kept = [body for body in log if body in bound]
        assert kept == sorted(kept, key=bound.index), "in the order of the calls"


# --- one failure
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", [None, QUEUE])
@pytest.mark.parametrize("fate", Fate)
def test_one_failure_is_mended(fate: Fate, queue: MessageQueue | None) -> None:
    network = Network([*HELLO_IS_FINE, fate])
    results = send_all(network, network.producer(), range(3), queue)
    assert all(isinstance(each, SendResult) for each in results)
    stored = [body for each in network.stored().values() for body in each]
    assert sorted(stored) == [b"0", b"1", b"2"]
    first = results[0]
    assert isinstance(first, SendResult)
    assert first.repeated is (fate in HEARD or fate is Fate.COMMITTED_LATER)
    assert (first.queue_offset == -1) is first.repeated


@pytest.mark.parametrize("fate", IN_DOUBT)
def test_a_message_in_doubt_stays_with_its_queue_and_number(fate: Fate) -> None:
    network = Network([*HELLO_IS_FINE, fate])
    send_all(network, network.producer(), range(1), None)
    sends = [where for where, code in network.asked if code is RequestCode.SEND_MESSAGE_V2]
    assert len(sends) == 2
    assert len(set(sends)) == 1
    assert len(set(network.brokers[sends[0]].sent)) == 1


def test_where_nothing_was_sent_another_broker_is_asked() -> None:
    network = Network()
    network.down.add(A)
    producer = network.producer()
    results = send_all(network, producer, range(4), None)
    assert {each.queue.broker_name for each in results if isinstance(each, SendResult)} == {"b"}


def test_a_broker_that_refuses_is_left_out() -> None:
    network = Network()
    broker_of(network, QUEUES[0]).send = lambda *_: (ResponseCode.TOPIC_NOT_EXIST, {})  # type: ignore[method-assign]
    producer = network.producer()
    results = send_all(network, producer, range(4), None)
    assert {each.queue.broker_name for each in results if isinstance(each, SendResult)} == {"b"}
    with pytest.raises(BrokerError, match="TOPIC_NOT_EXIST"):
        network.play(producer.send(message(), queue=QUEUES[0]))
    broker_of(network, QUEUES[2]).send = broker_of(network, QUEUES[0]).send  # type: ignore[method-assign]
    with pytest.raises(SendFailed, match="the message is not stored") as failed:
        network.play(producer.send(message()))
    assert not failed.value.in_doubt
    assert [each.broker_name for each in failed.value.attempts] in (["a", "b"], ["b", "a"])


@pytest.mark.parametrize("queue", [None, QUEUE])
def test_a_queue_is_not_given_up_while_its_broker_is_away(queue: MessageQueue | None) -> None:
    network = Network([*HELLO_IS_FINE, Fate.ANSWER_LOST])
    producer = network.producer()

    async def scene() -> SendResult:
        sent = producer.send_soon(message(), queue=queue)
        while len(network.asked) < 2:
            await asyncio.sleep(0)
        network.down.add(network.asked[0][0])
        await network.clock.sleep(2)
        assert not sent.done()
        network.down.clear()
        network.brokers[network.asked[0][0]].restart()
        return await sent

    assert network.play(scene()).repeated
    assert [b"1"] in network.stored().values()


# --- in doubt to the end
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("before", [0, 2])
def test_who_is_in_doubt_is_told_and_what_is_late_stays_out(
    *, is_stored: bool, before: int
) -> None:
    network = Network()
    network.later = 1000
    producer = network.producer()
    send_all(network, producer, range(before))
    lost = Fate.ANSWER_TIMED_OUT if is_stored else Fate.REQUEST_TIMED_OUT
    late = Fate.ANSWER_LOST if is_stored else Fate.LATE
    hello = HELLO_IS_FINE if not before else []
    network.fates = iter([*hello, late, *[lost] * 3])
    began = network.clock.monotonic()
    [failed] = send_all(network, producer, range(before, before + 1))
    assert isinstance(failed, SendTimedOut)
    assert failed.in_doubt
    assert "may be stored or not" in str(failed)
    assert network.clock.monotonic() - began == pytest.approx(3, abs=0.1)
    results = send_all(network, producer, range(before + 1, before + 4))
    assert all(isinstance(each, SendResult) for each in results)
    network.deliver_late(all_of_them=True)
    numbers = [*range(before), *([before] if is_stored else []), *range(before + 1, before + 4)]
    assert network.stored()[QUEUE] == [b"%d" % number for number in numbers]


def test_a_late_first_message_finds_a_later_epoch() -> None:
    """The broker knew nothing of the producer when the next message came."""
    network = Network([*HELLO_IS_FINE, Fate.LATE, *[Fate.REQUEST_TIMED_OUT] * 3])
    network.later = 1000
    producer = network.producer()
    failed, result = send_all(network, producer, range(2))
    assert isinstance(failed, SendTimedOut)
    assert isinstance(result, SendResult)
    assert network.stored()[QUEUE] == [b"1"]
    network.deliver_late(all_of_them=True)
    assert network.stored()[QUEUE] == [b"1"]
    assert [each[1:3] for each in broker_of(network).sent] == [(1, 1), (0, 0)]


def test_who_cancels_leaves_a_message_in_doubt() -> None:
    network = Network()
    producer = network.producer()

    async def scene() -> None:
        await producer.send(message(0), queue=QUEUE)
        network.fates = iter([Fate.ANSWER_TIMED_OUT])
        sent = producer.send_soon(message(1), queue=QUEUE)
        while not network.under_way:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        sent.cancel()
        await producer.send(message(2), queue=QUEUE)

    network.play(scene())
    assert network.stored()[QUEUE] == [b"0", b"1", b"2"]
    assert [each[1:3] for each in broker_of(network).sent] == [(0, 0), (0, 1), (1, 2)]


def test_what_was_certainly_not_stored_uses_no_number_up() -> None:
    network = Network([*HELLO_IS_FINE, *[Fate.NO_CONNECTION] * 9, *[Fate.BUSY] * 99])
    producer = network.producer(send_timeout=0.5)
    for _ in range(2):
        [failed] = send_all(network, producer, range(1))
        assert isinstance(failed, SendTimedOut)
        assert not failed.in_doubt
    network.fates = iter(())
    assert [type(each) for each in send_all(network, producer, range(1, 3))] == [SendResult] * 2
    assert [each[1:3] for each in broker_of(network).sent] == [(0, 0), (0, 1)]


def test_one_attempt_does_not_take_all_the_time() -> None:
    network = Network([*HELLO_IS_FINE, Fate.ANSWER_TIMED_OUT, Fate.REQUEST_TIMED_OUT])
    producer = network.producer(send_timeout=12)
    began = network.clock.monotonic()
    [result] = send_all(network, producer, range(1))
    assert isinstance(result, RepeatedResult)
    assert network.clock.monotonic() - began == pytest.approx(8, abs=0.1)


# --- what a broker may say
# --------------------------------------------------------------------------------------------------


def test_every_queue_of_a_broker_is_asked_for_once_and_after_a_restart() -> None:
    network = Network()
    producer = network.producer()
    send_all(network, producer, range(3))
    assert [code for _, code in network.asked].count(RequestCode.SEND_SEQUENCE_HELLO) == 1
    broker_of(network).restart()
    send_all(network, producer, range(3, 6))
    assert [code for _, code in network.asked].count(RequestCode.SEND_SEQUENCE_HELLO) == 2
    assert network.stored()[QUEUE] == [b"%d" % number for number in range(6)]


def test_a_broker_that_has_forgotten_gets_another_id() -> None:
    network = Network()
    producer = network.producer()
    send_all(network, producer, range(3))
    broker_of(network).forget()
    network.clock.advance(1)
    results = send_all(network, producer, range(3, 6))
    assert [type(each) for each in results] == [SendResult] * 3
    sent = broker_of(network).sent
    assert len({each.producer_id for each in sent}) == 2
    assert sent[-1].number == 2


def test_a_broker_that_forgets_a_message_in_doubt_is_told_of() -> None:
    network = Network()
    producer = network.producer()
    send_all(network, producer, range(1))
    network.fates = iter([Fate.ANSWER_LOST, Fate.FORGOTTEN])
    failed, result = send_all(network, producer, range(1, 3))
    assert isinstance(failed, SequenceUnknown)
    assert failed.in_doubt
    assert "may be stored or not" in str(failed)
    assert "forgotten" in str(failed)
    assert isinstance(result, SendResult)
    assert network.stored()[QUEUE] == [b"0", b"1", b"2"]


def test_a_broker_that_never_knows_is_not_asked_for_ever() -> None:
    network = Network()
    broker_of(network)._forgot_ms = network.clock.time_ms() * 2
    [failed] = send_all(network, network.producer(), range(1))
    assert isinstance(failed, SequenceUnknown)
    assert not failed.in_doubt
    assert len(broker_of(network).sent) == 2


def test_a_gap_is_told_and_gone_past() -> None:
    """The new master lacks two messages that were acknowledged."""
    network = Network()
    producer = network.producer()
    send_all(network, producer, range(3))
    [(key, known)] = broker_of(network).known.items()
    broker_of(network).known[key] = known._replace(next=1)
    failed, result = send_all(network, producer, range(3, 5))
    assert isinstance(failed, SequenceGap)
    assert not failed.in_doubt
    assert isinstance(result, SendResult)
    assert broker_of(network).sent[-1][1:3] == (1, 3)


def test_another_producer_of_the_same_id_is_told_of() -> None:
    network = Network()
    producer, copy = network.producer(), network.producer()
    send_all(network, producer, range(1))
    copy._delivery._ids = producer._delivery._ids = iter(["same", "one", "two"])  # type: ignore[attr-defined]
    producer._delivery._sequences.clear()  # type: ignore[attr-defined]
    send_all(network, producer, range(1, 2))
    copy._delivery._ids = iter(["same", "other"])  # type: ignore[attr-defined]
    failed, result = send_all(network, copy, range(2, 4))
    assert isinstance(failed, SequenceFenced)
    assert not failed.in_doubt
    assert isinstance(result, SendResult)
    assert network.stored()[QUEUE] == [b"0", b"1", b"3"]
    broker_of(network)._fences["one"] = 1
    producer._delivery._sequences.clear()  # type: ignore[attr-defined]
    failed, result = send_all(network, producer, range(4, 6))
    assert isinstance(failed, SequenceFenced)
    assert isinstance(result, SendResult)


def test_a_full_table_is_told_of() -> None:
    network = Network()
    broker_of(network).full = True
    [failed] = send_all(network, network.producer(), range(1))
    assert isinstance(failed, SequencesFull)
    assert isinstance(failed, SequenceError)
    assert not failed.in_doubt


def test_a_broker_of_java_gets_nothing() -> None:
    network = Network()
    broker_of(network).java = True
    [failed] = send_all(network, network.producer(), range(1))
    assert isinstance(failed, IdempotenceNotSupported)
    assert not failed.in_doubt
    assert f"a ({A})" in str(failed)
    assert network.stored()[QUEUE] == []


def test_an_answer_without_a_check_is_no_success() -> None:
    network = Network()
    producer = network.producer()
    send_all(network, producer, range(1))
    broker_of(network).java = True
    [failed] = send_all(network, producer, range(1, 2))
    assert isinstance(failed, IdempotenceNotSupported)
    assert failed.in_doubt
    assert "does not say" in str(failed)


# --- ways to send
# --------------------------------------------------------------------------------------------------


def test_queues_are_used_side_by_side() -> None:
    network = Network()
    producer = network.producer()

    async def scene() -> list[SendResult]:
        most = 0
        sent = [producer.send_soon(message(number)) for number in range(20)]
        while not all(each.done() for each in sent):
            most = max(most, len(network.under_way))
            await asyncio.sleep(0)
        assert most == len(QUEUES)
        return [each.result() for each in sent]

    results = network.play(scene())
    assert {each.queue for each in results} == set(QUEUES)
    for queue, log in network.stored().items():
        assert log == sorted(log, key=int), queue


def test_a_key_keeps_the_order_of_the_calls() -> None:
    network = Network([Fate.FINE, Fate.ANSWER_LOST, Fate.BUSY, Fate.REQUEST_TIMED_OUT])
    producer = network.producer()

    async def scene() -> None:
        await asyncio.gather(
            *(producer.send(message(number), sharding_key="key") for number in range(10))
        )

    network.play(scene())
    [log] = [log for log in network.stored().values() if log]
    assert log == [b"%d" % number for number in range(10)]


def test_nobody_waits_behind_a_broker_that_is_silent() -> None:
    network = Network()
    network.hangs.add(A)
    producer = network.producer()

    async def scene() -> list[object]:
        sends = (producer.send(message(number)) for number in range(40))
        return await asyncio.gather(*sends, return_exceptions=True)

    outcomes = network.play(scene())
    assert sum(isinstance(each, SendTimedOut) for each in outcomes) <= 2
    assert sum(isinstance(each, SendResult) for each in outcomes) >= 38


def test_lists_and_gathered_messages_and_compressed_ones() -> None:
    network = Network()
    producer = network.producer(accumulate=Accumulate(linger=0))

    async def scene() -> None:
        batch = [Message(TOPIC, b"%d" % number) for number in range(5)]
        first = await producer.send(batch, queue=QUEUE)
        network.fates = iter([Fate.ANSWER_LOST])
        again = await producer.send(batch[:2], selector=lambda queues, _: queues[1])
        assert (first.queue_offset, again.queue_offset) == (0, -1)
        for queue in QUEUES:
            await producer.send(Message(TOPIC, b"first"), queue=queue)
        network.fates = iter([Fate.ANSWER_LOST])
        gathered = await asyncio.gather(*(producer.send(each) for each in batch))
        assert all(each.repeated and each.queue_offset == -1 for each in gathered)
        assert len({each.msg_id for each in gathered}) == 5
        await producer.send(Message(TOPIC, b"x" * 5000), queue=QUEUE)

    network.play(scene())
    [*log, compressed] = network.stored()[QUEUE]
    assert log[:7] == [b"0", b"1", b"2", b"3", b"4", b"0", b"1"]
    assert len(compressed) < 5000
    assert sum(map(len, network.stored().values())) == 7 + 4 + 5 + 1


def test_a_consumed_message_that_is_sent_on_has_one_sequence() -> None:
    network = Network()
    old = {"SEND_SEQUENCE": "#abc:0:7:1", "city": "Graz"}
    network.play(network.producer().send(Message(TOPIC, b"x", properties=old), queue=QUEUE))
    [sent] = broker_of(network).sent
    assert sent.number == 0


def test_hooks_see_every_attempt_and_checks_forbid_it() -> None:
    seen: list[SendContext] = []

    class Hook:
        def before_send(self, context: SendContext) -> None:
            pass

        def after_send(self, context: SendContext) -> None:
            seen.append(context)

    def check(context: SendContext) -> None:
        if context.messages[0].body == b"7":
            raise ValueError("no sevens")

    network = Network([*HELLO_IS_FINE, Fate.ANSWER_LOST])
    producer = network.producer(hooks=[Hook()], checks=[check])
    [result] = send_all(network, producer, range(1))
    assert [each.result for each in seen] == [None, result]
    with pytest.raises(ValueError, match="no sevens"):
        network.play(producer.send(message(7), queue=QUEUE))
    send_all(network, producer, range(1, 2))
    assert broker_of(network).sent[-1][1:3] == (0, 1)


# --- what cannot be
# --------------------------------------------------------------------------------------------------


def test_what_has_no_sequence_is_refused() -> None:
    network = Network()
    producer = network.producer()

    async def scene() -> None:
        with pytest.raises(MessageError, match="delay level"):
            producer.send_soon(Message(TOPIC, b"x", delay_level=1))
        with pytest.raises(MessageError, match="retry topic"):
            await producer.send(Message("%RETRY%g", b"x"))
        with pytest.raises(ConfigError, match="queue with an id"):
            await producer.send(message(), queue=QUEUE._replace(queue_id=-1))
        with pytest.raises(ConfigError, match="waits for answers"):
            await producer.send_oneway(message())
        with pytest.raises(MessageError, match="request or a reply"):
            await producer.request(message())
        with pytest.raises(MessageError, match="request or a reply"):
            await producer.reply(stored_message(0, properties=ASKED), b"yes")
        with pytest.raises(MessageError, match="limit is 32767"):
            await producer.send(Message(TOPIC, b"x", properties={"a": "b" * 32_650}))

    network.play(scene())
    assert network.stored() == {queue: [] for queue in QUEUES}
    assert {code for _, code in network.asked} <= {RequestCode.SEND_SEQUENCE_HELLO}


@pytest.mark.parametrize("option", ["latency_fault", "retry_other_broker_on_not_ok"])
def test_options_that_do_not_go_together(option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        Producer("g", namesrv="ns:1", idempotent=True, **{option: True})  # type: ignore[arg-type]


def test_transactions_are_not_idempotent() -> None:
    with pytest.raises(ConfigError, match="TransactionProducer"):
        TransactionProducer(
            "g", namesrv="ns:1", idempotent=True, checker=lambda _: TransactionState.COMMIT
        )
