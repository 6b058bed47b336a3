"""What one put and one get cost in the store alone, next to a bare copy into the same mapping.

    python -m benchmarks.store_put [--messages 200000] [--directory DIR]

Prints nanoseconds per message (best and median round), the longest stall of the event loop while commit log files roll,
and how fast recovery reads. The pages are touched ahead as the running store does it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aiorocketmq.remoting.clock import SystemClock
from aiorocketmq.remoting.protocol.message import BatchItem, encode_batch, encode_properties, pack_host, tags_code_of
from aiorocketmq.remoting.protocol.record import decode_messages
from aiorocketmq.store.config import MessageStoreConfig
from aiorocketmq.store.message_store import MessageStore

HOST = pack_host("127.0.0.1", 10911)
QUEUES = 4
ROUNDS = 7
PROPERTIES = encode_properties({"TAGS": "TagA", "UNIQ_KEY": "7F0000010000" + "0" * 20, "CLUSTER": "DefaultCluster"})
TAGS_CODE = tags_code_of(PROPERTIES)


def open_store(directory: Path, **settings: int) -> MessageStore:
    """Without index, which nobody would build here: ``store_index`` measures it."""
    settings.setdefault("message_index_enable", False)
    config = MessageStoreConfig(store_path_root_dir=str(directory), **settings)  # type: ignore[arg-type]
    return MessageStore.open(config, SystemClock(), store_host=HOST)


def touch_ahead(store: MessageStore) -> None:
    """What RoomService does in its thread."""
    log = store._log
    if log.current is not None:
        log.current.reserve(log.current.size)
        log.current.touch(log.position, min(log.position + (64 << 20), log.current.size))
        log.room_made()


def report(what: str, count: int, work: Callable[[int], None], store: MessageStore | None = None) -> None:
    times = []
    for _ in range(ROUNDS):
        if store is not None:
            touch_ahead(store)
        begin = time.perf_counter_ns()
        work(count)
        times.append((time.perf_counter_ns() - begin) / count)
    print(f"{what:<44} {min(times):8.0f} ns best {statistics.median(times):8.0f} ns median")


def puts(store: MessageStore, body: memoryview) -> Callable[[int], None]:
    now = time.time_ns() // 1_000_000

    def work(count: int) -> None:
        put = store.put_message
        for number in range(count):
            put(
                "TopicTest",
                number & (QUEUES - 1),
                body,
                PROPERTIES,
                born_host=HOST,
                born_timestamp=now,
                store_timestamp=now,
                tags_code=TAGS_CODE,
            )

    return work


def batches(store: MessageStore) -> Callable[[int], None]:
    now = time.time_ns() // 1_000_000
    batch = encode_batch([BatchItem(0, bytes(128), PROPERTIES)] * 16)

    def work(count: int) -> None:
        for _ in range(count // 16):
            store.put_batch("BatchTest", 0, batch, born_host=HOST, born_timestamp=now, store_timestamp=now)

    return work


def copies(store: MessageStore, size: int) -> Callable[[int], None]:
    """The floor: only the copy into the mapping."""
    buffer, record = store._log.buffer, bytes(size)
    start = store._log.current.size // 2 if store._log.current else 0

    def work(count: int) -> None:
        at = start
        for _ in range(count):
            buffer[at : at + size] = record
            at += size

    return work


def gets(store: MessageStore, topic: str, queues: int) -> Callable[[int], None]:
    last = store.max_offset(topic, 0) - 32

    def work(count: int) -> None:
        for number in range(count):
            store.get(topic, number % queues, number * 32 % last, 32)

    return work


def recovery(directory: Path) -> None:
    """Kill the store without a checkpoint: everything is read again."""
    (directory / "checkpoint").unlink(missing_ok=True)
    (directory / "abort").touch()
    begin = time.perf_counter()
    store = open_store(directory)
    seconds = time.perf_counter() - begin
    assert store.recovery is not None
    print(
        f"recovery, everything read                    {store.recovery.records / seconds:10.0f} records/s"
        f" {store.max_phy_offset / seconds / (1 << 30):6.2f} GiB/s"
    )
    store.close()
    begin = time.perf_counter()
    open_store(directory).close()
    print(f"open and close after a clean stop            {(time.perf_counter() - begin) * 1000:10.1f} ms")


async def stall_at_file_roll(directory: Path) -> None:
    """Put as fast as the loop allows, in read events of 64 messages, over several file ends."""
    store = open_store(directory, mapped_file_size_commit_log=64 << 20, message_index_enable=True)
    work = puts(store, memoryview(bytes(4096)))
    services = asyncio.ensure_future(store.run())
    longest = 0
    for _ in range(1200):
        begin = time.perf_counter_ns()
        work(64)
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter_ns() - begin)
        await asyncio.sleep(0.0005)
    files = store.max_phy_offset // (64 << 20)
    services.cancel()
    await asyncio.wait([services])
    print(f"longest turn of the loop, {files} files rolled     {longest / 1e6:10.2f} ms (64 puts of 4 KiB each)")
    store.close()


def decodes(body: bytes) -> Callable[[int], None]:
    def work(count: int) -> None:
        for _ in range(count):
            decode_messages(body)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000, help="per round")
    parser.add_argument("--directory", type=Path, help="where to put the stores (default: the folder for temporary files)")
    options = parser.parse_args()
    count = options.messages
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        directory = Path(folder) / "store"
        store = open_store(directory)
        puts(store, memoryview(bytes(128)))(QUEUES)
        report("put, 128 bytes", count, puts(store, memoryview(bytes(128))), store)
        report("put, 1 KiB", count // 4, puts(store, memoryview(bytes(1024))), store)
        report("put, batches of 16 x 128 bytes (per message)", count, batches(store), store)
        report("floor: copy of 302 bytes into the mapping", count, copies(store, 302))
        report("get of 32, records of 4 queues mixed", count // 20, gets(store, "TopicTest", QUEUES))
        report("get of 32, neighbours", count // 20, gets(store, "BatchTest", 1))
        body = store.get("TopicTest", 0, 0, 32).body
        report("decode of 32 messages (client)", count // 20, decodes(body))
        store.close()
        recovery(directory)
        asyncio.run(stall_at_file_roll(Path(folder) / "roll"))


if __name__ == "__main__":
    main()
