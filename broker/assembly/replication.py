"""Copies of the log: what the broker is as a master, and as a slave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...remoting.clock import Clock
from ...remoting.dispatch import Handler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.services import Service
from ...remoting.transport.client import RemotingClient
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ..config.settings import BrokerSettings
from ..raft.node import RaftNode
from ..replication.door import LinkSecurity, link_security
from ..replication.master_mending import MasterMending
from ..replication.roles import Master, Slave
from ..replication.slave_sync import MasterTables
from ..schedule.offset_persistence import DelayOffsetPersistence
from ..sends.durability import Durability
from ..sends.fast_failure import Waits
from .ports import Listening
from .registry import Registry
from .tables import Tables
from .to_master import ToMaster


class Replication:
    """Every broker has a port for slaves (``master``); one of the role SLAVE follows a master."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        tables: Tables,
        delay_offsets: DelayOffsetPersistence,
        registry: Registry,
        clock: Clock,
    ) -> None:
        """Raises ``StoreFileError``, ``TlsError``."""
        self._config = settings.broker
        self._longest_wait_ms: Callable[[], int] = lambda: settings.later.slave_timeout
        security = link_security(settings.tls, settings.ha_secret)
        self.master: Master = Master(
            settings.later,
            store,
            clock,
            host=settings.server.bind_address,
            listen_port=settings.server.listen_port,
            seats=settings.seats,
            security=security,
            registered=registry.name_servers.slaves,
        )
        self._to_others: Final = ToMaster(settings, clock, registry.remoting)
        remoting = self._to_others.remoting
        self.mending: MasterMending = MasterMending(
            store,
            remoting,
            registry.name_servers.slave_addresses,
            lambda: bool(self.master.server.slaves),
            clock,
            has_slave=settings.store.broker_role is BrokerRole.SYNC_MASTER,
        )
        self.slave: Slave | None = None
        if settings.store.broker_role is BrokerRole.SLAVE:
            followed = taken_over(tables, delay_offsets)
            self.slave = _slave(settings, store, followed, registry, remoting, security, clock)

    @property
    def durability(self) -> Durability:
        return self.master.durability

    @property
    def waits(self) -> Sequence[Waits]:
        return (self.master.server,)

    @property
    def waiting(self) -> int:
        return self.master.server.waiting

    @property
    def longest_wait_ms(self) -> int:
        return self._longest_wait_ms()

    def lags(self) -> Mapping[str, int]:
        return self.master.server.lags()

    @property
    def member(self) -> RaftNode | None:
        return None

    @property
    def listening(self) -> Sequence[Listening]:
        return (self.master.server,)

    @property
    def first(self) -> Sequence[Service]:
        return ()

    @property
    def services(self) -> tuple[Service, ...]:
        of_role = (self.mending,) if self.slave is None else self.slave.services
        return (self._to_others, *of_role)

    @property
    def last(self) -> Sequence[Service]:
        return (self.master.server,)

    def handlers(self, table: Mapping[RequestCode, Handler]) -> Mapping[RequestCode, Handler]:
        """The broker's table as it is in its role."""
        if self.slave is None:
            return table
        config = self._config
        fields = SendErrorFields(msg_region=config.region_id, trace_on=config.trace_on)
        return self.slave.handlers(table, fields)


def taken_over(tables: Tables, delay_offsets: DelayOffsetPersistence) -> MasterTables:
    state = tables.state
    return MasterTables(
        state.topics,
        state.groups,
        state.offsets,
        delay_offsets,
        tables.files,
        tables.taken_over,
        tables.offsets_file.changed,
    )


def _slave(
    settings: BrokerSettings,
    store: MessageStore,
    tables: MasterTables,
    registry: Registry,
    remoting: RemotingClient,
    security: LinkSecurity,
    clock: Clock,
) -> Slave:
    """Raises ``StoreFileError``."""
    slave = Slave(
        settings.later,
        store,
        tables,
        remoting,
        clock,
        own_address=lambda: registry.identity().broker_addr,
        look_for_master=registry.name_servers.register_soon,
        security=security,
    )
    registry.name_servers.on_answer.append(slave.registered)
    return slave
