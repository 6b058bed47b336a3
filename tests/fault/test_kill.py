"""A real process that stores messages and is killed: what it had acknowledged is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..store.world import messages_of, open_store

CHILD = """
import asyncio, os, random, sys
from aiorocketmq.remoting.clock import SystemClock
from aiorocketmq.store.config import MessageStoreConfig
from aiorocketmq.store.message_store import MessageStore

root, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
config = MessageStoreConfig(
    store_path_root_dir=root, mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=2000,
    flush_interval_commit_log=1, flush_interval_consume_queue=2, flush_consume_queue_thorough_interval=5,
)
clock = SystemClock()
store = MessageStore.open(config, clock, store_host=bytes(8))

async def main():
    services = asyncio.ensure_future(store.run())
    while not services.done():
        for _ in range(chance.randint(1, 20)):
            queue = chance.randint(0, 3)
            number = store.max_offset("T", queue)
            body = b"%d.%d:" % (queue, number) + bytes(chance.randint(0, 2000))
            store.put_message("T", queue, body, b"", born_host=bytes(8), born_timestamp=0, store_timestamp=clock.time_ms())
            os.write(1, b"%d %d\\n" % (queue, number))
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, seed: int) -> None:
    acknowledged = [0, 0, 0, 0]
    for round_ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(seed + round_)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            for _ in range(1000 + 371 * seed):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().splitlines()
        assert child.returncode == -signal.SIGKILL
        last = {int(queue): int(number) for queue, number in (line.split() for line in rest if line.count(b" ") == 1)}
        store = open_store(tmp_path, mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=2000)
        assert store.recovery is not None
        assert not store.recovery.clean
        assert not store.recovery.damaged
        for queue in range(4):
            messages = messages_of(store, "T", queue)
            assert len(messages) > max(acknowledged[queue], last.get(queue, 0))
            for number, message in enumerate(messages):
                assert message.queue_offset == number
                assert message.body.startswith(b"%d.%d:" % (queue, number))
            acknowledged[queue] = len(messages)
        store.close()
