"""Somebody else's client on our cluster: the C++ client inside the wheel of PyPI's ``rocketmq``
0.4.4.

It is installed into a folder of the test run. Where that is not possible (no network, no wheel for
this machine, a library that does not load) these tests are skipped, and say why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, total_of
from .foreign_program import body_of

PACKAGE = "rocketmq==0.4.4"
PROGRAM = Path(__file__).with_name("foreign_program.py")
COUNT = 12


class ForeignClient:
    """Starts the program with the package on its path."""

    def __init__(self, packages: Path, home: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home)}
        self._home = home

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *arguments],
            env=self._environment, cwd=self._home, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> ForeignClient:
    packages = tmp_path_factory.mktemp("foreign")
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary", ":all:", "--retries", "0",
        "--target", str(packages), PACKAGE,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{PACKAGE} was not installed within 60 s")
    if done.returncode:
        pytest.skip(
            f"{PACKAGE} cannot be installed: "
            f"{(done.stderr.strip() or 'pip failed').splitlines()[-1]}"
        )
    client = ForeignClient(packages, tmp_path_factory.mktemp("home"))
    loads = subprocess.run(
        [sys.executable, "-c", "import rocketmq.client"],
        env={**os.environ, "PYTHONPATH": str(packages)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    if loads.returncode:
        pytest.skip(f"{PACKAGE} does not load here: {loads.stderr.strip().splitlines()[-1]}")
    return client


def test_it_sends_and_we_read(
    foreign: ForeignClient, shared: Cluster, topic: str, group: str
) -> None:
    @asynchronous
    async def read() -> None:
        async with PullConsumer(group, topic, namesrv=shared.namesrv, suspend=SUSPEND) as consumer:
            messages = await total_of(consumer, COUNT)
        assert {message.body.decode() for message in messages} == {
            body_of(number) for number in range(COUNT)
        }
        assert {message.msg_id for message in messages} == {row["id"] for row in rows}
        for message in messages:
            number = int(message.properties["number"])
            assert message.keys == (f"key-{number}",)
            assert message.tags == ("odd" if number % 2 else "even")
            assert bool(message.sys_flag & MessageSysFlag.COMPRESSED) is (number % 3 == 0)

    asynchronous(create_topic)(shared.namesrv, topic, 4)
    rows = foreign.run("send", shared.namesrv, topic, str(COUNT))
    assert [row["status"] for row in rows] == [0] * COUNT
    read()


def test_we_send_and_it_reads(
    foreign: ForeignClient, shared: Cluster, topic: str, group: str
) -> None:
    @asynchronous
    async def send() -> None:
        await create_topic(shared.namesrv, topic, 4)
        async with Producer(group, namesrv=shared.namesrv) as producer:
            for number in range(COUNT):
                message = Message(topic, body_of(number).encode(), tags="t", keys=[f"key-{number}"])
                ids.append((await producer.send(message)).msg_id)
            batch = [
                Message(topic, body_of(1).encode(), tags="t", keys=["batch"]) for _ in range(3)
            ]
            ids.extend((await producer.send(batch)).msg_id.split(","))

    ids: list[str] = []
    send()
    rows = foreign.run("consume", shared.namesrv, topic, str(len(ids)), group)
    expected = Counter([body_of(number) for number in range(COUNT)] + [body_of(1)] * 3)
    assert Counter({row["id"]: row["body"] for row in rows}.values()) == expected
    assert {row["id"] for row in rows} == set(ids)
    assert {row["tags"] for row in rows} == {"t"}


def test_it_sends_and_it_reads(
    foreign: ForeignClient, shared: Cluster, topic: str, group: str
) -> None:
    asynchronous(create_topic)(shared.namesrv, topic, 2)
    sent = foreign.run("send", shared.namesrv, topic, str(COUNT))
    rows = foreign.run("consume", shared.namesrv, topic, str(COUNT), group)
    assert {row["body"] for row in rows} == {body_of(number) for number in range(COUNT)}
    assert {row["id"] for row in rows} == {row["id"] for row in sent}
