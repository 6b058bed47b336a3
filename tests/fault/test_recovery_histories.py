"""Any sequence of puts, crashes and power failures: what was acknowledged is there, in order."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.put import PutBatch

from ..store.world import BORN_HOST, NOW, crash, messages_of, open_store, put_ok
from .damage import LOG_FILE
from .disks import LossyDisk

many = settings(
    max_examples=settings().max_examples * 2 // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("TUV"), st.integers(0, 1500)),
        st.tuples(st.just("batch"), st.sampled_from("TUV"), st.integers(1, 20)),
        st.tuples(st.just("half"), st.just("T"), st.integers(0, 100)),
        st.tuples(st.just("delete"), st.sampled_from("TUV"), st.just(0)),
        st.tuples(st.sampled_from(["crash", "stop", "sync"]), st.just(""), st.just(0)),
    ),
    max_size=40,
)


class History:
    """A store and what must be in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = open_store(root)
        self.expected: dict[str, list[bytes]] = {topic: [] for topic in "TUV"}
        self.number = 0

    def apply(self, action: str, topic: str, size: int) -> None:
        self.number += 1
        body = b"%d:" % self.number + bytes(size)
        now = NOW + self.number
        match action:
            case "put":
                put_ok(self.store, topic, body=body, store_timestamp=now)
                self.expected[topic].append(body)
            case "batch":
                items = [BatchItem(0, b"%d.%d" % (self.number, part), b"") for part in range(size)]
                fields = {"born_host": BORN_HOST, "born_timestamp": now, "store_timestamp": now}
                self.store.put_batch(PutBatch(topic=topic, queue_id=0, items=items, **fields))  # type: ignore[arg-type]
                self.expected[topic] += [bytes(item.body) for item in items]
            case "half":
                put_ok(self.store, topic, body=body, sys_flag=4, store_timestamp=now)
            case "delete":
                at_once(self.store.delete_topic_in_slices(topic))
                self.expected[topic] = []
            case "sync":
                asyncio.run(self.store.sync())
            case "crash":
                crash(self.store)
                self.store = open_store(self.root)
            case "stop":
                self.store.close()
                self.store = open_store(self.root)
            case _:
                raise AssertionError(action)

    def check(self) -> None:
        for topic, bodies in self.expected.items():
            messages = messages_of(self.store, topic)
            assert [message.body for message in messages] == bodies
            assert [message.queue_offset for message in messages] == list(range(len(bodies)))


@many
@given(operations)
def test_any_history_of_puts_and_crashes(
    tmp_path: Path, operations: list[tuple[str, str, int]]
) -> None:
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    history = History(tmp_path / "store")
    for operation in operations:
        history.apply(*operation)
        if operation[0] in ("crash", "stop"):
            # A topic that was deleted and not made again comes back after a crash until the broker
            # cleans up.
            existing = {topic for topic, bodies in history.expected.items() if bodies}
            for topic in history.store.topics() - existing:
                at_once(history.store.delete_topic_in_slices(topic))
            history.check()
    history.check()
    history.store.close()


@many
@given(operations, st.integers(0, 2**32))
def test_power_failures_take_only_what_was_not_synced(
    tmp_path: Path, operations: list[tuple[str, str, int]], seed: int
) -> None:
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    disk = LossyDisk()
    store = open_store(tmp_path / "store", disk=disk)
    synced: dict[str, list[MessageExt]] = {topic: [] for topic in "TUV"}
    for number, (action, topic, size) in enumerate(operations):
        if action in ("put", "batch"):
            put_ok(store, topic, body=b"%d:" % number + bytes(size), store_timestamp=NOW + number)
        elif action == "half":
            put_ok(store, topic, body=bytes(size), sys_flag=4, store_timestamp=NOW + number)
        elif action == "sync":
            asyncio.run(store.sync())
            synced = {topic: messages_of(store, topic) for topic in "TUV"}
        elif action == "stop":
            store.close()
            store = open_store(tmp_path / "store", disk=disk)
            synced = {topic: messages_of(store, topic) for topic in "TUV"}
        elif action == "crash":
            crash(store)
            disk.fail(tmp_path / "store", random.Random(seed + number))
            store = open_store(tmp_path / "store", disk=disk)
            for topic, messages in synced.items():
                found = {
                    message.queue_offset: message.body for message in messages_of(store, topic)
                }
                assert {
                    message.queue_offset: message.body for message in messages
                }.items() <= found.items()
                if found:
                    assert store.max_offset(topic, 0) == max(found) + 1
    store.close()
    for path in (tmp_path / "store/commitlog").glob("*"):
        assert path.stat().st_size == LOG_FILE
