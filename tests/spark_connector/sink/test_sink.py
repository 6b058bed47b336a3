"""What a write waits for, what it tries again, and what it refuses. Brokers are functions; Spark is
not there."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")


from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.errors import ConfigError, SendFailed
from aiorocketmq.remoting.errors import BrokerError, ConnectError, RocketMQError
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.frames.frame import FrameError
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.compression import decompress_body
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.responses import Response
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS
from aiorocketmq.spark_connector.sink.chunks import Chunk
from aiorocketmq.spark_connector.sink.sink_delivery import (
    Deliverer,
    NotSafe,
    Outbox,
    TooLongError,
    Totals,
)
from aiorocketmq.spark_connector.sink.sink_options import parse_sink_options
from aiorocketmq.spark_connector.sink.waiting import DeliveryTimeoutError
from aiorocketmq.spark_connector.sink.write_columns import check_columns

from ...sim import ManualClock

NAMESRV = {"rocketmq.namesrv.addr": "ns:9876"}
ONCE = {"guarantee": "exactly_once", "stagingLocation": "/s"}


# --- brokers
# --------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A request that a broker got."""

    address: str
    code: RequestCode
    header: Any
    body: bytes


class World:
    """Two brokers with a queue each; ``answer`` gives a response code, or -1 for a broker that is
    not there. A pause passes at once."""

    def __init__(self, answer: Callable[[Seen, int], int], **options: str) -> None:
        self.clock = ManualClock()
        self.instance = ClientInstance(namesrv="ns:1", clock=self.clock)
        self.instance.remoting = self  # type: ignore[assignment]
        self.instance.masters = self.masters = _Masters(self.clock)  # type: ignore[assignment]
        self.seen: list[Seen] = []
        self._answer = answer
        self.instance.routes._store(topic_route("T", _route("ab")))
        self.deliverer = Deliverer(
            self.instance, parse_sink_options({**NAMESRV, "topic": "T", **options})
        )

    async def invoke(
        self, address: str, code: RequestCode, header: Any, body: bytes, *, timeout: float
    ) -> Response:
        self.seen.append(Seen(address, code, header, bytes(body)))
        await asyncio.sleep(0)
        result = self._answer(self.seen[-1], len(self.seen))
        if result < 0:
            raise ConnectError("refused")
        fields = {"msgId": "OFFSET", "queueId": str(header.queue_id), "queueOffset": "17"}
        return Response.of(
            RemotingCommand(code=result, opaque=1, flag=1, remark="why", ext_fields=fields),
            b"",
            code,
        )

    def back_off(self, _address: str) -> float:
        return 0.0

    def invoke_template(self, *_: object) -> None:
        """There is no connection yet."""


def _route(names: Iterable[str]) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            for name in names
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"{name}:1"})
            for name in names
        ],
    )


class _Masters:
    """Nobody waits for a master."""

    refusals: ClassVar[dict[str, object]] = {}

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.pauses: list[float] = []

    async def changed(self, _topic: str, seconds: float) -> None:
        self.pauses.append(seconds)
        self._clock.advance(seconds)

    def doubt(self, _topic: str) -> None:
        """The route stays as it is."""


BATCH = Chunk("T", None, memoryview(b"items"), 3)
BOUND = BATCH._replace(queue=MessageQueue("T", "b", 0))


def test_a_batch_goes_out_as_one() -> None:
    world = World(lambda *_: 0)
    asyncio.run(world.deliverer.deliver(BATCH))
    (seen,) = world.seen
    assert (seen.code, seen.body) == (RequestCode.SEND_BATCH_MESSAGE, b"items")
    assert (seen.header.batch, seen.header.producer_group, seen.header.topic) == (
        True,
        "spark-rocketmq-sink",
        "T",
    )


def test_a_long_body_goes_compressed() -> None:
    world = World(lambda *_: 0)
    asyncio.run(
        world.deliverer.deliver(
            Chunk("T", None, memoryview(b"c" * 9000), 1, "UNIQ_KEY\x01x", 7, True)
        )
    )
    (seen,) = world.seen
    assert (seen.code, seen.header.flag, seen.header.batch) == (
        RequestCode.SEND_MESSAGE_V2,
        7,
        False,
    )
    assert seen.header.sys_flag == MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB
    assert len(seen.body) < 1000
    assert decompress_body(seen.body, seen.header.sys_flag) == b"c" * 9000


def test_a_long_body_is_not_copied_before_it_is_compressed() -> None:
    """A copy of 64 MiB takes the loop of all tasks 36 ms."""
    world, body = World(lambda *_: 0), memoryview(bytes(16 << 20))
    chunk = Chunk("T", None, body, 1, "UNIQ_KEY\x01x", compress=True)
    asyncio.run(world.deliverer.deliver(chunk))  # imports what it needs
    tracemalloc.start()
    try:
        asyncio.run(world.deliverer.deliver(chunk))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_another_broker_takes_what_is_for_any_queue() -> None:
    world = World(lambda seen, _: -1 if seen.address == "a:1" else 0)
    asyncio.run(_deliver_all(world, [BATCH] * 4))
    assert world.masters.pauses == []


def test_a_bound_chunk_waits_for_its_broker() -> None:
    world = World(lambda _, number: -1 if number < 4 else 0)
    asyncio.run(world.deliverer.deliver(BOUND))
    assert [seen.address for seen in world.seen] == ["b:1"] * 4
    assert world.masters.pauses == [0.1, 0.2, 0.4]


def test_when_no_broker_comes_back_the_write_fails() -> None:
    world = World(lambda *_: -1, deliveryTimeout="1s")
    with pytest.raises(DeliveryTimeoutError, match=r"waited 1 s .* for a broker of T in vain"):
        asyncio.run(world.deliverer.deliver(BATCH))
    assert sum(world.masters.pauses) == pytest.approx(1)
    with pytest.raises(DeliveryTimeoutError, match="for the broker b in vain"):
        asyncio.run(world.deliverer.deliver(BOUND))
    world = World(lambda *_: -1, retries="1")
    with pytest.raises(SendFailed):
        asyncio.run(world.deliverer.deliver(BATCH))
    assert len(world.seen) == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "have the same SPARK_DEDUP_ID"),
        ({"dedupId": "false"}, "may be there twice then"),
        (ONCE, "with a writeId, has stored it does not store again"),
    ],
)
def test_who_waited_in_vain_hears_what_comes_of_a_repetition(
    options: dict[str, str], said: str
) -> None:
    world = World(lambda *_: -1, deliveryTimeout="1s", **options)
    with pytest.raises(DeliveryTimeoutError, match=said):
        asyncio.run(world.deliverer.deliver(BATCH))


def test_flow_control_is_waited_for_and_a_refusal_is_not() -> None:
    world = World(lambda _, number: ResponseCode.SYSTEM_BUSY if number == 1 else 0)
    asyncio.run(world.deliverer.deliver(BATCH))
    assert len(world.seen) == 2
    world = World(lambda *_: ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    with pytest.raises(BrokerError, match="why"):
        asyncio.run(world.deliverer.deliver(BATCH))
    assert len(world.seen) == 1


@pytest.mark.parametrize(("rows", "what"), [(1, "a row"), (3, "a frame of 3 rows")])
def test_what_is_too_long_is_named_with_its_length_and_what_to_do(rows: int, what: str) -> None:
    world = World(lambda *_: ResponseCode.MESSAGE_ILLEGAL)
    said = f"{what} for the topic T, 5 bytes, was refused: .*why.*raise maxMessageSize"
    with pytest.raises(TooLongError, match=said) as refused:
        asyncio.run(world.deliverer.deliver(BOUND._replace(rows=rows)))
    assert refused.value.__suppress_context__  # a page of them says nothing more
    assert len(world.seen) == 1


def test_what_no_frame_carries_is_named_too() -> None:
    def refuse(*_: object) -> int:
        raise FrameError("over the limit of 16777216")

    world = World(refuse)
    with pytest.raises(TooLongError, match=r"a row .* over the limit .*compressThreshold"):
        asyncio.run(world.deliverer.deliver(BATCH._replace(rows=1)))


def test_where_keys_may_go_is_asked_for_when_a_task_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker's process outlives its tasks and keeps routes: a broker that has died since would
    get a share of the keys, and hold them up for as long as ``deliveryTimeout``."""
    world = World(lambda *_: 0)
    now: list[str] = ["a"]

    async def ask(_topic: str) -> TopicRouteData:
        if not now:
            raise ConnectError("no name server answers")
        return _route(now)

    monkeypatch.setattr(world.instance.routes, "_ask", ask)
    for brokers, expected in ((["a"], ["a"]), (["a", "b"], ["a", "b"]), ([], ["a", "b"])):
        now[:] = brokers
        queues = asyncio.run(world.deliverer.queues("T"))
        assert [queue.broker_name for queue in queues] == expected


@pytest.mark.parametrize("require", ["true", "false"])
def test_less_safe_than_asked(require: str) -> None:
    world = World(lambda *_: ResponseCode.SLAVE_NOT_AVAILABLE, requireSendOk=require)
    if require == "true":
        with pytest.raises(NotSafe, match="SLAVE_NOT_AVAILABLE"):
            asyncio.run(world.deliverer.deliver(BATCH))
        assert {seen.address for seen in world.seen} == {"a:1", "b:1"}
    else:
        asyncio.run(world.deliverer.deliver(BATCH))
        assert len(world.seen) == 1


def test_bound_chunks_keep_their_order_when_the_first_has_to_wait() -> None:
    world = World(lambda _, number: -1 if number == 1 else 0)
    asyncio.run(
        _deliver_all(
            world, [BOUND._replace(body=memoryview(b"%d" % number)) for number in range(3)]
        )
    )
    assert [seen.body for seen in world.seen] == [b"0", b"0", b"1", b"2"]


def test_bound_chunks_keep_their_order_when_the_first_takes_longer_to_compress() -> None:
    world = World(lambda *_: 0)
    first = BOUND._replace(
        body=memoryview(bytes(1_000_000)), rows=1, properties="UNIQ_KEY\x01x", compress=True
    )
    asyncio.run(_deliver_all(world, [first, BOUND]))
    assert [seen.body for seen in world.seen][1:] == [b"items"]


def test_nothing_overtakes_a_bound_chunk_that_was_refused() -> None:
    """A task that is tried again sends it behind them."""

    def refuse_first(seen: Seen, _number: int) -> int:
        return ResponseCode.MESSAGE_ILLEGAL if seen.body == b"0" else 0

    world = World(refuse_first)

    async def deliver() -> list[BaseException | None]:
        chunks = [BOUND._replace(body=memoryview(b"%d" % number)) for number in range(3)]
        sent = map(world.deliverer.deliver, chunks)
        failures = await asyncio.gather(*sent, return_exceptions=True)
        await world.deliverer.deliver(BOUND._replace(queue=MessageQueue("T", "a", 0)))
        return failures

    first, *behind = asyncio.run(deliver())
    assert isinstance(first, TooLongError)
    assert behind == [first, first], "it names the chunk that was refused"
    assert [seen.body for seen in world.seen] == [b"0", b"items"]


async def _deliver_all(world: World, found: list[Chunk]) -> None:
    async with asyncio.TaskGroup() as group:
        for chunk in found:
            group.create_task(world.deliverer.deliver(chunk))


# --- a task's outbox
# --------------------------------------------------------------------------------------------------


class Loop:
    """An event loop in a thread."""

    def __enter__(self) -> Loop:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def submit(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


def test_a_task_ends_when_everything_is_acknowledged() -> None:
    under_way = most = done = 0

    async def deliver(_chunk: Chunk) -> None:
        nonlocal under_way, most, done
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        done += 1

    with Loop() as loop:
        outbox = Outbox(loop.submit, deliver, 4)
        for _ in range(50):
            outbox.put(BATCH)
        assert outbox.finish() == Totals(150, 50)
    assert (done, under_way) == (50, 0)
    assert 1 < most <= 4


@pytest.mark.parametrize("failing", [0, 9])
def test_a_failure_reaches_the_task(failing: int) -> None:
    async def deliver(chunk: Chunk) -> None:
        await asyncio.sleep(0)
        if chunk.rows == failing:
            raise ConnectError("gone")

    with Loop() as loop:
        outbox = Outbox(loop.submit, deliver, 2)

        def send_all() -> None:
            for number in range(10):
                outbox.put(BATCH._replace(rows=number))
            outbox.finish()

        with pytest.raises(RocketMQError, match="gone"):
            send_all()


def test_what_was_cancelled_is_not_acknowledged() -> None:
    """By somebody else than the task: a client that is closed, a process that ends."""

    async def deliver(chunk: Chunk) -> None:
        if chunk.rows == 1:
            raise asyncio.CancelledError

    with Loop() as loop:
        outbox = Outbox(loop.submit, deliver, 2)
        outbox.put(BATCH._replace(rows=1))
        with pytest.raises(RocketMQError, match="cancelled"):
            outbox.finish()


def test_a_task_that_ends_early_leaves_nothing_under_way() -> None:
    cancelled = threading.Event()

    async def deliver(_: Chunk) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with Loop() as loop:
        outbox = Outbox(loop.submit, deliver, 2)
        outbox.put(BATCH)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop.loop).result()
        outbox.give_up()
        assert cancelled.wait(30)


# --- options and columns
# ----------------------------------------------------------------------------------------------


def test_defaults_of_the_options() -> None:
    options = parse_sink_options({**NAMESRV, "checkpointLocation": "/c"}, {})
    assert (options.topic, options.group, options.retries, options.batch_bytes) == (
        None,
        "spark-rocketmq-sink",
        None,
        256 << 10,
    )
    assert (options.dedup, options.require_send_ok, options.orderly, options.drop_reserved) == (
        True,
        True,
        False,
        None,
    )
    assert (options.send_timeout_s, options.delivery_timeout_s) == (10.0, 120.0)
    assert (options.compress_over, options.dedup_key_columns) == (None, ())
    once = parse_sink_options({**NAMESRV, **ONCE, "guarantee": "Exactly_Once"}, {})
    assert (once.exactly_once, once.dedup) == (True, False)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topick": "T"}, "no option topick; did you mean topic"),
        ({"topic": "a/b"}, "a/b"),
        ({"batchBytes": "5m"}, "batchBytes is at most 4194304"),
        ({"batchBytes": "1"}, "at least 1024 bytes"),
        ({"sendTimeoutMs": "0"}, "sendTimeoutMs must be greater than 0"),
        ({"deliveryTimeout": "0"}, "deliveryTimeout must be greater than 0"),
        ({"dedupId": "false", "dedupPrefix": "p"}, "leave dedupPrefix and dedupKeyColumns out"),
        ({"dedupPrefix": "a\x02"}, "dedupPrefix must not hold"),
        ({**ONCE, "dedupId": "true", "dedupPrefix": "p"}, "dedupPrefix .* has writeId"),
        ({"reservedProperties": "keep"}, "one of error, drop"),
        ({"producerGroup": "a b"}, "a b"),
        ({"maxInFlight": "0"}, "maxInFlight must be a whole number"),
    ],
)
def test_options_that_cannot_be(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_sink_options({**NAMESRV, **given}, {})


def test_no_name_server() -> None:
    with pytest.raises(ConfigError, match="no name server"):
        parse_sink_options({"topic": "T"}, {})


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ({"value": "binary"}, "no column body among value"),
        ({"body": "int"}, "body must be string or binary, not int: to_json_body"),
        ({"body": "string", "Tags": "string"}, r"withColumnRenamed\('Tags', 'tags'\)"),
        (
            {"body": "string", "queueOffset": "bigint", "flag": "string"},
            r"flag must be int .*not string: cast\(flag as int\)",
        ),
        ({"body": "string", "keys": "array<int>"}, "keys must be string or array<string>"),
        ({"body": "string", "brokerName": "string"}, "give queueId too"),
        (
            {"body": "string", "properties": "map<string,int>"},
            "properties must be map<string,string>",
        ),
    ],
)
def test_columns_that_cannot_be(types: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_columns(types, topic_given=True)


def test_other_columns_are_not_written(caplog: pytest.LogCaptureFixture) -> None:
    read = {name: SOURCE_COLUMNS[name] for name in SOURCE_COLUMNS if name != "queueId"}
    check_columns({**read, "total": "double", "value": "string"}, topic_given=True)
    assert caplog.text == ""
    check_columns({"body": "string", "tag": "string"}, topic_given=True)
    assert "the column tag is not written; did you mean tags?" in caplog.text


def test_a_topic_must_come_from_somewhere() -> None:
    check_columns({"body": "string", "topic": "string"}, topic_given=False)
    with pytest.raises(ConfigError, match="nothing says where to write to"):
        check_columns({"body": "string"}, topic_given=False)


def test_columns_that_only_make_ids() -> None:
    check_columns(
        {"body": "string", "order": "bigint"}, topic_given=True, not_sent=("order", "body")
    )
    with pytest.raises(ConfigError, match="dedupKeyColumns names orders"):
        check_columns({"body": "string", "order": "bigint"}, topic_given=True, not_sent=("orders",))
