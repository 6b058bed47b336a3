"""From settings to a broker: its store is opened, it is put together, its ports are bound, all is
closed in good order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ..remoting.clock import Clock
from ..remoting.protocol.message.message_id import pack_host
from ..remoting.protocol.message.topic_names import is_lmq_topic
from ..remoting.services import to_the_end
from ..remoting.system_clock import SystemClock
from ..store.disk.disk import Disk, Lock
from ..store.message_store import MessageStore
from ..store.model.config import BrokerRole, MessageStoreConfig
from ..store.put.consume_queue_ext_writer import BitmapOf
from ..store.recovery.opening import locked_directory
from .assembly.broker import Broker
from .assembly.tables import Tables
from .config.addresses import free_port, resolve
from .config.group_config import forget_role
from .config.settings import BrokerSettings
from .state.topics import Topics

log: Final = logging.getLogger(__name__)

_TOLD: Final = 10
"""So many topics are named."""


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, clock: Clock | None = None, disk: Disk | None = None
) -> AsyncIterator[Broker]:
    """A broker with its store open and its ports bound; at the end the store is closed in good
    order. ``disk``: for the store's files, the machine's by default.

    ``listenPort=0`` takes free ports and is set to the one found. Raises ``StoreError``,
    ``AddressInUseError``, ``TlsError``, and ``OSError`` for a ``brokerIP1`` that has no address.
    """
    clock = clock or SystemClock()
    server = settings.server
    if server.listen_port == 0:
        server.listen_port = free_port(server.bind_address)
    if settings.store.enable_dledger_commit_log:
        forget_role(settings.broker, settings.store)
    address = (await resolve(settings.broker.broker_ip1), server.listen_port)
    with locked_directory(
        settings.store.root, disk
    ) as lock:  # the tables are in it, too: whoever stops there still writes them
        tables = Tables(settings, clock)
        bitmap_of = (
            tables.state.filters.bit_map if settings.broker.enable_calc_filter_bit_map else None
        )
        store = await _open_store(settings.store, clock, pack_host(*address), bitmap_of, lock, disk)
        broker = None
        try:
            broker = Broker(settings, store, address, clock, tables)
            _tell_hidden(store, tables.state.topics)
            try:
                await broker.listen()
                yield broker
            finally:
                broker.close()
        finally:
            end = store.max_phy_offset
            await _close(store, used=broker is not None)
            if broker is not None and store.flushed_offset >= end:
                broker.storage.save_delay_offsets()


def _tell_hidden(store: MessageStore, topics: Topics) -> None:
    """Messages of topics that the table does not have: of an older table, of one that was lost, or
    stored in the moment of a crash. Slaves and members get the table from another one."""
    if store.raft is not None or store.config.broker_role is BrokerRole.SLAVE:
        return
    hidden = sorted(
        name
        for name in store.topics()
        if name not in topics
        and not topics.is_system(name)
        and not is_lmq_topic(name)
        and any(
            store.min_offset(name, number) < store.max_offset(name, number)
            for number in store.queue_ids(name)
        )
    )
    if hidden:
        log.warning(
            "messages are stored in topics that are not in topics.json, nobody is given them "
            "before these are made again topics=%d %s",
            len(hidden),
            ", ".join(hidden[:_TOLD]),
        )


async def _open_store(
    config: MessageStoreConfig,
    clock: Clock,
    store_host: bytes,
    bitmap_of: BitmapOf | None,
    lock: Lock,
    disk: Disk | None,
) -> MessageStore:
    """In a thread, which nobody can interrupt: who is cancelled meanwhile waits for it and closes
    the store again."""
    opened: list[MessageStore] = []

    async def open_it() -> None:
        opened.append(
            await asyncio.to_thread(
                MessageStore.open,
                config,
                clock,
                store_host=store_host,
                bitmap_of=bitmap_of,
                lock=lock,
                disk=disk,
            )
        )

    try:
        await to_the_end(open_it())
    except asyncio.CancelledError:
        for store in opened:
            await _close(store, used=False)
        raise
    return opened[0]


async def _close(store: MessageStore, *, used: bool) -> None:
    """After a crash the first broker corrects the consumer offsets: as long as there was none, the
    next start has to find the crash, too."""
    after_crash = store.recovery is None or not store.recovery.clean
    await to_the_end(asyncio.to_thread(store.close, orderly=used or not after_crash))
