"""A real broker on a real disk that is full: a small tmpfs in a mount namespace of the broker's
own.

Sends are refused with SERVICE_NOT_AVAILABLE and the reason; when there is space again the broker
goes on by itself, and nothing that it acknowledged is lost.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient

from ..e2e.cluster import PATIENCE_S, asynchronous, until
from ..store.world import bodies_of, open_store

TOPIC = "TBW102"  # exists from the start
LOG_FILE = 256 << 10
QUEUE_FILE = 20 * 400
BALLAST = 2 << 20
DISK = 5 << 20
_READY = re.compile(r"broker ready .* port=(\d+) ")
_SCRIPT = f"""
mount -t tmpfs -o size={DISK} none "$1" || exit 77
head -c {BALLAST} /dev/zero > "$1/ballast"
shift
exec "$@"
"""


class SmallDiskBroker:
    """The broker; ``store`` is its store as seen from this process."""

    def __init__(self, folder: Path) -> None:
        disk = folder / "disk"
        disk.mkdir()
        settings = {
            "listenPort": 0, "bindAddress": "127.0.0.1", "brokerName": "small",
            "storePathRootDir": disk / "store",
            "mappedFileSizeCommitLog": LOG_FILE, "mappedFileSizeConsumeQueue": QUEUE_FILE,
            "maxHashSlotNum": 100,
            "maxIndexNum": 400, "diskSpaceWarningLevelRatio": 100,
            "diskSpaceCleanForciblyRatio": 100,
            "flushDiskType": "SYNC_FLUSH",
        }  # fmt: skip
        broker = [
            sys.executable,
            "-m",
            "aiorocketmq.broker",
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        environment = {
            **os.environ,
            "HOME": str(folder),
            "ROCKETMQ_HOME": str(folder),
            "NAMESRV_ADDR": "",
        }
        self.log = folder / "broker.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["unshare", "-rm", "sh", "-c", _SCRIPT, "sh", disk, *broker],
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.disk = Path(f"/proc/{self.process.pid}/root{disk}")
        self.port = 0

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            if self.process.returncode == 77 or "unshare" in self.log.read_text():
                pytest.skip(f"no mount namespaces here: {self.log.read_text().strip()}")
            raise AssertionError(self.log.read_text())
        found = _READY.search(self.log.read_text())
        self.port = int(found[1]) if found else 0
        return bool(found)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SmallDiskBroker]:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1) for a small disk")
    broker = SmallDiskBroker(tmp_path)
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
    broker.process.wait(PATIENCE_S)


@asynchronous
async def test_a_full_disk_under_load(broker: SmallDiskBroker, tmp_path: Path) -> None:
    await until(broker.is_ready, "the broker is ready")
    acknowledged: list[bytes] = []

    async with RemotingClient() as client:

        async def send(number: int) -> Response:
            header = SendMessageRequest(
                producer_group="p", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1,
                queue_id=0, sys_flag=0,
                born_timestamp=1, flag=0, properties=f"KEYS\x01k{number}\x02",
            )  # fmt: skip
            body = b"%d:" % number + bytes(20_000)
            answer = await client.invoke(
                f"127.0.0.1:{broker.port}", RequestCode.SEND_MESSAGE, header, body, timeout=30
            )
            if answer.code == 0:
                acknowledged.append(body)
            return answer

        answers = [await send(number) for number in range(200)]  # 4 MB, 3 MB are free
        refused = [answer for answer in answers if answer.code != 0]
        assert {answer.code for answer in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert "the disk is full" in str(refused[0].remark)
        assert 20 < len(acknowledged) < 190
        before = len(acknowledged)
        (broker.disk / "ballast").unlink()

        async def goes_on() -> bool:
            return (await send(200)).code == 0

        await until(goes_on, "messages are taken again")
        for number in range(201, 240):
            assert (await send(number)).code == 0
        assert len(acknowledged) == before + 40
    assert "Traceback" not in broker.log.read_text()

    os.kill(broker.process.pid, signal.SIGSTOP)  # what is there now would be there after a kill
    shutil.copytree(broker.disk / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    store = open_store(
        tmp_path / "copy",
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=QUEUE_FILE,
    )
    assert bodies_of(store, TOPIC) == acknowledged
    store.close()
