"""A real process that stores messages and is killed: what it had acknowledged is there."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import MessageExt
from aiorocketmq.remoting.protocol.record import NewRecord, decode_record, encode_record
from benchmarks.soak import Options, soak
from benchmarks.soak_ledger import HEAD, Ledger, SendStream
from examples.demo.program import run_program

from .. import forked
from ..store.world import messages_of, open_store

CHILD = """
import asyncio, os, random, sys
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.message_store import MessageStore

root, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
config = MessageStoreConfig(
    store_path_root_dir=root,
    mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=2000,
    flush_interval_commit_log=1, flush_interval_consume_queue=2,
    flush_consume_queue_thorough_interval=5,
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
            store.put_message(PutMessage("T", queue, body, b"", bytes(8), 0, clock.time_ms()))
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
        last = {
            int(queue): int(number)
            for queue, number in (line.split() for line in rest if line.count(b" ") == 1)
        }
        store = open_store(
            tmp_path, mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=2000
        )
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


BATCHES = """
import logging, os, random, signal, sys, time
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.protocol.record import read_messages
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore

# Half a batch at the end is logged.
logging.getLogger("aiorocketmq.store.recovery.recovery").setLevel(logging.ERROR)
# No page of the mapping is there before it is written to: a kill finds half a copy.
MappedFile.touch = lambda *_: None
batch = [BatchItem(0, bytes([number]) * 20_000, b"") for number in range(1, 9)]
chance = random.Random(1)

def opened(folder):
    config = MessageStoreConfig(
        store_path_root_dir=folder, message_index_enable=False,
        mapped_file_size_commit_log=64 << 20, mapped_file_size_consume_queue=20_000,
    )
    return MessageStore.open(config, SystemClock(), store_host=bytes(8))

for kill in range(16):
    folder = sys.argv[1] + str(kill)
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        store = opened(folder)
        os.write(told, b"ready")
        while True:
            store.put_batch(PutBatch(
                topic="T", queue_id=0, items=batch, born_host=bytes(8), born_timestamp=0,
                store_timestamp=1,
            ))
    os.read(ready, 5)
    time.sleep(chance.random() * 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    store = opened(folder)
    end = store.max_offset("T", 0)
    found = b"".join(store.get("T", 0, number, 1).body for number in range(end))
    messages, _ = read_messages(found, "")
    wrong = [number for number, each in enumerate(messages) if each.body != batch[number % 8].body]
    if store.recovery.damaged or wrong:
        print("kill", kill, "left a hole:", store.recovery.damaged, wrong)
    store.close()
"""


def test_a_kill_in_the_middle_of_a_batch_leaves_no_hole_in_the_log(tmp_path: Path) -> None:
    """What a copy into a mapping can do: the C library stores the first bytes last."""
    done = subprocess.run(
        [sys.executable, "-c", BATCHES, f"{tmp_path}/"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- a whole broker, with clients


def test_twenty_kills_of_a_broker_under_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -m benchmarks.soak --rounds 20 --load 0.1 --seed 7``, whose brokers start
    quickly."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", forked.create_subprocess_exec)
    code = run_program("soak", soak(Options(rounds=20, seed=7, load_s=0.1, keep=None)))
    out, errors = capsys.readouterr()
    assert (code, errors) == (0, ""), out
    figures = dict(re.findall(r"^(\w[\w ]*?)  +([\d,.]+)", out, re.MULTILINE))
    assert figures["rounds"] == "20"
    assert (figures["lost"], figures["order violations"]) == ("0", "0")
    assert int(figures["acknowledged"].replace(",", "")) > 1000
    assert "clean: commit log, consume queues and index agree\n" in out


STREAMS = ((0, 0, 1), (1, 0, 2), (2, 1, 1))
"""Number, queue, messages per request."""


@pytest.mark.parametrize(
    ("queue", "counts"),
    [
        ([(0, 0), (1, 0), (1, 1), (0, 1)], (0, 0, 0)),
        (
            [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2)],
            (0, 0, 0),
        ),  # stored, but the answer did not come
        ([(0, 0), (1, 0), (1, 1), (1, 0), (1, 1), (0, 1), (0, 1)], (0, 3, 0)),
        ([(0, 0), (1, 0), (0, 1)], (1, 0, 0)),
        ([(0, 0), (1, 0), (1, 1)], (1, 0, 0)),
        ([(0, 1), (1, 0), (1, 1)], (1, 0, 0)),
        ([(0, 0), (0, 1), (0, 0), (1, 0), (1, 1)], (0, 0, 1)),
    ],
)
def test_the_ledger_sees_what_is_lost_sent_twice_or_out_of_order(
    queue: list[tuple[int, int]], counts: tuple[int, int, int]
) -> None:
    ledger = Ledger([SendStream(*stream) for stream in STREAMS])
    first, batches, _ = ledger.streams
    ledger.begin()
    for stream, offset in (
        (first, 100),
        (batches, 101),
        (first, 103),
    ):  # places that are checked further down
        ledger.acknowledge(stream, offset)
    ledger.acknowledged_at.clear()
    for offset, (stream_id, number) in enumerate(queue):
        ledger.take(stored(ledger.streams[stream_id], number, offset))
    ledger.read()
    assert (ledger.lost, ledger.duplicated, ledger.order_violations) == counts
    assert bool(ledger.problems) == (counts[0] + counts[2] > 0)


def test_the_ledger_knows_under_which_number_a_message_was_acknowledged() -> None:
    ledger = Ledger([SendStream(*stream) for stream in STREAMS])
    ledger.begin()
    ledger.acknowledge(ledger.streams[0], 1)
    ledger.take(stored(ledger.streams[0], 0, 0))
    ledger.read()
    assert ledger.problems == ["LOST: 0:0, acknowledged as 1; queue 0 does not have it"]


def test_the_ledger_sees_another_body_and_a_hole_in_the_numbers() -> None:
    ledger = Ledger([SendStream(*stream) for stream in STREAMS])
    ledger.begin()
    ledger.take(stored(ledger.streams[0], 0, 0, body=HEAD.pack(0, 16, 0) + bytes(15)))
    assert ledger.lost == 1
    ledger.take(stored(ledger.streams[0], 1, 2))
    assert ledger.order_violations == 1


def stored(
    stream: SendStream, number: int, offset: int, *, body: bytes | None = None
) -> MessageExt:
    body = stream.body(number, 16) if body is None else body
    hosts: dict[str, Any] = {"born_host": bytes(8), "store_host": bytes(8)}
    numbers: dict[str, Any] = {
        "queue_offset": offset,
        "phy_offset": 0,
        "sys_flag": 0,
        "born_timestamp": 0,
        "store_timestamp": 0,
    }
    return decode_record(
        encode_record(NewRecord("T", stream.queue_id, body, b"", **hosts, **numbers))
    )
