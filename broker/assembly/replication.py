"""Copies of the log: what the broker is as a master, and as a slave."""

from __future__ import annotations

from collections.abc import Mapping

from ...remoting.clock import Clock
from ...remoting.dispatch import Handler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.services import Service
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ..config.settings import BrokerSettings
from ..replication.door import LinkSecurity, link_security
from ..replication.roles import Master, Slave
from ..replication.slave_sync import MasterTables
from ..schedule.schedule_offsets import DelayOffsetPersistence
from .registry import Registry
from .tables import Tables


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
        self.slave: Slave | None = None
        if settings.store.broker_role is BrokerRole.SLAVE:
            self.slave = _slave(
                settings, store, _taken_over(tables, delay_offsets), registry, security, clock
            )

    @property
    def services(self) -> tuple[Service, ...]:
        """Besides ``master.server``."""
        return () if self.slave is None else self.slave.services

    def handlers(self, table: Mapping[RequestCode, Handler]) -> Mapping[RequestCode, Handler]:
        """The broker's table as it is in its role."""
        if self.slave is None:
            return table
        config = self._config
        fields = SendErrorFields(msg_region=config.region_id, trace_on=config.trace_on)
        return self.slave.handlers(table, fields)


def _taken_over(tables: Tables, delay_offsets: DelayOffsetPersistence) -> MasterTables:
    state = tables.state
    return MasterTables(
        state.topics, state.groups, state.offsets, delay_offsets, tables.files, tables.taken_over
    )


def _slave(
    settings: BrokerSettings,
    store: MessageStore,
    tables: MasterTables,
    registry: Registry,
    security: LinkSecurity,
    clock: Clock,
) -> Slave:
    """Raises ``StoreFileError``."""
    slave = Slave(
        settings.later,
        store,
        tables,
        registry.remoting,
        clock,
        own_address=lambda: registry.identity().broker_addr,
        look_for_master=registry.name_servers.register_soon,
        security=security,
    )
    registry.name_servers.on_answer.append(slave.registered)
    return slave
