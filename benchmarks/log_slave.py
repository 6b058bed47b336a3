"""A slave that keeps the log and nothing else: what replication costs without consume queues.

``python -m benchmarks.log_slave HOST:PORT FOLDER END`` follows the master as a broker does, until
its log ends there. Prints the CPU seconds that it took, without those of starting, with those of
syncing all to the disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from aiorocketmq.broker.replication.slave import ReplicationClient
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.replica.replication import ReplicationSettings

from .store_common import open_store


async def follow(address: str, folder: Path, file_size: int, end: int) -> float:
    """CPU seconds until the log ends there."""
    store = open_store(
        folder,
        mapped_file_size_commit_log=file_size,
        broker_role=BrokerRole.SLAVE,
        message_index_enable=False,
    )

    def append(phy_offset: int, data: Any, _starts: object) -> None:
        store._log.make_room_at(phy_offset, len(data))
        store._log.append(data)

    async def verified(_address: str) -> None:
        pass

    store.replica.append = append  # type: ignore[method-assign,assignment]
    client = ReplicationClient(store, ReplicationSettings(), SystemClock(), verified)
    client.follow(address)
    started = time.process_time()
    services = [asyncio.create_task(service.run()) for service in (store, client)]
    while store.max_phy_offset < end:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    for service in services:
        service.cancel()
    await asyncio.gather(*services, return_exceptions=True)
    store.close()
    return time.process_time() - started


def main() -> None:
    address, folder, file_size, end = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(runner.run(follow(address, Path(folder), int(file_size), int(end))))


if __name__ == "__main__":
    main()
