"""What a broker does about copies of its log, by its role (``brokerRole``; class BrokerController;
ha.md §1, §6, §7).

Every broker serves slaves on its port for that, as the original. SYNC_MASTER: sends wait for
slaves. SLAVE: follows its master (``haMasterAddress``, else whom the name servers name), takes over
its tables and refuses what changes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ...daemon.persist import backup_of
from ...remoting.clock import Clock
from ...remoting.dispatch import Handler
from ...remoting.errors import RocketMQError
from ...remoting.protocol.bodies.codec import BodyError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.route import RegisterBrokerResponse
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.services import Service
from ...remoting.transport.accepting import Seats
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole, FlushDiskType
from ...store.model.errors import translated
from ...store.replica.replica_acks import ReplicaAcks
from ...store.replica.replication import ReplicationSettings
from ..config.config import HA_PORT_DISTANCE, LaterStoreConfig
from ..sends.durability import Durability
from .accepted_offsets import ACCEPTED_FILE, AcceptedOffsets, AcceptedOffsetTable
from .door import LinkSecurity
from .log_begin import ask_where_log_begins
from .master import ReplicationServer, SlavePort
from .self_mending import SelfMending
from .slave import ReplicationClient
from .slave_sync import (
    SYNC_S,
    MasterTables,
    SlaveSync,
)


def ha_port(config: LaterStoreConfig, listen_port: int) -> int:
    """``haListenPort``; 0: one above ``listenPort``."""
    return config.ha_listen_port or listen_port + HA_PORT_DISTANCE


def replication_settings(config: LaterStoreConfig) -> ReplicationSettings:
    return ReplicationSettings(
        batch_size=config.ha_transfer_batch_size,
        heartbeat_s=config.ha_send_heartbeat_interval / 1000,
        housekeeping_s=config.ha_housekeeping_interval / 1000,
        fetch_from_first_file=config.ha_fetch_from_first_file,
        ack_after_flush=config.ha_ack_after_flush,
    )


def was_slave(folder: Path) -> bool:
    """A master starts: whether this store was a slave's until now. Blocks. Raises
    ``StoreFileError``."""
    path = folder / ACCEPTED_FILE
    with translated(path, "cannot be looked at"):
        return path.exists()


def forget_slave(folder: Path) -> None:
    """Its offsets are corrected. Blocks. Raises ``StoreFileError``."""
    path = folder / ACCEPTED_FILE
    with translated(path, "cannot be removed"):
        for each in (backup_of(path), path):  # that which tells it goes last
            each.unlink(missing_ok=True)


class Master:
    """What every broker has: the port for slaves, and what answers wait for."""

    def __init__(
        self,
        config: LaterStoreConfig,
        store: MessageStore,
        clock: Clock,
        *,
        host: str,
        listen_port: int,
        seats: Seats,
        security: LinkSecurity,
        registered: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        acks = ReplicaAcks(
            config.in_sync_replicas, config.ha_slave_fallbehind_max, config.slave_timeout / 1000
        )
        self.server: ReplicationServer = ReplicationServer(
            store,
            replication_settings(config),
            acks,
            clock,
            SlavePort(
                ha_port(config, listen_port), host, seats, config.ha_max_connections_per_address
            ),
            security,
            registered,
        )
        self.durability: Durability = Durability(
            store,
            sync_flush=store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH,
            server=self.server if store.config.broker_role is BrokerRole.SYNC_MASTER else None,
        )


def table_sync(
    store: MessageStore,
    tables: MasterTables,
    remoting: RemotingClient,
    clock: Clock,
    own_address: Callable[[], str],
    *,
    every_s: float = SYNC_S,
) -> SlaveSync:
    """What takes the master's tables over. Raises ``StoreFileError``."""
    accepted = AcceptedOffsets()
    accepted.heard(tables.offsets.record().offset_table)
    if (table := tables.files.load(ACCEPTED_FILE, AcceptedOffsetTable)) is not None:
        accepted.load(table)
        accepted.restore(tables.offsets)
    accepted_file = tables.files.add(ACCEPTED_FILE, accepted.record)
    accepted_file.changed()  # that it is there tells who starts next that this was a slave
    return SlaveSync(
        store,
        tables,
        accepted,
        remoting,
        clock,
        own_address=own_address,
        accepted_changed=accepted_file.changed,
        every_s=every_s,
    )


class Slave:
    """What only a slave has."""

    def __init__(
        self,
        config: LaterStoreConfig,
        store: MessageStore,
        tables: MasterTables,
        remoting: RemotingClient,
        clock: Clock,
        *,
        own_address: Callable[[], str],
        look_for_master: Callable[[], None],
        security: LinkSecurity,
    ) -> None:
        """``look_for_master``: have a name server tell where it is (``registered``). Raises
        ``StoreFileError``."""
        self.sync: SlaveSync = table_sync(store, tables, remoting, clock, own_address)
        self.client: ReplicationClient = ReplicationClient(
            store,
            replication_settings(config),
            clock,
            self.sync.verify,
            operating_errors=(RocketMQError,),
            lost=look_for_master,
            security=security,
        )
        self.mending: SelfMending = SelfMending(
            store,
            clock,
            security,
            lambda: None if self.client.link is None else self.client.address,
            self._begin_of_masters_log,
        )
        self._remoting = remoting
        self._fixed_address = bool(config.ha_master_address)
        if config.ha_master_address:
            self.client.follow(config.ha_master_address)

    @property
    def services(self) -> tuple[Service, ...]:
        return (self.client, self.sync, self.mending)

    async def _begin_of_masters_log(self) -> int | None:
        """None: it cannot be told now."""
        if self.sync.master is None:
            return None
        try:
            return await ask_where_log_begins(self._remoting, self.sync.master)
        except (RocketMQError, BodyError):
            return None

    def registered(self, answer: RegisterBrokerResponse) -> None:
        """A name server tells where the master is."""
        self.sync.master_is(answer.master_addr)
        if answer.ha_server_addr and not self._fixed_address and self.sync.master is not None:
            self.client.follow(answer.ha_server_addr)

    def handlers(
        self, table: Mapping[RequestCode, Handler], fields: SendErrorFields
    ) -> dict[RequestCode, Handler]:
        """The broker's table as it is on a slave."""
        return self.sync.handlers(table, fields)
