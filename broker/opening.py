"""From settings to a broker: its store is opened, it is put together, its ports are bound, all is closed in good order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ..remoting.clock import Clock, SystemClock
from ..remoting.protocol.message_id import pack_host
from ..store.config import MessageStoreConfig
from ..store.lock_file import LockFile
from ..store.message_store import BitmapOf, MessageStore
from ..store.opening import locked_directory
from .addresses import free_port, resolve
from .assembly import Broker
from .settings import BrokerSettings
from .tables import Tables

__all__ = ["open_broker"]


@asynccontextmanager
async def open_broker(settings: BrokerSettings, clock: Clock | None = None) -> AsyncIterator[Broker]:
    """A broker with its store open and its ports bound; at the end the store is closed in good order.

    ``listenPort=0`` takes free ports and is set to the one found. Raises ``StoreError``, ``AddressInUseError``,
    ``TlsError``, and ``OSError`` for a ``brokerIP1`` that has no address.
    """
    clock = clock or SystemClock()
    server = settings.server
    if server.listen_port == 0:
        server.listen_port = free_port(server.bind_address)
    address = (await resolve(settings.broker.broker_ip1), server.listen_port)
    with locked_directory(settings.store.root) as lock:  # the tables are in it, too: whoever stops there still writes them
        tables = Tables(settings, clock)
        bitmap_of = tables.filters.bit_map if settings.broker.enable_calc_filter_bit_map else None
        store = await _open_store(settings.store, clock, pack_host(*address), bitmap_of, lock)
        broker = None
        try:
            broker = Broker(settings, store, address, clock, tables)
            try:
                await broker.listen()
                yield broker
            finally:
                broker.close()
        finally:
            end = store.max_phy_offset
            await _close_store(store)
            if broker is not None and store.flushed_offset >= end:
                broker.save_delay_offsets()


async def _open_store(
    config: MessageStoreConfig, clock: Clock, store_host: bytes, bitmap_of: BitmapOf | None, lock: LockFile
) -> MessageStore:
    """In a thread. Who is cancelled meanwhile closes the store again."""
    opening = asyncio.create_task(
        asyncio.to_thread(MessageStore.open, config, clock, store_host=store_host, bitmap_of=bitmap_of, lock=lock)
    )
    try:
        await _end_of(opening)
    except asyncio.CancelledError:
        if opening.exception() is None:
            await _close_store(opening.result())
        raise
    return opening.result()


async def _close_store(store: MessageStore) -> None:
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    await _end_of(closing)
    closing.result()


async def _end_of(work: asyncio.Task[Any]) -> None:
    """Of a thread, which nobody can interrupt: who is cancelled meanwhile waits for it, for the directory is still used."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
