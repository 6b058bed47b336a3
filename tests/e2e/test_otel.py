"""Spans of sends and of handlers, as the real SDK exports them, over a real broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode

from aiorocketmq import (
    Accumulate,
    Message,
    MessageError,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    RetryLater,
    SendContext,
    SendFailed,
    StartFrom,
    TransactionProducer,
    TransactionState,
    sync,
)
from aiorocketmq.otel import OpenTelemetry

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, total_of, until

KNOWN = {
    value for name, value in vars(messaging_attributes).items() if name.startswith("MESSAGING")
}


class World:
    """What a program would export."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.hook = OpenTelemetry(provider)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name.startswith(name)]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    for span in world.spans():
        names = {name for name in span.attributes or {} if name.startswith("messaging.")}
        assert names <= KNOWN, "as the conventions have them"


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def shown(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def consumer_of(
    world: World, cluster: Cluster, topic: str, group: str, **options: Any
) -> PushConsumer:
    consumer = PushConsumer(
        group,
        namesrv=cluster.namesrv,
        suspend=SUSPEND,
        start_from=StartFrom.FIRST,
        hooks=[world.hook],
        **options,
    )
    consumer.subscribe(topic)
    return consumer


@pytest.mark.parametrize("kind", ["coroutine", "function"])
@asynchronous
async def test_a_handler_is_a_child_of_the_send(
    shared: Cluster, topic: str, group: str, world: World, kind: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    seen: list[tuple[int, object]] = []

    def function(_message: MessageExt) -> None:
        with world.tracer.start_as_current_span("inner"):
            seen.append(
                (
                    trace.get_current_span().get_span_context().trace_id,
                    baggage.get_baggage("tenant"),
                )
            )

    async def coroutine(message: MessageExt) -> None:
        function(message)

    consumer = consumer_of(world, shared, topic, group)
    consumer.on_message(coroutine if kind == "coroutine" else function)
    async with Producer("p", namesrv=shared.namesrv, hooks=[world.hook]) as producer, consumer:
        with world.tracer.start_as_current_span("outer") as outer:
            token = context.attach(baggage.set_baggage("tenant", "north"))
            try:
                sent = await producer.send(Message(topic, b"body", tags="t", keys=["k", "l"]))
            finally:
                context.detach(token)
        await until(lambda: world.spans("process"), "the handler")
        client_id = consumer.instance.client_id
    (send,), (process,), (inner,) = (
        world.spans("send"),
        world.spans("process"),
        world.spans("inner"),
    )
    assert (send.name, send.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert parent(send) == ids(outer)  # type: ignore[arg-type]
    assert (process.name, process.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert parent(process) == ids(send)
    assert linked(process) == [ids(send)]
    assert parent(inner) == ids(process)
    assert seen == [(ids(outer)[0], "north")]  # type: ignore[arg-type]
    assert {send.status.status_code, process.status.status_code} == {StatusCode.UNSET}
    attributes = shown(send)
    host, port = attributes.pop("server.address"), attributes.pop("server.port")
    assert producer.instance.routes.master(sent.queue.broker_name) == f"{host}:{port}"
    assert attributes.pop("messaging.client.id") == producer.instance.client_id
    assert attributes == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": f"{sent.queue.broker_name}-0",
        "messaging.message.id": sent.msg_id,
        "messaging.message.body.size": 4,
        "messaging.rocketmq.namespace": "",
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.message.tag": "t",
        "messaging.rocketmq.message.keys": ("k", "l"),
    }
    assert shown(process) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": f"{sent.queue.broker_name}-0",
        "messaging.consumer.group.name": group,
        "messaging.client.id": client_id,
        "messaging.message.id": sent.msg_id,
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "t",
        "messaging.rocketmq.message.keys": ("k", "l"),
        "aiorocketmq.outcome": "success",
    }


@asynchronous
async def test_lists_and_batches_have_a_link_for_each_send(
    shared: Cluster, topic: str, group: str, world: World
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    handled: list[int] = []
    consumer = consumer_of(world, shared, topic, group)
    consumer.on_batch(lambda messages: handled.append(len(messages)))
    async with Producer("p", namesrv=shared.namesrv, hooks=[world.hook]) as producer:
        await producer.send([Message(topic, b"1"), Message(topic, b"2")])
        await producer.send_soon(Message(topic, b"3"))
        await producer.send_oneway(Message(topic, b"4"))
        with pytest.raises(MessageError):
            await producer.send([Message(topic, b"5"), Message("Other", b"6")])
        async with consumer:
            await until(lambda: sum(handled) == 4, "the messages")
    batch, soon, oneway, refused = world.spans("send")
    assert shown(batch)["messaging.batch.message_count"] == 2
    assert "messaging.message.body.size" not in shown(batch)
    assert (refused.status.status_code, shown(refused)["error.type"]) == (
        StatusCode.ERROR,
        "MessageError",
    )
    processed = world.spans("process")
    links = [link for span in processed for link in linked(span)]
    assert set(links) == {ids(batch), ids(soon), ids(oneway)}
    assert all(len(set(linked(span))) == len(span.links) for span in processed)
    several = [span for span in processed if "messaging.batch.message_count" in shown(span)]
    assert all(span.parent is None for span in several)
    assert sum(shown(span).get("messaging.batch.message_count", 1) for span in processed) == 4


@asynchronous
async def test_a_handler_that_fails_and_one_that_wants_it_again(
    shared: Cluster, topic: str, group: str, world: World
) -> None:
    """Each try is a span of its own, in the trace of the send."""
    await create_topic(shared.namesrv, topic, 1)
    consumer = consumer_of(world, shared, topic, group, ordered=True, suspend_queue=0.01)
    fates: list[BaseException | None] = [ValueError("broken"), RetryLater(), None]

    @consumer.on_message
    async def handle(_message: MessageExt) -> None:
        if (fate := fates.pop(0)) is not None:
            raise fate

    async with Producer("p", namesrv=shared.namesrv, hooks=[world.hook]) as producer, consumer:
        await producer.send(Message(topic, b"body"))
        await until(lambda: len(world.spans("process")) == 3, "the third try")
    (send,) = world.spans("send")
    failed, again, done = world.spans("process")
    assert {parent(each) for each in (failed, again, done)} == {ids(send)}
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "broken"
    assert shown(failed)["error.type"] == "ValueError"
    assert [event.name for event in failed.events] == ["exception"]
    assert again.status.status_code is StatusCode.UNSET
    assert [event.name for event in again.events] == ["RetryLater"]
    outcomes = [shown(each)["aiorocketmq.outcome"] for each in (failed, again, done)]
    assert outcomes == ["exception", "failed", "success"]
    assert [shown(each).get("aiorocketmq.reconsume_times") for each in (again, done)] == [1, 2]


@asynchronous
async def test_a_message_that_comes_again_from_the_broker_is_in_the_same_trace(
    shared: Cluster, topic: str, group: str, world: World
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    consumer = consumer_of(world, shared, topic, group)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        if not message.reconsume_times:
            raise RetryLater(1)

    async with Producer("p", namesrv=shared.namesrv, hooks=[world.hook]) as producer, consumer:
        await producer.send(Message(topic, b"body"))
        await until(lambda: len(world.spans("process")) == 2, "the second try")
    (send,) = world.spans("send")
    assert [parent(each) for each in world.spans("process")] == [ids(send)] * 2
    assert {each.name for each in world.spans("process")} == {f"process {topic}"}


@asynchronous
async def test_attempts_that_failed_are_events_of_the_send(
    cluster: Cluster, topic: str, world: World
) -> None:
    await asyncio.to_thread(cluster.start_broker)
    await create_topic(cluster.namesrv, topic, 1)
    producer = Producer(
        "p", namesrv=cluster.namesrv, hooks=[world.hook], send_timeout=1.5, request_timeout=1.0
    )
    async with producer:
        await producer.send(Message(topic, b"first"))
        await asyncio.to_thread(cluster.kill_broker, "broker-a")
        with pytest.raises(SendFailed):
            await producer.send(Message(topic, b"second"))
    first, second = world.spans("send")
    assert not first.events
    assert second.status.status_code is StatusCode.ERROR
    assert shown(second)["error.type"] in ("SendFailed", "SendTimedOut")
    attempts = [event for event in second.events if event.name == "attempt failed"]
    assert attempts
    assert {(event.attributes or {})["error.type"] for event in attempts} <= {
        "ConnectError",
        "NothingListensError",
        "ConnectionLostError",
    }


@asynchronous
async def test_every_way_of_sending_and_asking(
    shared: Cluster, topic: str, group: str, world: World
) -> None:
    """Gathered, in a transaction, with a context that the program has put there itself; read by
    asking."""
    await create_topic(shared.namesrv, topic, 1)
    options: dict[str, Any] = {"namesrv": shared.namesrv, "hooks": [world.hook]}

    async def checker(_message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN

    async with Producer("p", accumulate=Accumulate(linger=0), **options) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % number)) for number in range(2))
        )
    async with TransactionProducer("t", checker=checker, **options) as till:
        async with till.transaction(Message(topic, b"in a transaction")):
            pass
    gathered, half = world.spans("send")[:2], world.spans("send")[2]
    assert [shown(span)["messaging.message.id"] for span in gathered] == [
        result.msg_id for result in results
    ]
    assert shown(half)["messaging.rocketmq.message.type"] == "transaction"
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with Producer("p", **options) as producer:
        await producer.send(Message(topic, b"own", properties={"traceparent": own}))
    its_own = (int(own[3:35], 16), int(own[36:52], 16))
    assert linked(world.spans("send")[3]) == [its_own]
    async with PullConsumer(
        group, topic, namesrv=shared.namesrv, start_from=StartFrom.FIRST, suspend=SUSPEND
    ) as consumer:
        messages = await total_of(consumer, 4)
    for message in messages:
        with world.hook.process(message, group=group) as span:
            assert trace.get_current_span() is span
    with pytest.raises(ValueError, match="bad"), world.hook.process(messages, group=group):
        raise ValueError("bad")
    *single, together = world.spans("process")
    expected = [*map(ids, world.spans("send")[:3]), its_own]
    assert [parent(span) for span in single] == expected
    assert linked(together) == expected
    assert together.status.status_code is StatusCode.ERROR


def test_without_asyncio_the_span_of_the_thread_is_the_parent(
    shared: Cluster, topic: str, group: str, world: World
) -> None:
    asyncio.run(create_topic(shared.namesrv, topic, 1))
    done = threading.Event()
    consumer = sync.PushConsumer(
        group,
        namesrv=shared.namesrv,
        suspend=SUSPEND,
        start_from=StartFrom.FIRST,
        hooks=[world.hook],
    )
    consumer.subscribe(topic)

    @consumer.on_message
    def handle(_message: MessageExt) -> None:
        done.set()

    with sync.Producer("p", namesrv=shared.namesrv, hooks=[world.hook]) as producer, consumer:
        with world.tracer.start_as_current_span("outer") as outer:
            producer.send(Message(topic, b"1"))
        assert done.wait(20)
    (send,), (process,) = world.spans("send"), world.spans("process")
    assert parent(send) == ids(outer)  # type: ignore[arg-type]
    assert parent(process) == ids(send)


def test_other_hooks_go_on_beside_it(shared: Cluster, topic: str, world: World) -> None:
    seen: list[SendContext] = []
    other = SimpleNamespace(before_send=seen.append, after_send=seen.append)

    async def main() -> None:
        hooks: Sequence[Any] = [other, world.hook]
        async with Producer("p", namesrv=shared.namesrv, hooks=hooks, trace=True) as producer:
            await producer.send(Message(topic, b"1"))

    asyncio.run(main())
    assert [context.messages[0].properties for context in seen] == [{}, {}], "as it was given"
    assert len(world.spans("send")) == 1
