"""What people get wrong is told in words that say what is right."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq import run, sync
from aiorocketmq.client.admin import Admin
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.pull_consumer import PullConsumer
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.errors import ClientStateError, ConfigError, MessageError
from aiorocketmq.client.producer.batches import Accumulate
from aiorocketmq.client.producer.hooks import SendHooks
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.client.producer.sending import batch, plain_properties, single
from aiorocketmq.client.producer.transaction import (
    TransactionProducer,
    TransactionState,
    state_of,
)
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.bodies.heartbeat import MessageModel
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from .scripted_broker import ScriptedBroker

NAMESRV = "ns:9876"
make_producer: Any = Producer
make_push: Any = PushConsumer
make_pull: Any = PullConsumer
make_message: Any = Message
make_transactions: Any = TransactionProducer
"""As a program without types calls them."""


class AsyncHook:
    """Nobody would await it."""

    async def before_send(self, _context: object) -> None: ...

    async def after_consume(self, _context: object) -> None: ...


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: make_producer("g", namesrv=NAMESRV, send_timout=3),
        "no option send_timout; did you mean send_timeout"),
        (lambda: make_push("g", namesrv=NAMESRV, name_server="x"),
        "PushConsumer has no option name_server"),
        (lambda: make_pull("g", namesrv=NAMESRV, credential=None),
        "no option credential; did you mean credentials"),
        (
            lambda: TransactionProducer("g", checker=lambda _: TransactionState.COMMIT,
            cheker_concurrency=1),  # type: ignore[call-arg]
            "TransactionProducer has no option cheker_concurrency; did you mean check_concurrency",
        ),
        (
            lambda: Admin(namesrvs=NAMESRV),  # type: ignore[call-arg]
            "Admin has no option namesrvs; did you mean namesrv",
        ),
    ],
)  # fmt: skip
def test_an_option_that_does_not_exist(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: make_producer("g", namesrv=9876),
            "namesrv is 'host:9876' or a list of such texts, not 9876",
        ),
        (lambda: make_producer("g", namesrv=[9876]), "namesrv is 'host:9876' or a list"),
        (
            lambda: make_producer("g", namesrv=NAMESRV, send_timeout="3"),
            "send_timeout must be a number, not '3'",
        ),
        (lambda: make_producer("g", namesrv=NAMESRV, tls=True), "tls is an ssl.SSLContext"),
        (
            lambda: make_producer("g", namesrv=NAMESRV, credentials=("key", "hidden")),
            "credentials are Credentials",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV, start_from="first"),
            "start_from is one of StartFrom.LAST, ",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV, start_time="today"),
            "start_time is a datetime, not 'today'",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV, model="BROADCASTING"),
            "model is one of MessageModel.BROADCASTING",
        ),
        (
            lambda: make_pull("g", namesrv=NAMESRV, model="BROADCASTING"),
            "model is one of MessageModel.BROADCASTING",
        ),
        (lambda: make_push("g", namesrv=NAMESRV, cache=100), "cache is a CacheLimits"),
        (lambda: make_push("g", namesrv=NAMESRV, allocate="averagely"), "allocate is a function"),
        (lambda: make_push("g", namesrv=NAMESRV).on_message(None), "a handler is a function"),
        (
            lambda: make_push("g", namesrv=NAMESRV).on_message(lambda message, context: None),
            r"called with one message .*, <lambda>\(message, context\): missing a required "
            r"argument: 'context'",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV).on_batch(lambda: None),
            "called with a list of messages and nothing else",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV).subscribe("T", ["a"]),
            "an expression is a text such as 'TagA || TagB'",
        ),
        (lambda: make_producer(5, namesrv=NAMESRV), r"a group has a name, .* not 5 \(int\)"),
        (lambda: make_pull(None, namesrv=NAMESRV), "a group has a name, .* not None"),
        (lambda: make_pull("g", 5, namesrv=NAMESRV, namespace="n"), "a topic has a name, .* not 5"),
        (
            lambda: make_push("g", namesrv=NAMESRV, namespace="n").subscribe(5),
            "a topic has a name, which is text, not 5",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV).subscribe("T", "a | b"),
            r"asks for one tag 'a | b': tags are separated by \|\|\.",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV).subscribe("T", "price > 5"),
            r"'price > 5' asks for one tag of that name; as SQL it is Sql\('price > 5'\)",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, retries=-1),
            "retries must be 0 or more, not -1",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, accumulate=True),
            r"accumulate is Accumulate\(\), perhaps with max_bytes and linger, not True",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, hooks=[print]),
            "a hook has the methods before_send and after_send .*, unlike <built-in",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, retries="3"),
            "retries must be a number, not '3'",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, compress_level=99),
            "compress_level=99 is no level of zlib, whose highest is 9: ",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, compress_level="5"),
            "compress_level='5' is no level of zlib",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, compress_over=None),
            "compress_over must be a number",
        ),
        (
            lambda: make_producer("g", namesrv="a:9876,b:9876"),
            "several name servers are joined by ;, as in 'a:9876;b:9876', not 'a:9876,b:9876'",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, retry_codes=5),
            r"retry_codes is a list, perhaps of one, not 5 \(int\)",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, hooks=AsyncHook()),
            "hooks is a list, perhaps of one, not ",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, checks=print),
            "checks is a list, perhaps of one, not ",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, hooks=[AsyncHook()]),
            "before_send of a hook is a plain function, which nobody awaits: def, not async def",
        ),
        (
            lambda: make_producer("g", namesrv=NAMESRV, checks=[AsyncHook().before_send]),
            "a check is a plain function",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV, hooks=AsyncHook()),
            "hooks is a list, perhaps of one, not ",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV, hooks=[AsyncHook()]),
            "after_consume of a hook is a plain function",
        ),
        (
            lambda: make_pull("g", namesrv=NAMESRV, filters=[AsyncHook().before_send]),
            "a filter is a plain function",
        ),
        (lambda: make_pull("g", namesrv=NAMESRV, filters=print), "filters is a list"),
        (
            lambda: make_transactions("g", namesrv=NAMESRV, checker=lambda message, _: None),
            "checker is called with the message of a transaction and nothing else, <lambda>",
        ),
        (
            lambda: make_transactions("g", namesrv=NAMESRV, checker=None),
            "checker is a function that takes the message of a transaction, not None",
        ),
        (
            lambda: make_push("g", namesrv=NAMESRV).on_value(lambda value, message: None),
            r"on_value takes a serializer, as in @consumer.on_value\(JsonSerializer\(Order\)\), ",
        ),
        (lambda: make_push("g", namesrv=NAMESRV, stop_timeout=-1), "stop_timeout must be 0 or "),
        (
            lambda: make_push("g", namesrv=NAMESRV, max_reconsume_times=-5),
            "max_reconsume_times is 0 or more, or -1 for the usual .*, not -5",
        ),
        (lambda: make_push("g", namesrv=NAMESRV, suspend_queue=100), "suspend_queue is 30 s at "),
        (lambda: make_pull("g", namesrv=NAMESRV, offset_folder=5), "offset_folder is a path, not"),
    ],
)
def test_a_value_that_cannot_be_taken(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        call()
    assert "hidden" not in str(raised.value)


def test_a_compression_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(
        ConfigError, match=r"compression='lz4' needs .*install 'aiorocketmq\[lz4\]'"
    ):
        make_producer("g", namesrv=NAMESRV, compression="lz4")


@pytest.mark.parametrize("level", [-1, 0, 9])
def test_every_level_of_zlib_may_be_asked_for(level: int) -> None:
    make_producer("g", namesrv=NAMESRV, compress_level=level)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_of_offsets_is_a_path_or_its_text(kind: Any, tmp_path: Path) -> None:
    consumer = make_push(
        "g", namesrv=NAMESRV, offset_folder=kind(tmp_path), model=MessageModel.BROADCASTING
    )
    assert tmp_path in consumer._file.path.parents


def test_a_comma_between_tags_is_told(caplog: pytest.LogCaptureFixture) -> None:
    consumer = make_push("g", namesrv=NAMESRV)
    consumer.subscribe("T", "new || a,b")
    assert "several are joined by || topic=T tag='a,b'" in caplog.text
    caplog.clear()
    consumer.subscribe("T", "a || b")
    assert not caplog.records


def test_a_check_that_returns_false_forbids_nothing_and_that_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = SendHooks([], [lambda _: True, lambda _: False])
    context: Any = SimpleNamespace(queue=MessageQueue("T", "b", 0))
    hooks.before(context)
    hooks.before(context)
    assert [each.getMessage()[:23] for each in caplog.records] == ["check returned False, a"]


def test_a_producer_whose_instance_is_stopped() -> None:
    async def main() -> None:
        async with ClientInstance(namesrv=NAMESRV) as instance:
            producer = Producer("g", instance=instance)
            await producer.start()
        with pytest.raises(ClientStateError, match="the ClientInstance of this producer is stop"):
            await producer.send(Message("T", b"x"))

    asyncio.run(main())


@pytest.mark.parametrize(
    "handler",
    [print, functools.partial(max, 1), lambda message, more=1: None, lambda *_: None, len, str],
)
def test_whatever_takes_one_argument_is_a_handler(handler: Any) -> None:
    make_push("g", namesrv=NAMESRV).on_message(handler)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (make_message(b"body", "T"), "the topic must be text, not b'body'; it is Message"),
        (make_message("T", b"x", tags=["a"]), "the tags of a message are one text"),
        (make_message("T", b"x", tags=b"a"), "the tags of a message are one text"),
        (make_message("T", b"x", tags="a || b"), "a message has one tag, not 'a || b': nobody"),
        (make_message("T", b"x", tags="a | b"), r"a message has one tag, not 'a \| b'; what else"),
        (make_message("T", b"x", keys=[42]), r"a key must be text, not 42 \(int\)"),
        (make_message("T", b"x", keys=5), r"keys are a list of texts, or one text, not 5 \(int\)"),
        (make_message("T", b"x", delay_level=-1), r"delay level is 1 \(1 s\) to 18 .*, not -1"),
        (
            make_message("T", b"x", properties={"price": 3}),
            "names and values of properties must be text, not 3",
        ),
    ],
)
def test_a_message_of_wrong_parts(message: Message, text: str) -> None:
    sends: tuple[Callable[[], object], ...] = (
        lambda: single(message, "id", 1000),
        lambda: batch([message], ["id"], 1000),
    )
    for send in sends:
        with pytest.raises(MessageError, match=text):
            send()
    if isinstance(message.topic, str):
        with pytest.raises(MessageError, match=text):
            plain_properties(message, "id")


@pytest.mark.parametrize("wrong", [b"x", "Order", 5, ["x"], [b"x"], [Message("T", b"x"), None]])
def test_what_is_no_message(wrong: Any) -> None:
    async def main() -> None:
        async with Producer("g", namesrv=NAMESRV) as producer:
            with pytest.raises(
                MessageError,
                match=r"what is sent is a Message\(topic, body\) or a list of them, not ",
            ):
                await producer.send(wrong)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda admin: admin.create_topic("a b"), "illegal characters"),
        (lambda admin: admin.create_topic("127.0.0.1:10911", "Name"), "illegal characters"),
        (lambda admin: admin.create_topic("T", "Name"), "queues must be a number, not 'Name'"),
        (lambda admin: admin.create_topic(5), "a topic has a name, which is text, not 5"),
        (lambda admin: admin.create_topic("T", queues=0), "queues must be greater than 0"),
        (lambda admin: admin.create_topic("T", queues="8"), "queues must be a number"),
        (
            lambda admin: admin.create_topic_on("b:1", "T"),
            r"a TopicConfig\(topic_name=...\), not 'T'; create_topic\(name\) makes",
        ),
    ],
)
def test_a_topic_that_cannot_be_made(use: Callable[[Any], Awaitable[object]], text: str) -> None:
    async def main() -> None:
        async with Admin(namesrv=NAMESRV) as admin:
            with pytest.raises(ConfigError, match=text):
                await use(admin)

    asyncio.run(main())


@pytest.mark.parametrize("tags", ["not paid", "new order", "A|B", "is new", "a=b", "price>5"])
def test_what_may_be_a_tag(tags: str) -> None:
    if "|" not in tags:
        make_push("g", namesrv=NAMESRV).subscribe("T", tags)
    assert f"TAGS\x01{tags}\x02" in plain_properties(make_message("T", b"x", tags=tags), "id")


@pytest.mark.parametrize(
    ("make", "use", "text"),
    [
        (
            make_producer,
            lambda producer: producer.send(Message("T", b"x"), timeout="3"),
            "timeout must be a number, not '3'",
        ),
        (
            make_producer,
            lambda producer: producer.send([Message("T", b"x")], timeout="3"),
            "timeout must be a number, not '3'",
        ),
        (
            make_producer,
            lambda producer: producer.send_oneway(Message("T", b"x"), timeout="3"),
            "timeout must be a number, not '3'",
        ),
        (
            make_pull,
            lambda consumer: consumer.poll("Orders"),
            "timeout must be a number, not 'Orders'",
        ),
        (
            make_pull,
            lambda consumer: consumer.poll(1.0, max_messages=0),
            "max_messages must be greater than 0, not 0",
        ),
        (
            make_pull,
            lambda consumer: consumer.commit(5),
            r"what is committed is a dict, the next offset .* not 5 \(int\)",
        ),
        (
            make_pull,
            lambda consumer: consumer.commit({"Orders": 5}),
            r"a queue is a MessageQueue\(topic, .*, not 'Orders' \(str\)",
        ),
        (
            make_pull,
            lambda consumer: consumer.commit({MessageQueue("T", "b", 0): "5"}),
            "an offset must be a number, not '5'",
        ),
        (
            make_pull,
            lambda consumer: consumer.seek("Orders", 5),
            r"a queue is a MessageQueue\(topic, .*, not 'Orders' \(str\)",
        ),
        (
            make_pull,
            lambda consumer: asyncio.to_thread(consumer.pause, "Orders"),
            r"a queue is a MessageQueue\(topic, .*, not 'Orders' \(str\)",
        ),
    ],
)
def test_an_argument_that_cannot_be_taken(
    make: Any, use: Callable[[Any], Awaitable[object]], text: str
) -> None:
    async def main() -> None:
        if make is make_producer:
            client = make("g", namesrv=NAMESRV)
            await client.start()
        else:
            client = make("g", "Orders", namesrv=NAMESRV)
            client._state = "running"  # it starts only where a name server answers
        with pytest.raises(ConfigError, match=text):
            await use(client)
        await client.instance.stop()

    asyncio.run(main())


@pytest.mark.parametrize("make", [make_producer, make_pull, lambda _, **more: Admin(**more)])
def test_a_client_that_nobody_has_stopped(make: Any) -> None:
    async def main() -> None:
        await make("g", namesrv=NAMESRV).start()

    asyncio.run(main())
    with pytest.warns(ResourceWarning, match=r"unclosed (Producer|PullConsumer|Admin) .*; use 'as"):
        gc.collect()


def test_a_client_that_was_stopped_or_never_started_is_not_told(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def main() -> None:
        await stopped(make_producer("g", namesrv=NAMESRV))
        make_producer("g", namesrv=NAMESRV)
        with pytest.raises(ConfigError):
            make_producer("g", namesrv=5)

    asyncio.run(main())
    gc.collect()
    assert not recwarn.list


def test_a_blocking_client_that_nobody_has_stopped() -> None:
    producer = [sync.Producer("g", namesrv=NAMESRV)]
    producer[0].start()
    client, loop = producer[0]._client, producer[0]._loop
    with pytest.warns(ResourceWarning, match="unclosed Producer .*; use 'with'"):
        producer.clear()
    loop.run(client.stop())


async def stopped(client: Any) -> Any:
    await client.start()
    await client.stop()
    return client


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (make_producer, lambda client: client.send(Message("T", b"x"))),
        (make_producer, lambda client: client.queues("T")),
        (make_pull, lambda client: client.poll(0.001)),
        (make_pull, lambda client: asyncio.to_thread(client.subscribe, "T")),
        (make_push, lambda client: asyncio.to_thread(client.subscribe, "T")),
        (lambda _group, **options: Admin(**options), lambda client: client.cluster_info()),
        (lambda _group, **options: Admin(**options), lambda client: client.topic_route("T")),
        (lambda _group, **options: Admin(**options), lambda client: client.broker_config("b:1")),
        (
            lambda _group, **options: Admin(**options),
            lambda client: client.put_kv_config("n", "k", "v"),
        ),
    ],
)
def test_a_client_that_is_stopped(make: Any, use: Callable[[Any], Awaitable[object]]) -> None:
    async def main() -> None:
        client = make("g", namesrv=NAMESRV)
        if isinstance(client, PushConsumer):
            client._state = "stopped"  # it starts only where a name server answers
        else:
            await stopped(client)
        with pytest.raises(ClientStateError, match="stopped: make a new one"):
            await use(client)

    asyncio.run(main())


def test_a_consumer_that_reads_nothing() -> None:
    async def main() -> None:
        async with PullConsumer("g", namesrv=NAMESRV) as consumer:
            with pytest.raises(ClientStateError, match="reads nothing: give topics to Pull"):
                await consumer.poll(0.001)
            with pytest.raises(ClientStateError, match="reads nothing: give topics to Pull"):
                await anext(aiter(consumer))

    asyncio.run(main())


class Broken:
    """In place of what a producer has prepared for its plain messages."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def prepare(
        self, _message: Message, _key: object = None, _queue: MessageQueue | None = None
    ) -> None:
        raise self._error


def test_the_number_of_a_queue_is_no_queue() -> None:
    async def main() -> None:
        async with Producer("g", namesrv=NAMESRV) as producer:
            message = Message("T", b"x")
            with pytest.raises(ConfigError, match="queue is a MessageQueue"):
                await producer.send(message, queue=3)  # type: ignore[arg-type]
            producer.fast_path = Broken(AttributeError("'int' object has no attribute 'topic'"))  # type: ignore[assignment]
            with pytest.raises(ConfigError, match="queue is a MessageQueue"):
                await producer.send(message, queue=3)  # type: ignore[arg-type]
            with pytest.raises(AttributeError, match="topic"):
                await producer.send(message)

    asyncio.run(main())


def test_another_event_loop() -> None:
    producer, consumer, admin = (
        Producer("g", namesrv=NAMESRV),
        PullConsumer("g", namesrv=NAMESRV),
        Admin(namesrv=NAMESRV),
    )
    instance = ClientInstance(namesrv=NAMESRV)

    async def start() -> None:
        for client in (producer, consumer, admin, instance):
            await client.start()
        producer.fast_path = Broken(RuntimeError("Event loop is closed"))  # type: ignore[assignment]
        with pytest.raises(
            RuntimeError, match="Event loop is closed"
        ):  # its own loop: what went wrong is something else
            await producer.send(Message("T", b"x"))

    asyncio.run(start())
    for call in (
        lambda: producer.send(Message("T", b"x")),
        lambda: producer.send([Message("T", b"x")]),
        lambda: consumer.poll(0.001),
        lambda: admin.broker_config("b:1"),
        instance.stop,
    ):
        with pytest.raises(
            ClientStateError, match=r"started on another event loop: .*aiorocketmq\.sync"
        ):
            asyncio.run(call())
    for one in (producer.instance, consumer.instance, admin.instance, instance):
        one._state = "stopped"  # nothing else may stop them any more


@pytest.mark.parametrize("accumulate", [None, Accumulate(linger=0)])
def test_what_is_sent_from_another_event_loop_is_not_stored(accumulate: Accumulate | None) -> None:
    broker = ScriptedBroker()
    broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(
        header=SendMessageResponse(msg_id="I", queue_id=0, queue_offset=0)
    )
    instance = broker.instance()
    broker.know_topic(instance, "T", 1)
    producer = Producer("g", instance=instance, accumulate=accumulate)
    message = Message("T", b"x")

    async def soon() -> None:
        await producer.send_soon(message)

    with asyncio.Runner() as first:

        async def start() -> None:
            await instance.start()
            await producer.start()
            await producer._delivery.deliver(single(message, "0" * 32, 1000), None, 3.0)

        first.run(start())
        for call in (
            lambda: producer.send(message),
            lambda: producer.send([message]),
            lambda: producer.send_oneway(message),
            soon,
        ):
            with ThreadPoolExecutor(1) as pool, pytest.raises(ClientStateError, match="event loop"):
                pool.submit(asyncio.run, call()).result()
        first.run(asyncio.sleep(0.01))
        assert [code for code, _ in broker.asked].count(RequestCode.SEND_MESSAGE_V2) == 1
        first.run(producer.stop())
        first.run(instance.stop())


def test_a_selector_that_returns_the_number_of_a_queue() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        instance = broker.instance()
        broker.know_topic(instance, "T")
        async with instance, Producer("g", instance=instance) as producer:
            with pytest.raises(ConfigError, match=r"a selector chooses one of .*, not 1 \(int\)"):
                await producer.send(
                    Message("T", b"x"),
                    selector=lambda queues, message: 1,  # type: ignore[arg-type, return-value]
                )

    asyncio.run(main())


@pytest.mark.parametrize("returned", [True, "COMMIT", None])
def test_a_local_part_of_a_transaction_that_returns_no_state(returned: Any) -> None:
    with pytest.raises(ConfigError, match="a transaction returns a TransactionState, not "):
        state_of(returned)


async def an_async_main() -> None: ...


@pytest.mark.parametrize("wrong", [an_async_main, 5, None])
def test_what_is_not_to_be_run(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"run takes a coroutine, such as main\(\) of 'async def"):
        run(wrong)


def test_what_a_blocking_program_cannot_run() -> None:
    main = an_async_main()
    for wrong in (an_async_main, main):
        with pytest.raises(TypeError, match=r"a plain function; aiorocketmq\.run\(main\(\)\)"):
            sync.run(wrong)  # type: ignore[arg-type]
    main.close()
