"""Who makes trouble, in a process of their own: idle connections, members of a group, and relays
that answer nonsense or lose packets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import random
import resource
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from aiorocketmq import MessageExt, PushConsumer
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)

from .load import QUEUES, TOPIC

GROUP: Final = "many-members"
RETRANSMITTED_AFTER_S: Final = 0.2
"""The least that Linux waits before it sends a segment again."""
_SEGMENT: Final = 1448
_SETTLED: Final = 100_000
"""When so many messages were handled, each consumer has its queues."""
_ANSWERED_AT_MOST_EVERY_S: Final = 1.0

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    Counter = Synchronized[float]


@contextlib.contextmanager
def running(target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """A process, until the ``with`` ends."""
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def shared(value: float = 0.0) -> Any:
    """A number that both processes see."""
    return multiprocessing.get_context("spawn").Value("d", value)


def _forever(main: Any) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


# --- connections


def idle(host: str, port: int, count: int, connected: Counter) -> None:
    """So many connections, each of which has asked once."""
    request = _frame(RequestCode.GET_KV_CONFIG, 1, {"namespace": "n", "key": "k"})

    async def main() -> None:
        kept = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(request)
            await reader.readexactly(4)
            kept.append((reader, writer))
            connected.value += 1
        await asyncio.Event().wait()

    _forever(main())


# --- a group


def members(host: str, port: int, count: int, joined: Counter, lists: Counter) -> None:
    """Join one after the other, and ask who is in the group whenever that has changed, as members
    do that rebalance; once a second at most. A tenth of them leaves again and comes back, one every
    50 ms, for as long as this runs."""

    async def main() -> None:
        tasks = [asyncio.create_task(_member(host, port, n, joined, lists)) for n in range(count)]
        while joined.value < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        number = 0
        while True:
            await asyncio.sleep(0.05)
            number = (number + 1) % max(1, count // 10)
            tasks[number].cancel()
            await asyncio.gather(tasks[number], return_exceptions=True)
            tasks[number] = asyncio.create_task(_member(host, port, number, joined, lists))

    _forever(main())


async def _member(host: str, port: int, number: int, joined: Counter, lists: Counter) -> None:
    await asyncio.sleep(number * 0.01)
    reader, writer = await asyncio.open_connection(host, port)
    changed = asyncio.Event()
    changed.set()
    subscription = SubscriptionData(topic=TOPIC, sub_string="*", sub_version=1)
    consumer = ConsumerData(
        group_name=GROUP,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=(subscription,),
    )
    heartbeat = HeartbeatData(client_id=f"10.0.0.1@{number}", consumer_data_set=(consumer,))
    writer.write(_frame(RequestCode.HEART_BEAT, 1, None, encode_body(heartbeat)))
    asking = asyncio.create_task(_ask(writer, changed))
    try:
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for form, header, _ in decoder.feed(data):
                command = decode_header(form, header)
                if not command.is_response:
                    changed.set()
                elif command.opaque == 1:
                    joined.value += 1
                else:
                    lists.value += 1
    finally:
        asking.cancel()
        writer.close()


async def _ask(writer: asyncio.StreamWriter, changed: asyncio.Event) -> None:
    request = _frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2, {"consumerGroup": GROUP})
    while True:
        await changed.wait()
        changed.clear()
        writer.write(request)
        await asyncio.sleep(_ANSWERED_AT_MOST_EVERY_S)


def consumers(namesrv: str, ready: Counter, handled: Counter, failed: Counter) -> None:
    """Eight of a group, in one process; the handler fails at what is poison."""

    async def handle(message: MessageExt) -> None:
        if message.body.startswith(b"poison"):
            failed.value += 1
            raise RuntimeError("poison")
        handled.value += 1

    async def main() -> None:
        logging.disable(logging.CRITICAL)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(QUEUES):
                consumer = PushConsumer("poisoned", namesrv=namesrv)
                consumer.subscribe(TOPIC)
                consumer.on_message(handle)
                await stack.enter_async_context(consumer)
            while handled.value < _SETTLED:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            ready.value = 1
            await asyncio.Event().wait()

    _forever(main())


# --- relays


def nonsense(listen: tuple[str, int], target: tuple[str, int], bad: Counter) -> None:
    """A relay to a name server; while ``bad`` is not 0 it answers in its place what no name server
    would: no JSON, other shapes, other frames, nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chance, decoder = random.Random(1), FrameDecoder()
        upstream = await asyncio.open_connection(*target)
        back = asyncio.create_task(_carry(upstream[0], writer))
        try:
            while data := await reader.read(1 << 16):
                if not bad.value:
                    upstream[1].write(data)
                    continue
                for form, header, _ in decoder.feed(data):
                    writer.write(_nonsense(decode_header(form, header).opaque, chance))
                    bad.value += 1
        except (OSError, ValueError):
            pass
        finally:
            back.cancel()
            writer.close()
            upstream[1].close()

    _forever(_listen(serve, listen))


def _nonsense(opaque: int, chance: random.Random) -> bytes:
    bodies = (
        b"", b"{", b"[]", b"null", b"\xff" * 100, b'{"brokerDatas":7}', b"[" * 3000,
        b'{"queueDatas":[{"brokerName":"x","readQueueNums":-1,"writeQueueNums":1e99}]}',
        b'{"orderTopicConf":"' + b"x:99999;" * 99 + b'","brokerDatas":5}',
    )  # fmt: skip
    answer = RemotingCommand(code=chance.choice((0, 0, 0, 17, 1, -5)), flag=1, opaque=opaque)
    return chance.choice(
        (
            *(encode_frame(0, encode_header(answer), body) for body in bodies),
            struct.pack(">II", 2**31 - 1, 4),
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"",
        )
    )


def lossy(listen: tuple[str, int], target: tuple[str, int], loss: Counter) -> None:
    """A relay that treats segments as a network that loses that share of them: what was lost comes
    ``RETRANSMITTED_AFTER_S`` late, and all behind it on that connection as well."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(*target)
        there = asyncio.create_task(_carry(reader, upstream[1], loss))
        try:
            await _carry(upstream[0], writer, loss)
        finally:
            there.cancel()
            writer.close()
            upstream[1].close()

    _forever(_listen(serve, listen))


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, loss: Counter | None = None
) -> None:
    try:
        while data := await reader.read(1 << 16):
            segments = -(-len(data) // _SEGMENT)
            if loss is not None and random.random() > (1 - loss.value) ** segments:
                await asyncio.sleep(RETRANSMITTED_AFTER_S)
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _listen(serve: Any, address: tuple[str, int]) -> None:
    async with await asyncio.start_server(serve, *address) as server:
        await server.serve_forever()


def _frame(code: int, opaque: int, fields: dict[str, str] | None, body: bytes = b"") -> bytes:
    return encode_frame(
        0, encode_header(RemotingCommand(code=code, opaque=opaque, ext_fields=fields)), body
    )
