"""What the driver decides about a batch, and what becomes of that when it is repeated. Brokers are
functions; Spark is not there."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra [spark] is not installed")

import pyarrow as pa

from aiorocketmq.broker.sends.sequences import Key, Sequences
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.errors import ConnectError, RequestError
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.responses import Response
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.shared_clients import SharedClients
from aiorocketmq.spark_connector.session.spark_version import (
    OLDEST_FOR_STREAM_WRITES,
    problem_with,
)
from aiorocketmq.spark_connector.sink import sink
from aiorocketmq.spark_connector.sink.encode import encode_items
from aiorocketmq.spark_connector.sink.exactly_once import send_batch
from aiorocketmq.spark_connector.sink.numbered_delivery import NotExactlyOnceError
from aiorocketmq.spark_connector.sink.sink import RocketMQArrowWriter, Written
from aiorocketmq.spark_connector.sink.sink_delivery import TooLongError
from aiorocketmq.spark_connector.sink.sink_options import SinkOptions, parse_sink_options
from aiorocketmq.spark_connector.sink.staging import (
    StagedTask,
    StagingError,
    name_of_rows,
)

from ...sim import ManualClock
from .test_sink import _Masters
from .test_staging import chunk, stage

BROKERS = {"a": "T", "b": "U"}
"""Each has a topic of its own, of one queue."""


class World:
    """``away`` brokers cannot be connected to; one comes back when it was asked so often."""

    def __init__(self) -> None:
        self.away: dict[str, int] = {}
        self.stored: list[bytes] = []
        """Rows."""
        self.tables = {name: Sequences(lambda: 100, lambda: 1000) for name in BROKERS}
        self.time_ms = 5
        self.loses: bytes | None = None
        """This row, when it has stored and acknowledged it, from the end of its log."""
        self.refuses: dict[bytes, int] = {}
        """Rows, and so often."""
        self.original: dict[str, int] = {}
        """Brokers that become some of the original after so many messages more."""
        self.asked: list[RequestCode] = []
        self.clients: list[ClientInstance] = []
        self.meanwhile: Callable[[], object] | None = None
        """Done before the first broker has said who it is."""

    async def instance(self, _: object = None) -> ClientInstance:
        clock = ManualClock()
        made = ClientInstance(namesrv="ns:1", clock=clock)
        made.remoting = self  # type: ignore[assignment]
        made.masters = _Masters(clock)  # type: ignore[assignment]
        made._state = "running"
        for name, topic in BROKERS.items():
            queue = QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            data = BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"{name}:1"})
            made.routes._store(
                topic_route(topic, TopicRouteData(queue_datas=[queue], broker_datas=[data]))
            )
        self.clients.append(made)
        return made

    async def close(self) -> None:
        """As a client's connections."""

    def connected_to(self, _address: str) -> None:
        """Nobody has to be told that a client leaves."""

    async def invoke(
        self, address: str, code: RequestCode, header: Any, body: bytes = b"", *, timeout: float
    ) -> Response:
        await asyncio.sleep(0)
        if (tries := self.away.get(address[0], 0)) > 0:
            self.away[address[0]] = tries - 1
            raise ConnectError(f"{address} is away")
        self.asked.append(code)
        if (left := self.original.get(address[0])) is not None:
            if left <= 0:
                return self._answer_of_the_original(code, body)
            self.original[address[0]] = left - (code != RequestCode.SEND_SEQUENCE_HELLO)
        if code == RequestCode.SEND_SEQUENCE_HELLO:
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await asyncio.to_thread(meanwhile)
            fields = {"expiresMs": "1000", "nowMs": str(self.time_ms)}
            return Response.of(
                RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields), b"", code
            )
        try:
            self._store(address[0], header, body)
        except RequestError as error:
            return Response.of(RemotingCommand(code=error.code, opaque=1, flag=1), b"", code)
        fields = {"msgId": "X", "queueId": "0", "queueOffset": "7", "sequence": "new"}
        return Response.of(RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields), b"", code)

    def _answer_of_the_original(self, code: RequestCode, body: bytes) -> Response:
        fields = {"msgId": "X", "queueId": "0", "queueOffset": "7"}
        if code == RequestCode.SEND_SEQUENCE_HELLO:
            refusal = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return Response.of(RemotingCommand(code=refusal, opaque=1, flag=1), b"", code)
        self.stored.append(bytes(body))
        return Response.of(RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields), b"", code)

    def _store(self, broker: str, header: Any, body: bytes) -> None:
        """Once, as it has its number. Raises ``RequestError``."""
        text = decode_properties(header.properties)["SEND_SEQUENCE"]
        sequence, table = SendSequence.parse(text), self.tables[broker]
        if (times := self.refuses.get(bytes(body), 0)) > 0:
            self.refuses[bytes(body)] = times - 1
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "the message is illegal")
        key = Key(sequence.producer_id, header.topic, 0)
        if not table.known(key, sequence, 1, self.time_ms):
            self.stored.append(bytes(body))
            if body == self.loses:
                self.loses = None
                self.stored.pop()
            else:
                table.stored(key, sequence, 0, 1, 7, 0, self.time_ms)

    def back_off(self, _address: str) -> float:
        return 0.0

    def invoke_template(self, *_: object) -> None:
        """There is no connection yet."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(BrokerAccess, "_clients", SharedClients(made.instance))
    yield made
    BrokerAccess.close_all()
    assert not any(client.running for client in made.clients)


@pytest.fixture
def options(tmp_path: Path) -> SinkOptions:
    given = {"namesrv": "ns:1", "guarantee": "exactly_once", "stagingLocation": str(tmp_path)}
    return parse_sink_options({**given, "deliveryTimeout": "10s"}, {})


def staged(location: Path, *rows: str, batch: int = 0) -> StagedTask:
    """For any queue of a topic, whose name a row begins with."""
    folder, name = location / "w" / str(batch), name_of_rows(0, 0)
    return stage(folder, name, *(chunk(row.encode(), topic=row[0]) for row in rows)).task


def test_a_write_that_is_done_leaves_no_client_behind(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Spark keeps the process: it would ask for routes for ever."""
    writer = RocketMQArrowWriter(options, "w")
    writer.commit([Written(1, 1, staged(tmp_path, "T"))])
    world.refuses[b"U"] = 1
    with pytest.raises(TooLongError):
        writer.commit([Written(1, 1, staged(tmp_path, "U"))])
    assert [client.running for client in world.clients] == [False, False]
    assert world.stored == [b"T"]


def test_batches_of_a_stream_come_from_one_producer(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    if (problem := problem_with("writing a stream", OLDEST_FOR_STREAM_WRITES)) is not None:
        pytest.skip(str(problem))
    from aiorocketmq.spark_connector.sink.stream_sink import RocketMQStreamArrowWriter

    writer = RocketMQStreamArrowWriter(options)
    for batch in range(2):
        rows = replace(staged(tmp_path, f"T{batch}", batch=batch), write_id="w")
        writer.commit([None, Written(1, 1, rows)], batch)
    assert world.stored == [b"T0", b"T1"]
    assert len({key.producer for key in world.tables["a"]._runs}) == 1


def test_batches_of_a_query_share_a_client(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    for batch in range(3):
        send_batch(options, "w", batch, [staged(tmp_path, "T", batch=batch)])
    assert [client.running for client in world.clients] == [True]


@pytest.mark.usefixtures("world")
def test_long_rows_are_encoded_a_few_at_a_time(
    options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many Spark gives: encoded, they take as much memory once more."""
    pieces: list[Any] = []

    def encode(batch: Any, *args: Any, **more: Any) -> Any:
        pieces.append(batch)
        return encode_items(batch, *args, **more)

    monkeypatch.setattr(sink, "encode_items", encode)
    monkeypatch.setattr(sink, "_MOST_BYTES", 1000)
    bodies = [b"%d" % number * (300 if number == 7 else 20) for number in range(1, 40)]
    rows = pa.record_batch([bodies, ["T"] * len(bodies)], ["body", "topic"])
    written = sink.write_rows(iter([rows.slice(0, 0), rows]), options, "w", None)
    assert written.rows == len(bodies)
    assert [body.as_py() for piece in pieces for body in piece.column("body")] == bodies
    assert max(piece.nbytes for piece in pieces if piece.num_rows > 1) <= 1000
    assert len(pieces) < 10


def test_a_topic_none_of_whose_brokers_answers_is_waited_for(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    world.away["b"] = 3
    assert send_batch(options, "w", 0, [staged(tmp_path, "T", "U")]) == 2
    assert world.stored == [b"T", b"U"]


def test_one_id_is_for_one_write(world: World, options: SinkOptions, tmp_path: Path) -> None:
    """As two writes of one ``foreachBatch``: the second one is none that is repeated."""
    named = replace(options, write_id="w")
    assert send_batch(named, "w", 0, [staged(tmp_path, "T")]) == 1
    assert send_batch(named, "w", 0, [staged(tmp_path, "T")]) == 1, "a repetition"
    with pytest.raises(ConfigError, match=r"writeId 'w', batch 0: .* wrote to T, not to U"):
        send_batch(named, "w", 0, [staged(tmp_path, "U")])
    assert send_batch(named, "w", 1, [staged(tmp_path, "U", batch=1)]) == 1
    assert world.stored == [b"T", b"U"]


def test_a_run_of_a_query_writes_a_batch_once(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Two writes of one ``foreachBatch`` with one id: the second one was taken for the first one,
    repeated. Nor may it be when the query, which fails, is started again."""
    named = replace(options, write_id="w")

    def write(*rows: str, run: str) -> int:
        return send_batch(named, "w", 0, [staged(tmp_path, *rows)], query="q", run=run)

    for run in ("1", "2"):
        assert write("T1", run=run) == 1, "and what a restart repeats"
        for _ in range(2):
            with pytest.raises(ConfigError, match="another write, none of whose rows is written"):
                write("T2", run=run)
        assert write(run=run) == 1, "nothing is lost"
    assert world.stored == [b"T1"]
    assert send_batch(named, "w", 1, [staged(tmp_path, "T3", batch=1)], query="q", run="2") == 1
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["1"]


def test_a_batch_before_one_that_is_done_is_refused(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """The checkpoint was set back. A broker whose queue had rows of that batch last would take
    other ones for them, and store more than those once more."""
    send_batch(options, "w", 0, [staged(tmp_path, "T0", "U0")])
    send_batch(options, "w", 1, [staged(tmp_path, "T1", batch=1)])
    with pytest.raises(NotExactlyOnceError, match=r"batch 0 .* batch 1, .* delete the folder of"):
        send_batch(options, "w", 0, [staged(tmp_path, "U2", "U3")])
    assert send_batch(options, "w", 0, [staged(tmp_path)]) == 0, "nothing is lost"
    assert send_batch(options, "w", 1, [staged(tmp_path, "T1", batch=1)]) == 1, "it goes on"
    assert world.stored == [b"T0", b"U0", b"T1"]


@pytest.mark.parametrize("is_half_sent", [False, True], ids=["done", "half sent"])
@pytest.mark.parametrize("is_in_foreach_batch", [False, True], ids=["writeStream", "foreachBatch"])
def test_a_batch_that_was_planned_anew_is_refused(
    world: World, tmp_path: Path, is_half_sent: bool, is_in_foreach_batch: bool
) -> None:
    """The checkpoint was set back by one, or has lost its end: its rows would be nowhere."""
    options, staging, plan = with_checkpoint(tmp_path, is_in_foreach_batch=is_in_foreach_batch)
    plan.write_text("v1 0-2")
    if is_half_sent:
        world.refuses[b"T1"] = 1
        with pytest.raises(TooLongError):
            send_batch(options, "w", 0, [staged(staging, "T0", "T1")], query="q")
    else:
        assert send_batch(options, "w", 0, [staged(staging, "T0", "T1")], query="q") == 2
    assert send_batch(options, "w", 0, [staged(staging, "T0", "T1")], query="q") == 2, "repeated"
    plan.write_text("v1 0-4")
    with pytest.raises(NotExactlyOnceError, match=r"batch 0 of w .* delete the folder of"):
        send_batch(options, "w", 0, [staged(staging, "T0", "T1", "T2", "T3")], query="q")
    assert world.stored == [b"T0", b"T1"]
    shutil.rmtree(staging / "w")
    again = [staged(staging, "T0", "T1", "T2", "T3")]
    assert send_batch(options, "w", 0, again, query="q") == 4, "what the error advises"


@pytest.mark.parametrize(("before", "now"), [(None, "v1 0-4"), ("v1 0-4", None)])
def test_where_the_plan_is_not_known_a_batch_is_the_one_of_its_number(
    world: World, tmp_path: Path, before: str | None, now: str | None
) -> None:
    """An earlier version noted none; Spark deletes that of old batches."""
    options, staging, plan = with_checkpoint(tmp_path)
    for text in (before, now):
        plan.unlink(missing_ok=True)
        if text is not None:
            plan.write_text(text)
        assert send_batch(options, "w", 0, [staged(staging, "T0")]) == 1
    assert world.stored == [b"T0"]


def test_a_checkpoint_that_is_out_of_reach_stops_nothing(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    away = replace(options, checkpoint="dbfs:/c")
    assert send_batch(away, "w", 0, [staged(tmp_path, "T0")]) == 1
    assert world.stored == [b"T0"]


def with_checkpoint(
    folder: Path, *, is_in_foreach_batch: bool = False
) -> tuple[SinkOptions, Path, Path]:
    """Options of a query with a checkpoint, where it stages rows, and where Spark notes the plan
    of batch 0."""
    checkpoint = folder / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    given = {"namesrv": "ns:1", "guarantee": "exactly_once", "deliveryTimeout": "10s"}
    more = {"writeId": "w", "stagingLocation": str(folder / "s")} if is_in_foreach_batch else {}
    options = parse_sink_options({**given, **more, "checkpointLocation": str(checkpoint)}, {})
    return options, Path(options.staging_location), checkpoint / "offsets" / "0"


def test_what_goes_on_from_a_copy_has_numbers_of_its_own(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Of a checkpoint, with what is staged in it: brokers took its rows for those of the first
    query, which had the same numbers."""
    send_batch(options, "w", 0, [staged(tmp_path, "T0")], run="1")
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    send_batch(options, "w", 1, [staged(tmp_path, "T1", batch=1)], run="1")
    shutil.rmtree(tmp_path / "w")
    (tmp_path / "copy").rename(tmp_path / "w")
    send_batch(options, "w", 1, [staged(tmp_path, "T2", "T3", batch=1)], run="2")
    assert world.stored == [b"T0", b"T1", b"T2", b"T3"]


def test_a_batch_that_was_half_sent_keeps_its_numbers_in_another_run(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    world.refuses[b"T1"] = 1
    with pytest.raises(TooLongError):
        send_batch(options, "w", 0, [staged(tmp_path, "T0", "T1")], run="1")
    assert send_batch(options, "w", 0, [staged(tmp_path, "T2")], run="2") == 2
    assert send_batch(options, "w", 1, [staged(tmp_path, "T3", batch=1)], run="2") == 1
    assert send_batch(options, "w", 2, [staged(tmp_path, "T4", batch=2)], run="2") == 1
    assert world.stored == [b"T0", b"T1", b"T3", b"T4"]
    assert len({key.producer for key in world.tables["a"]._runs}) == 1


def test_of_two_writes_at_once_with_one_id_one_is_refused(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """In threads, of one ``foreachBatch``: one of them decides, and both send that."""
    named = replace(options, write_id="w")
    world.meanwhile = lambda: send_batch(
        named, "w", 0, [staged(tmp_path, "T2")], query="q", run="r"
    )
    with pytest.raises(ConfigError, match="another write, none of whose rows is written"):
        send_batch(named, "w", 0, [staged(tmp_path, "T1")], query="q", run="r")
    assert world.stored == [b"T2"]


def test_a_write_that_is_done_is_none_with_more_rows(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """As of a job that runs every night with the same id: its rows would be nowhere."""
    named = replace(options, write_id="w")
    assert send_batch(named, "w", 0, [staged(tmp_path, "T1")]) == 1
    with pytest.raises(ConfigError, match=r"done, with 1 rows, and this one has 2, none of which"):
        send_batch(named, "w", 0, [staged(tmp_path, "T2", "T3")], counted=False)
    no_rows, one, two = staged(tmp_path), staged(tmp_path, "T4"), staged(tmp_path, "T5", "T6")
    assert send_batch(named, "w", 0, [no_rows], counted=False) == 1, "nothing is lost"
    assert send_batch(named, "w", 0, [one], counted=False) == 1, "it may be made anew"
    assert send_batch(named, "w", 0, [two]) == 1, "a micro-batch, whatever its plan makes now"
    assert world.stored == [b"T1"]


@pytest.mark.parametrize("first_batch", [0, 7])
@pytest.mark.parametrize("writer", ["new", ""])
def test_a_query_with_a_new_checkpoint_is_not_taken_for_the_old_one(
    world: World, options: SinkOptions, tmp_path: Path, first_batch: int, writer: str
) -> None:
    """It counts from 0 again: its first batches would be done, and nowhere."""
    named = replace(options, write_id="w")
    old = [staged(tmp_path, "T1", batch=first_batch)]
    assert send_batch(named, "w", first_batch, old, query="old") == 1
    with pytest.raises(ConfigError, match=r"writes of the query old, .* a writeId of its own, or"):
        send_batch(named, "w", 0, [staged(tmp_path, "T2")], query=writer)
    assert world.stored == [b"T1"]
    assert send_batch(named, "w", first_batch, old, query="old") == 1, "restarted after a crash"
    later = [staged(tmp_path, "T3", batch=first_batch + 1)]
    assert send_batch(named, "w", first_batch + 1, later, query="old") == 1
    assert world.stored == [b"T1", b"T3"]


def test_a_query_is_not_taken_for_a_write_of_no_query(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    named = replace(options, write_id="w")
    assert send_batch(named, "w", 0, [staged(tmp_path, "T1")], counted=False, query="") == 1
    again = [staged(tmp_path, "T1")]
    assert send_batch(named, "w", 0, again, counted=False, query="") == 1, "run once more"
    with pytest.raises(ConfigError, match=r"writes of no query, and this write is of the query q"):
        send_batch(named, "w", 0, [staged(tmp_path, "T2")], query="q")


@pytest.mark.parametrize(("before", "now"), [(None, "q"), ("q", None)])
def test_who_cannot_be_told_goes_on(
    world: World, options: SinkOptions, tmp_path: Path, before: str | None, now: str | None
) -> None:
    """What an earlier version decided, and what is written over Spark Connect."""
    named = replace(options, write_id="w")
    assert send_batch(named, "w", 0, [staged(tmp_path, "T1")], query=before) == 1
    assert send_batch(named, "w", 0, [staged(tmp_path, "T1")], query=now) == 1
    assert send_batch(named, "w", 1, [staged(tmp_path, "T2", batch=1)], query=now) == 1
    assert world.stored == [b"T1", b"T2"]


def test_what_was_half_done_may_come_with_other_rows(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """What it reads may have grown since: the rows of the first time are finished."""
    named = replace(options, write_id="w")
    world.loses = b"T2"
    with pytest.raises(NotExactlyOnceError):
        send_batch(named, "w", 0, [staged(tmp_path, "T1", "T2", "T3")])
    assert send_batch(named, "w", 0, [staged(tmp_path / "later", "T4")]) == 3
    assert world.stored == [b"T1", b"T2", b"T3"]


def test_a_query_with_another_topic_has_its_batch_in_the_first_one(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Its checkpoint says that it is the same."""
    assert send_batch(options, "w", 0, [staged(tmp_path, "T")]) == 1
    assert send_batch(options, "w", 0, [staged(tmp_path, "U")]) == 1
    assert world.stored == [b"T"]


def test_what_an_error_advises_sends_all_of_the_batch_anew(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """And not under numbers that one of the brokers has for other rows."""
    send_batch(options, "w", 0, [staged(tmp_path, "T0")])
    world.tables["b"].clear(floor_ms=100)
    with pytest.raises(NotExactlyOnceError, match="delete the folder of the query in"):
        send_batch(options, "w", 1, [staged(tmp_path, "T1", "U1", batch=1)])
    assert world.stored == [b"T0", b"T1"]
    world.time_ms = 200
    shutil.rmtree(tmp_path / "w")
    send_batch(options, "w", 1, [staged(tmp_path, "T2", "U2", batch=1)])
    assert world.stored == [b"T0", b"T1", b"T2", b"U2"]


def test_what_the_end_of_a_log_had_is_sent_again(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """As the error says."""
    world.loses = b"T2"
    rows = [staged(tmp_path, "T1", "T2", "T3")]
    with pytest.raises(NotExactlyOnceError, match="sent again when the query, or the write, is"):
        send_batch(options, "w", 0, rows)
    assert world.stored == [b"T1"]
    send_batch(options, "w", 0, rows)
    assert world.stored == [b"T1", b"T2", b"T3"]


def test_nothing_overtakes_a_row_that_was_not_sent(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """A broker takes the first number of a batch that comes, and what lies before it for stored."""
    world.refuses[b"T1"] = 1
    rows = [staged(tmp_path, "T1", "T2", "U1", "T3")]
    with pytest.raises(TooLongError):
        send_batch(options, "w", 0, rows)
    assert send_batch(options, "w", 0, rows) == 4
    assert [row for row in world.stored if row != b"U1"] == [b"T1", b"T2", b"T3"]
    assert world.stored.count(b"U1") == 1


def test_a_broker_of_the_original_that_takes_over_has_a_row_once(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """One of each queue, which was under way; nothing of a batch that is repeated then."""
    world.original = {"a": 2, "b": 2}
    rows = [staged(tmp_path, *(f"{topic}{n}" for n in range(9) for topic in "TU"))]
    with pytest.raises(NotExactlyOnceError, match="guarantee=exactly_once cannot be had there"):
        send_batch(options, "w", 0, rows)
    assert len(world.stored) == len(set(world.stored))
    assert set(world.stored) <= {f"{topic}{n}".encode() for n in range(3) for topic in "TU"}
    stored, world.asked = len(world.stored), []
    with pytest.raises(NotExactlyOnceError, match="guarantee=exactly_once cannot be had there"):
        send_batch(options, "w", 0, rows)
    assert len(world.stored) == stored
    assert set(world.asked) == {RequestCode.SEND_SEQUENCE_HELLO}


def test_a_master_that_takes_over_is_asked_whether_it_checks(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """Before it gets anything."""
    invoke, tables = world.invoke, world.tables
    tables["x"] = tables["a"]

    async def invoked(address: str, code: RequestCode, *rest: Any, **more: Any) -> Response:
        if b"T0" in world.stored and address == "a:1":
            data = BrokerData(cluster="C", broker_name="a", broker_addrs={0: "x:1"})
            queue = QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1, perm=6)
            route = TopicRouteData(queue_datas=[queue], broker_datas=[data])
            world.clients[-1].routes._store(topic_route("T", route))
            raise ConnectError("a:1 is away")
        if code == RequestCode.HEART_BEAT:
            raise ConnectError("x:1 wants none")
        return await invoke(address, code, *rest, **more)

    world.invoke, world.original = invoked, {"x": 0}  # type: ignore[method-assign]
    with pytest.raises(NotExactlyOnceError, match="guarantee=exactly_once cannot be had there"):
        send_batch(options, "w", 0, [staged(tmp_path, "T0", "T1")])
    assert world.stored == [b"T0"]


def test_nothing_is_decided_before_all_rows_can_be_read(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """The other task has staged its rows on a disk of its own."""
    mine = staged(tmp_path, "T1")
    theirs = staged(tmp_path / "elsewhere", "T2")
    with pytest.raises(StagingError, match=r"1 of 2 files .* the driver and all executors"):
        send_batch(options, "w", 0, [mine, theirs])
    assert world.stored == []
    assert send_batch(options, "w", 0, [mine, staged(tmp_path, "T2")]) == 2
    assert world.stored == [b"T1", b"T2"]


def test_a_batch_without_rows_leaves_nothing(
    world: World, options: SinkOptions, tmp_path: Path
) -> None:
    """A query may have no other ones for weeks, as one of dead letters."""
    send_batch(options, "w", 0, [staged(tmp_path, "T0")])
    for batch in (1, 2, 3):
        assert send_batch(options, "w", batch, [staged(tmp_path, batch=batch)]) == 0
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["0"]
    assert world.stored == [b"T0"]
