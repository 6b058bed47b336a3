"""What the index costs: on the put path, behind it, and what a query costs.

    python -m benchmarks.store_index [--messages 200000] [--directory DIR]

Prints nanoseconds per message (best and median round), and the longest turn of building (the event
loop waits that long).
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage

from .store_common import HOST, rounds, timed, touch_ahead

TOPIC = "TopicTest"
ROUNDS = 7


def properties_of(number: int) -> bytes:
    return encode_properties(
        {
            "TAGS": "TagA",
            "KEYS": f"order-{number}",
            "UNIQ_KEY": f"7F000001000018B4AAC2{number:012X}",
        }
    )


def open_store(directory: Path, *, indexed: bool) -> MessageStore:
    config = MessageStoreConfig(store_path_root_dir=str(directory), message_index_enable=indexed)
    return MessageStore.open(config, SystemClock(), store_host=HOST)


def puts(store: MessageStore) -> Callable[[int], None]:
    now = time.time_ns() // 1_000_000
    prepared = itertools.cycle([properties_of(number) for number in range(100_000)])
    body = memoryview(bytes(128))

    def work(count: int) -> None:
        put = store.put_message
        for _ in range(count):
            put(PutMessage(TOPIC, 0, body, next(prepared), HOST, now, now))

    return work


def measure_put(directory: Path, count: int, *, indexed: bool) -> None:
    store = open_store(directory, indexed=indexed)
    work = puts(store)
    work(1)

    def one_round(number: int) -> None:
        for _ in range(number // 500):
            work(500)
            store._indexing.keys.take(1 << 30)

    def timed_round() -> float:
        touch_ahead(store)
        return timed(count, one_round)

    found = rounds(ROUNDS, timed_round)
    what = f"put, 128 bytes, {'with' if indexed else 'without'} index"
    print(
        f"{what:<44} {min(found) * 1000:8.0f} ns best {statistics.median(found) * 1000:8.0f} ns "
        "median"
    )
    store._indexing.keys.take(1 << 30)
    store.close()


def measure_build(directory: Path, count: int, what: str) -> None:
    """Unique key and one key for each message."""
    store = open_store(directory, indexed=True)
    touch_ahead(store)
    work = puts(store)
    work(1)
    store._indexing.build_all()
    gc.collect()
    gc.freeze()  # as a daemon does after its start
    turns: list[int] = []
    for _ in range(count // 1000):
        work(1000)
        while store._indexing.position(-1) >= 0:
            begin = time.thread_time_ns()
            store._indexing.step()
            turns.append(time.thread_time_ns() - begin)
    print(
        f"{what:<44} {sum(turns) / count:8.0f} ns per message of 2 items, longest turn "
        f"{max(turns) / 1e6:.2f} ms (CPU)"
    )
    begin = time.perf_counter_ns()
    for number in range(1000):
        assert at_once(store.query.steps(TOPIC, f"order-{number * 17}", 64, 0, 1 << 62)).records
    print(f"{'query by key':<44} {(time.perf_counter_ns() - begin) / 1000:8.0f} ns")
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=200_000, help="per round")
    parser.add_argument(
        "--directory",
        type=Path,
        help="where to put the stores (default: the folder for temporary files)",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        root = Path(folder)
        measure_put(root / "without", options.messages, indexed=False)
        measure_put(root / "with", options.messages, indexed=True)
        measure_build(root / "build", options.messages, "build behind the writer")


if __name__ == "__main__":
    main()
