"""A name server and a broker full of state in a thread of this process, whose event loop tells how
long it was held.

What is measured is CPU time of the loop's thread in one callback: what else the machine does costs
nothing.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.config.config import BrokerConfig, BrokerServerConfig
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.opening import open_broker
from aiorocketmq.daemon.long_lived import looked_at_once
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.store.model.config import MessageStoreConfig

from .dear_frames import BIG_TOPIC, BROKER, CLUSTER, GROUP, TOPIC

_MARK = 0x0B5E55ED


class Size(NamedTuple):
    """How much the daemons know."""

    topics: int = 50_000
    groups: int = 20_000
    offsets: int = 200_000
    queues_of_big_topic: int = 65_536
    messages: int = 20_000


SMALL = Size(2000, 1000, 5000, 4096, 500)


class TimedLoop(asyncio.SelectorEventLoop):
    """Remembers the longest callback since ``begin``, in seconds of CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self.longest = ""

    def begin(self) -> None:
        self.longest_s, self.longest = 0.0, ""

    def note(self, handle: asyncio.Handle, seconds: float) -> None:
        if seconds > self.longest_s:
            step = getattr(handle._callback, "__qualname__", "")  # type: ignore[attr-defined]
            self.longest_s, self.longest = seconds, step or repr(handle)


@contextmanager
def timed_handles() -> Iterator[None]:
    """While this is open callbacks of a ``TimedLoop`` are timed."""
    run = asyncio.Handle._run

    def timed(self: Any) -> None:
        loop, began = self._loop, time.thread_time()
        try:
            run(self)
        finally:
            if isinstance(loop, TimedLoop):
                loop.note(self, time.thread_time() - began)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


class World:
    """Both daemons. ``cost`` sends a frame and tells how long the loop was held."""

    def __init__(self, folder: Path, size: Size) -> None:
        self._folder = folder
        self._size = size
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self.loop = TimedLoop()
        self.ports: dict[str, int] = {}
        self._codes: dict[str, set[RequestCode]] = {}
        self._usual_tasks = 0
        """Those of the services."""
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()
            self.loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        folder = self._folder
        names = NameServer(
            NamesrvConfig(
                listen_port=0,
                bind_address="127.0.0.1",
                kv_config_path=str(folder / "kv.json"),
                config_store_path=str(folder / "namesrv.properties"),
            )
        )
        await names.listen()
        settings = BrokerSettings(
            BrokerConfig(
                broker_name=BROKER,
                broker_cluster_name=CLUSTER,
                broker_ip1="127.0.0.1",
                enable_property_filter=True,
            ),
            BrokerServerConfig(listen_port=0, bind_address="127.0.0.1"),
            store=MessageStoreConfig(
                store_path_root_dir=str(folder / "store"),
                mapped_file_size_commit_log=64 << 20,
                mapped_file_size_consume_queue=20_000,
                max_hash_slot_num=1000,
                max_index_num=4000,
                flush_consume_queue_thorough_interval=1000,
            ),
        )
        async with open_broker(settings) as broker:
            _fill(broker, self._size)
            self.ports = {"namesrv": names.port, "broker": broker.port}
            self._codes = {"namesrv": set(names.table), "broker": set(broker.table)}
            tasks = [asyncio.create_task(names.run()), asyncio.create_task(broker.run())]
            with looked_at_once():
                await asyncio.sleep(0.5)
                self._usual_tasks = len(asyncio.all_tasks())
                self._ready.set()
                await self._stop.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self) -> World:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def servers_of(self, code: int) -> list[str]:
        """The daemons that serve a request; when nobody does, the name server says so."""
        return [name for name, codes in self._codes.items() if code in codes] or ["namesrv"]

    def cost(self, daemon: str, frame: bytes, *, patience_s: float = 60.0) -> tuple[float, str]:
        """The longest hold in seconds of CPU while the frame was served, and by what; also when it
        is not answered at all, the requests behind it are."""
        self.loop.begin()
        self._send(daemon, frame + _marker(), patience_s)
        self._send(
            daemon, _marker(), patience_s
        )  # when this is answered the end of the connection was looked after
        return self.loop.longest_s, self.loop.longest

    def _send(self, daemon: str, frames: bytes, patience_s: float) -> None:
        with socket.create_connection(
            ("127.0.0.1", self.ports[daemon]), timeout=patience_s
        ) as peer:
            try:
                peer.sendall(frames)
                _read_to_marker(peer)
            except ConnectionError:
                pass
            # what is done in slices, or later, for a peer that is still there
            asyncio.run_coroutine_threadsafe(self._no_task_works(), self.loop).result(patience_s)

    async def _no_task_works(self) -> None:
        while len(asyncio.all_tasks()) > self._usual_tasks + 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def _fill(broker: Broker, size: Size) -> None:
    for number in range(size.topics):
        broker.state.topics.update(
            TopicConfig(topic_name=f"topic-{number}", read_queue_nums=4, write_queue_nums=4)
        )
    for number in range(size.groups):
        broker.state.groups.update(SubscriptionGroupConfig(group_name=f"group-{number}"))
    nums = size.queues_of_big_topic
    broker.state.topics.update(
        TopicConfig(topic_name=BIG_TOPIC, read_queue_nums=nums, write_queue_nums=nums)
    )
    broker.state.topics.update(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4))
    for queue_id in range(nums):
        broker.state.offsets.commit(GROUP, BIG_TOPIC, queue_id, 0)
    for number in range(size.offsets):
        broker.state.offsets.commit(
            GROUP if number % 2 else f"group-{number}",
            f"topic-{number % size.topics}",
            number % 4,
            1,
        )


def _marker() -> bytes:
    fields = {"namespace": "n", "key": "k"}
    return encode_frame(
        0,
        encode_header(
            RemotingCommand(code=RequestCode.GET_KV_CONFIG, opaque=_MARK, ext_fields=fields)
        ),
    )


def _read_to_marker(peer: socket.socket) -> None:
    mark = f'"opaque":{_MARK}'.encode()
    while mark not in _read(peer, int.from_bytes(_read(peer, 4), "big")):
        pass


def _read(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(min(1 << 20, size - len(data)))
        if not piece:
            raise ConnectionResetError("closed")
        data += piece
    return bytes(data)
