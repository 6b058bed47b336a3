"""Namespaces, VIP channel, address server, accumulator, long lists, hooks, traces, forks: against
real daemons."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Awaitable

import pytest

from aiorocketmq import (
    Accumulate,
    Admin,
    Message,
    MessageError,
    MessageExt,
    Producer,
    PullConsumer,
    SendContext,
    StartFrom,
    TransactionProducer,
    TransactionState,
    split,
)
from aiorocketmq.client.producer.hooks import MessageKind
from aiorocketmq.client.producer.message_ids import next_message_id
from aiorocketmq.client.producer.queue_choice import choose_by_key
from aiorocketmq.client.producer.trace import ConsumeTracer
from aiorocketmq.client.producer.trace_records import (
    Consumed,
    ConsumeOutcome,
    Consuming,
    Published,
    TraceRecord,
    TransactionEnded,
    decode_trace,
)
from aiorocketmq.local_cluster import LocalCluster

from .cluster import HOST, SUSPEND, Cluster, asynchronous, create_topic, total_of, until


@asynchronous
async def test_a_namespace_is_in_the_cluster_and_not_in_the_program(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, f"shop%{topic}", 4)
    selected: list[str] = []
    async with Producer(group, namesrv=shared.namesrv, namespace="shop") as producer:
        queues = await producer.queues(topic)
        assert {queue.topic for queue in queues} == {topic}
        sent = await producer.send(Message(topic, b"one"), sharding_key=7)
        assert sent.queue == choose_by_key(queues, 7)
        assert (await producer.send(Message(topic, b"two"), queue=queues[1])).queue == queues[1]
        batch = await producer.send([Message(topic, b"three"), Message(topic, b"four")])
        assert batch.queue.topic == topic
        await producer.send(
            Message(topic, b"five"), selector=lambda qs, m: (selected.append(m.topic), qs[0])[1]
        )
        await producer.send_oneway(Message(topic, b"six"))
        assert selected == [topic]
        async with Admin(namesrv=shared.namesrv) as admin:
            found = lambda: admin.producer_connection(f"shop%{group}", f"shop%{topic}")  # noqa: E731
            await until(found, "the broker knows the group of the namespace")
    async with PullConsumer(
        group, f"shop%{topic}", namesrv=shared.namesrv, suspend=SUSPEND
    ) as consumer:
        messages = await total_of(consumer, 6)
    assert {message.body for message in messages} == {
        b"one",
        b"two",
        b"three",
        b"four",
        b"five",
        b"six",
    }
    assert {
        m.properties.get("INSTANCE_ID")
        for m in messages
        if m.body in (b"one", b"two", b"five", b"six")
    } == {"shop"}


@asynchronous
async def test_two_namespaces_may_have_one_transaction_topic(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, f"shop%{topic}", 1)
    async with TransactionProducer(
        group, checker=lambda _: TransactionState.UNKNOWN, namesrv=shared.namesrv, namespace="shop"
    ) as producer:
        async with producer.transaction(Message(topic, b"sold")) as transaction:
            assert transaction.sent.queue.topic == topic
    async with PullConsumer(
        group, f"shop%{topic}", namesrv=shared.namesrv, suspend=SUSPEND
    ) as consumer:
        (message,) = await total_of(consumer, 1)
    assert message.body == b"sold"


@asynchronous
async def test_the_vip_channel_is_a_connection_of_its_own(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    port = shared.brokers["broker-a"].port
    async with Producer(group, namesrv=shared.namesrv, vip_channel=True) as producer:
        await producer.send(Message(topic, b"x"))
        await producer.send_oneway(Message(topic, b"y"))
        await producer.instance.heartbeat()
        assert set(producer.instance.remoting.addresses()) == {
            shared.namesrv,
            f"{HOST}:{port}",
            f"{HOST}:{port - 2}",
        }
    async with Admin(namesrv=shared.namesrv, vip_channel=True) as admin:
        (queue,) = await admin.read_queues(topic)
        await until(lambda: _is(admin.max_offset(queue), 2), "both messages are stored")
        assert f"{HOST}:{port - 2}" in admin.instance.remoting.addresses()


async def _is(value: Awaitable[object], expected: object) -> bool:
    return bool(await value == expected)


@asynchronous
async def test_an_address_server_tells_the_name_servers(
    shared: Cluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = f"{shared.namesrv}\n".encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (len(body), body)
        )
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Producer(group, address_server=f"{HOST}:{port}", unit_name="u") as producer:
            await producer.send(Message(topic, b"x"))
            assert producer.instance.client_id.endswith("@u")
    assert [request.partition(b"\r\n")[0] for request in asked] == [
        b"GET /rocketmq/nsaddr-u?nofix=1 HTTP/1.1"
    ]


@asynchronous
async def test_a_list_of_20_mib_goes_in_batch_frames(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 2)
    messages = [
        Message(topic, b"%06d" % number + b"x" * 65_530, keys=[str(number)])
        for number in range(320)
    ]
    async with Producer(group, namesrv=shared.namesrv) as producer:
        with pytest.raises(MessageError, match="split"):
            await producer.send(messages)
        parts = list(split(messages))
        assert len(parts) == 6
        results = [await producer.send(part, timeout=30) for part in parts]
    assert [len(result.msg_id.split(",")) for result in results] == [len(part) for part in parts]
    async with Admin(namesrv=shared.namesrv) as admin:
        assert (
            sum([await admin.max_offset(queue) for queue in await admin.read_queues(topic)]) == 320
        )


@asynchronous
async def test_single_sends_share_frames(shared: Cluster, topic: str, group: str) -> None:
    seen: list[int] = []

    class Counter:
        def before_send(self, context: SendContext) -> None:
            seen.append(len(context.messages))

        def after_send(self, context: SendContext) -> None:
            assert context.result is not None

    gather = Accumulate(max_bytes=8 << 10)
    async with Producer(
        group, namesrv=shared.namesrv, accumulate=gather, hooks=[Counter()]
    ) as producer:
        bodies = [b"%d" % number for number in range(500)]
        results = await asyncio.gather(*(producer.send(Message(topic, body)) for body in bodies))
        alone = await producer.send(Message(topic, b"x"), sharding_key=1)
        late = producer.send_soon(Message(topic, b"last"))  # stop waits for it
    results += [alone, late.result()]
    assert sum(seen) == 502
    assert len(seen) < 50
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        messages = await total_of(consumer, 502)
    found = {m.msg_id: (m.offset_msg_id, m.queue, m.queue_offset) for m in messages}
    assert found == {r.msg_id: (r.offset_msg_id, r.queue, r.queue_offset) for r in results}


async def traces_of(
    namesrv: str, trace_topic: str, count: int
) -> tuple[list[TraceRecord], list[MessageExt]]:
    """The first records in a trace topic."""
    records: list[TraceRecord] = []
    messages: list[MessageExt] = []
    async with PullConsumer(
        f"reads-{trace_topic}",
        trace_topic,
        namesrv=namesrv,
        suspend=SUSPEND,
        start_from=StartFrom.FIRST,
    ) as consumer:
        async with asyncio.timeout(30):
            while len(records) < count:
                for message in await consumer.poll():
                    messages.append(message)
                    records += decode_trace(message.body.decode())
    return records, messages


@asynchronous
async def test_what_was_sent_and_consumed_can_be_traced(
    shared: Cluster, topic: str, group: str
) -> None:
    own = f"trace-{topic}"
    await create_topic(shared.namesrv, topic, 1)
    await create_topic(shared.namesrv, own, 1)
    async with TransactionProducer(
        group, checker=lambda _: TransactionState.UNKNOWN, namesrv=shared.namesrv, trace=own
    ) as producer:
        one = await producer.send(Message(topic, b"body", tags="t", keys=["k1", "k2"]))
        two = await producer.send([Message(topic, b"12"), Message(topic, b"345", keys=["k3"])])
        async with producer.transaction(Message(topic, b"x", keys=["k4"])) as transaction:
            half = transaction.sent
        await producer.send_oneway(Message(topic, b"nobody knows"))
        broker_address = producer.instance.routes.master("broker-a")
    async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
        messages = await total_of(consumer, 5)
        tracer = ConsumeTracer(consumer.instance, group, own)
        tracer.after(tracer.before(messages[:2]), ConsumeOutcome.SUCCESS)
        tracer.after(tracer.before(messages[2:3]), ConsumeOutcome.EXCEPTION)
        await tracer.close()
    records, sent = await traces_of(shared.namesrv, own, 11)
    published = [record for record in records if isinstance(record, Published)]
    assert [(r.msg_id, r.tags, r.keys, r.body_length, r.kind, r.success) for r in published] == [
        (one.msg_id, "t", "k1 k2", 4, MessageKind.NORMAL, True),
        (two.msg_id.split(",")[0], None, None, 2, MessageKind.NORMAL, True),
        (two.msg_id.split(",")[1], None, "k3", 3, MessageKind.NORMAL, True),
        (half.msg_id, None, "k4", 1, MessageKind.HALF, True),
    ]
    assert {(r.group, r.topic, r.store_host, r.region) for r in published} == {
        (group, topic, broker_address, "DefaultRegion")
    }
    assert published[0].offset_msg_id == one.offset_msg_id
    (ended,) = [record for record in records if isinstance(record, TransactionEnded)]
    assert (ended.msg_id, ended.state, ended.from_check) == (half.msg_id, "COMMIT_MESSAGE", False)
    before = [record for record in records if isinstance(record, Consuming)]
    after = [record for record in records if isinstance(record, Consumed)]
    assert (
        [r.msg_id for r in before] == [m.msg_id for m in messages[:3]] == [r.msg_id for r in after]
    )
    assert [r.outcome.name for r in after] == ["SUCCESS", "SUCCESS", "EXCEPTION"]
    assert (
        before[0].request_id == before[1].request_id == after[0].request_id != after[2].request_id
    )
    assert {one.msg_id, "k1", "k2", "k3", "k4", *two.msg_id.split(",")} <= {
        key for m in sent for key in m.keys
    }
    assert {m.topic for m in sent} == {own}


@asynchronous
async def test_many_traces_are_sent_in_parts(shared: Cluster, topic: str, group: str) -> None:
    own = f"trace-{topic}"
    await create_topic(shared.namesrv, own, 1)
    async with Producer(group, namesrv=shared.namesrv, trace=own) as producer:
        for _ in range(3):
            await producer.send(
                [Message(topic, b"x", keys=[f"key-{n}-{'y' * 50}"]) for n in range(1000)]
            )
    records, messages = await traces_of(shared.namesrv, own, 3000)
    assert len(records) == 3000
    assert all(len(message.body) < 120_000 for message in messages)
    assert len({key for message in messages for key in message.keys}) == 4000


def test_two_clusters_in_one_process(topic: str) -> None:
    async def scenario() -> None:
        async with LocalCluster() as east, LocalCluster() as west:
            for cluster, body in ((east, b"east"), (west, b"west")):
                async with Producer("p", namesrv=cluster.namesrv_address) as producer:
                    await producer.send(Message(topic, body))
            for cluster, body in ((east, b"east"), (west, b"west")):
                async with PullConsumer(
                    "c", topic, namesrv=cluster.namesrv_address, suspend=SUSPEND
                ) as consumer:
                    assert [message.body for message in await total_of(consumer, 1)] == [body]

    asyncio.run(scenario())


def test_a_client_is_not_used_after_a_fork(shared: Cluster, topic: str) -> None:
    program = f"""
        import asyncio, os
        from aiorocketmq import ClientStateError, Message, Producer

        async def in_the_child(inherited):
            before = inherited.instance.client_id
            try:
                await inherited.send(Message({topic!r}, b"never"))
            except ClientStateError as error:
                print("refused:", error, flush=True)
            await inherited.stop()
            async with Producer("p", namesrv={shared.namesrv!r}) as producer:
                await producer.send(Message({topic!r}, b"child"))
                print("other id:", producer.instance.client_id != before, flush=True)

        async def main():
            async with Producer("p", namesrv={shared.namesrv!r}) as producer:
                await producer.send(Message({topic!r}, b"first"))
                if os.fork() == 0:
                    asyncio._set_running_loop(None)
                    asyncio.run(in_the_child(producer))
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
                await producer.send(Message({topic!r}, b"second"))

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "refused: this client was made before the process forked; make a new one in the child "
        "process",
        "other id: True",
    ]

    @asynchronous
    async def read() -> None:
        async with PullConsumer(
            f"c-{next_message_id(0)}", topic, namesrv=shared.namesrv, suspend=SUSPEND
        ) as consumer:
            bodies.update(message.body for message in await total_of(consumer, 3))

    bodies: set[bytes] = set()
    read()
    assert bodies == {b"first", b"child", b"second"}
