"""Short lives of a store while system calls fail: all that it does, what it answered, and what must
be there afterwards."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.system_disk import SystemDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import StoreError, SyncFailedError
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.replica.replica_stream import SlaveSide
from aiorocketmq.store.replica.replication import LogRange, MasterSide, ReplicationSettings
from tests.stored import decode_messages, received

from ..sim import ManualClock
from ..store.world import BORN_HOST, STORE_HOST, config_of, crash, messages_of, put
from .faults import Faults

REFUSED = (PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.CREATE_MAPEDFILE_FAILED)
PATIENCE_S = 70
"""Of the store's clock: everything that is tried again is tried again by then."""
Queue = tuple[str, int]


class Life:
    """A store that is opened, written, synced, cleaned, closed and opened again."""

    role = BrokerRole.ASYNC_MASTER

    def __init__(self, root: Path, faults: Faults) -> None:
        self.root = root
        self.faults = faults
        self.clock = ManualClock()
        self.acknowledged: dict[Queue, list[bytes]] = defaultdict(list)
        self.refused = 0
        """Puts."""
        self.not_opened = 0
        self._store: MessageStore | None = None
        self._count = 0

    @property
    def store(self) -> MessageStore:
        assert self._store is not None
        return self._store

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "broker_role": self.role, "flush_consume_queue_thorough_interval": 5_000,
            "file_reserved_time": 0,
            "delete_commit_log_files_interval": 0, "delete_consume_queue_files_interval": 0,
            "max_index_num": 20,
            "enable_multi_dispatch": True, "enable_lmq": True,
            "enable_consume_queue_ext": self.role is not BrokerRole.SLAVE,
            "mapped_file_size_consume_queue_ext": 400, "disk_max_used_space_ratio": 95,
            "disk_space_clean_forcibly_ratio": 100, "disk_space_warning_level_ratio": 100,
        }  # fmt: skip

    # -- what is done

    def open(self) -> None:
        """As who starts a broker does: should it refuse, the reason goes away, and it is started
        again."""
        config = config_of(self.root, **self.settings)
        options: dict[str, Any] = {
            "store_host": STORE_HOST,
            "disk": SystemDisk(),
            "bitmap_of": lambda *_: b"\1",
        }
        try:
            self._store = MessageStore.open(config, self.clock, **options)
        except StoreError:
            assert self.faults.injected
            self.not_opened += 1
            self.faults.heal()
            self._store = MessageStore.open(config, self.clock, **options)

    def close(self) -> None:
        """As at the end of a broker, which says what was wrong."""
        try:
            self.store.close()
        except StoreError:
            assert self.faults.injected

    def crash(self) -> None:
        try:
            crash(self.store)
        except StoreError:
            assert self.faults.injected

    def note(self, result: PutResult, topic: str, queue_id: int, bodies: list[bytes]) -> None:
        if result.status is PutStatus.PUT_OK:
            self.acknowledged[topic, queue_id] += bodies
        else:
            assert result.status in REFUSED, result
            assert result.remark
            self.refused += 1

    def put(self, topic: str, queue_id: int = 0, size: int = 0, **properties: str) -> None:
        self._count += 1
        body = (b"%d:" % self._count).ljust(size, b".")
        fields: dict[str, Any] = {"UNIQ_KEY": f"U{self._count:031d}", "TAGS": "a", **properties}
        now = self.clock.time_ms()
        result = put(self.store, topic, queue_id, body, properties=fields, store_timestamp=now)
        self.note(result, topic, queue_id, [body])
        if result.status is PutStatus.PUT_OK and "INNER_MULTI_DISPATCH" in properties:
            self.acknowledged[properties["INNER_MULTI_DISPATCH"], 0].append(body)

    def put_batch(self, topic: str, queue_id: int, count: int) -> None:
        self._count += 1
        bodies = [b"%d:%d" % (self._count, number) for number in range(count)]
        data = encode_batch([BatchItem(0, body, b"") for body in bodies])
        now = self.clock.time_ms()
        times = {"born_timestamp": now, "store_timestamp": now}
        result = self.store.put_batch(
            PutBatch(
                topic=topic,
                queue_id=queue_id,
                items=data,
                properties=b"",
                born_host=BORN_HOST,
                **times,
            )
        )
        self.note(result, topic, queue_id, bodies)

    def some(self) -> None:
        """Messages of all kinds: new queues, the ends of their files, of the log, of the index."""
        for queue_id in range(2):
            self.put("T", queue_id)
        self.put_batch("T", 0, 12)
        self.put("T", 1, INNER_MULTI_DISPATCH="%LMQ%a")
        self.put("U", 0, 3000)
        self.put("T", 1, 4000)
        self.put("T", 0, 3000)
        self.read()
        self.clock.advance(0.2)

    def read(self) -> None:
        """What cannot be read now is an error, in words."""
        for offset in (0, 5, self.store.max_offset("T", 0) - 1):
            try:
                self.store.get("T", 0, offset)
                self.store.entries.offset_by_time("T", 0, self.clock.time_ms() - 1000)
                self.store.message_by_offset(self.store.min_phy_offset)
            except StoreError:
                assert self.faults.injected

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The services work; none of them may end."""
        services = asyncio.ensure_future(self.store.run())
        try:
            yield
        finally:
            services.cancel()
            await asyncio.wait([services])
        assert services.cancelled(), services.exception()

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.settle()

    async def settle(self) -> None:
        """Let everything happen that is due: the threads are idle and the loop has nothing left to
        do."""
        store, loop = self.store, asyncio.get_running_loop()
        for _ in range(3):
            for service in (store.flush, store._allocation, store._index_service, store.cleaning):
                await asyncio.sleep(0)
                await loop.run_in_executor(service._threads, int)
            await asyncio.sleep(0)

    # -- the whole of it

    async def live(self) -> None:
        self.open()
        async with self.serving():
            self.some()
            await self.pass_time(2)
            self.some()
            await self.pass_time(6, 2)
            self.store.cleaning.clean_at_any_hour()
            await self.pass_time(66, 22)
            self.some()
            self.put("V")
            self.delete("V")
        self.close()
        self.open()
        self.some()
        await self.store.sync()
        self.crash()
        self.open()
        async with self.serving():
            self.some()
            await self.pass_time(2)

    def delete(self, topic: str) -> None:
        try:
            at_once(self.store.delete_topic_in_slices(topic))
        except StoreError:
            assert self.faults.injected
            self.faults.heal()
            at_once(self.store.delete_topic_in_slices(topic))  # as who was told that it failed does
        self.acknowledged.pop((topic, 0), None)
        self.put(topic)  # it begins anew

    async def go_on(self) -> bool:
        """The faults are over. Whether messages are taken again without a restart: always, but
        after a failed sync."""
        self.faults.heal()
        async with self.serving():
            await self.pass_time(PATIENCE_S, PATIENCE_S / 7)
            broken = self.store.flush.broken
            if broken is not None:
                assert isinstance(broken, SyncFailedError)
            refused = self.refused
            self.some()
            await self.pass_time(12, 4)
            if broken is None:
                assert self.refused == refused, self.store._writer.refusal
                assert self.store.flushed_offset == self.store.max_phy_offset
        self.check()
        return broken is None

    def restart(self, *, clean: bool) -> None:
        """And look whether everything is there."""
        if clean:
            self.store.close()
            self.open()
            assert self.store.recovery is not None
        else:
            crash(self.store)
            self.open()
        assert self.store.recovery is not None
        assert not self.store.recovery.damaged
        self.check()

    def check(self) -> None:
        """Everything that was acknowledged is there, once, in its order, but what expired."""
        for (topic, queue_id), bodies in self.acknowledged.items():
            found = messages_of(self.store, topic, queue_id)
            first = self.store.min_offset(topic, queue_id)
            numbers = [message.queue_offset for message in found]
            if not topic.startswith("%LMQ%"):
                assert numbers == list(range(first, first + len(found))), (topic, queue_id)
            assert [message.body for message in found] == bodies[len(bodies) - len(found) :], (
                topic,
                queue_id,
            )
            assert len(found) >= min(len(bodies), 3), (topic, queue_id)
            self.check_index(topic, found[-3:])

    def check_index(self, topic: str, messages: list[MessageExt]) -> None:
        """Who has a key is found by it."""
        for message in messages:
            key = message.properties.get("UNIQ_KEY")
            if key and message.topic == topic:
                found = at_once(self.store.query.steps(topic, key, 2, 0, 1 << 60)).records
                assert [each.body for each in decode_messages(found)] == [message.body], (
                    topic,
                    key,
                )


class SlaveLife(Life):
    """A slave that follows; what its master has is what was acknowledged."""

    role = BrokerRole.SLAVE
    master: MessageStore

    def some(self) -> None:
        """Take over the next part, as ``MasterLink`` does; a failure ends the connection."""
        slave, master = self.store, self.master
        settings, size = ReplicationSettings(), master.config.mapped_file_size_commit_log
        sending, receiving = (
            MasterSide(settings, 0.0),
            SlaveSide(slave.max_phy_offset, size, settings, 0.0),
        )
        report = receiving.report(0.0)
        assert report is not None
        ends = LogRange(
            master.min_phy_offset, min(master.max_phy_offset, slave.max_phy_offset + 9000), size
        )
        sending.receive(report, ends, 0.0)
        try:
            while (wanted := sending.wanted(ends, 2000)) is not None:
                data = master.read(*wanted)
                assert data is not None
                for piece in received(receiving, b"".join(sending.batches(data, 0.0)), 0.0):
                    if slave.flush.broken is not None:
                        raise slave.flush.broken
                    slave.replica.append(*piece)
        except StoreError:
            assert self.faults.injected
            self.refused += 1
        self.clock.advance(0.2)

    def put(self, topic: str, queue_id: int = 0, size: int = 0, **properties: str) -> None:
        pass

    def check(self) -> None:
        """The slave has what the master has, up to where it is."""
        slave, end = self.store, self.store.max_phy_offset
        for queue in self.master._queues.all():
            topic, queue_id = queue.topic, queue.queue_id
            wanted = [
                m for m in messages_of(self.master, topic, queue_id) if m.commit_log_offset < end
            ]
            found = messages_of(slave, topic, queue_id)
            assert [m.body for m in found] == [m.body for m in wanted][
                len(wanted) - len(found) :
            ], (topic, queue_id)
            kept = [m for m in wanted if m.commit_log_offset >= slave.min_phy_offset]
            assert len(found) >= len(kept), (topic, queue_id)
            self.check_index(topic, found[-3:])
