"""The broker, put together (class BrokerController). Composition only: each part is given what it
needs, so the order in which they are made is the one in which they need each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...remoting.clock import Clock
from ...remoting.dispatch import Guard, Handler
from ...remoting.protocol.codes import RequestCode
from ...remoting.services import run_stages
from ...store.message_store import MessageStore
from ..config.settings import BrokerSettings
from ..hooks import hooked, load_hooks
from ..processors.raft import RaftProcessor
from ..raft.figures import figures
from ..registry.name_servers import NameServers
from ..registry.registration import Identity
from ..state.state import State
from .access import Access
from .administration import Administration
from .clients import Clients
from .copies import Copies
from .group import Group
from .health import health
from .monitoring import Monitoring, prometheus_server
from .ports import Ports
from .reads import Reads
from .registry import Registry
from .replication import Replication
from .sends import Sends
from .storage import Storage
from .table import Processor, request_table
from .tables import Tables

if TYPE_CHECKING:
    from ..monitoring.prometheus import PrometheusServer


class Broker:
    """One broker on an open store. ``listen`` binds its ports, ``run`` serves until cancelled."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        address: tuple[str, int],
        clock: Clock,
        tables: Tables | None = None,
    ) -> None:
        """``address`` is what stands in message ids; ``tables`` were loaded before, with the
        filters that the store asks for bit maps. Raises ``StoreFileError``, ``TlsError``."""
        self.settings = settings
        self.store = store
        self.tables: Tables = tables or Tables(settings, clock)
        self.tables.agree_with(store)
        self.state: State = self.tables.state
        self.monitoring: Monitoring = Monitoring(settings, store, self.state, clock)
        stats = self.monitoring.stats
        self.registry: Registry = Registry(settings, self.tables, clock)
        self.group: Group | None = None
        if store.raft is not None:
            self.group = Group(
                settings, store, store.raft, lambda: self.identity().broker_addr, clock
            )
        self.access: Access = Access(settings.broker, store, self.identity, clock)
        self.storage: Storage = Storage(
            settings,
            store,
            address,
            self.tables,
            stats,
            self.access.may_send,
            clock,
            None if self.group is None else self.group.durability,
        )
        self.copies: Copies = self.group or Replication(
            settings,
            store,
            self.tables,
            self.storage.delay_offset_persistence,
            self.registry,
            clock,
        )
        self.sends: Sends = Sends(
            settings, address, self.tables, self.storage, self.copies, self.access, clock
        )
        self.reads: Reads = Reads(settings, store, address, self.tables, stats, clock)
        self.clients: Clients = Clients(settings.broker, store, self.state, clock)
        self._connect()
        self.prometheus: PrometheusServer | None = prometheus_server(
            settings,
            store,
            self.state,
            self.monitoring,
            self.sends.fast_failure,
            lambda: self.reads.pull.held_pulls,
            self.copies,
            clock,
        )
        self.table, self._ports = self._serving(clock)

    def _serving(self, clock: Clock) -> tuple[Mapping[RequestCode, Handler], Ports]:
        """The table of requests in the role that the broker begins with, and where it is served. A
        member of a group takes its role by it."""
        table = self._request_table(clock)
        hooks = load_hooks(self.settings.broker.request_hooks)
        if self.group is None:
            first = hooked(self.replication.handlers(table), hooks)
            return first, self._make_ports(first, clock)
        appearance = self.group.take_roles(
            self.tables,
            self.storage,
            self.registry,
            self.reads,
            self.store,
            self.clients.watch.end_locks,
        )
        master, slave, first = (
            hooked(each, hooks) for each in appearance.request_tables(table, self.group.fields)
        )
        ports = self._make_ports(first, clock)
        self.group.node.share(ports.buffers)
        appearance.show_on(ports, master, slave)
        return first, ports

    def _make_ports(self, table: Mapping[RequestCode, Handler], clock: Clock) -> Ports:
        copies = self.copies
        return Ports(
            self.settings,
            table,
            self.guard,
            self.clients.watch.on_disconnect,
            lambda: self.store.flush.waiting + copies.waiting,
            lambda: copies.longest_wait_ms,
            (*copies.listening, *(() if self.prometheus is None else (self.prometheus,))),
            clock,
        )

    def _connect(self) -> None:
        """Who tells whom, in this order: all that is not given to a part when it is made. What
        copies of the log add stands with them."""
        state, pull, arrivals = self.state, self.reads.pull, self.store.arrivals
        state.topics.listeners += (
            self.tables.topic_changed,
            self.monitoring.topic_changed,
            self.sends.new_topics.topic_changed,  # behind the tables': it waits for their file
            pull.topic_changed,
        )
        self.sends.new_topics.listeners.append(self.registry.name_servers.register_topic)
        state.groups.listeners.append(self.tables.group_changed)
        state.groups.deletion_listeners.append(self.monitoring.stats.forget_group)
        state.consumers.on_gone.append(self.tables.forget_filters)
        arrivals.pending = pull.notify_soon
        arrivals.listeners.append(pull.arrived)
        self.store.cleaning.on_queue_deleted.append(self.tables.queue_deleted)

    def _request_table(self, clock: Clock) -> dict[RequestCode, Handler]:
        """As it is at a master."""
        administration = Administration(
            self.settings,
            self.store,
            self.tables,
            self.monitoring,
            self.registry,
            self.sends,
            self.storage.schedule,
            clock,
        )
        administration.info.others.append(self.storage.transactions.figures)
        of_member: tuple[Processor, ...] = ()
        if (node := self.copies.member) is not None:
            administration.info.others.append(partial(figures, node))
            of_member = (RaftProcessor(node),)
        return request_table(
            *self.sends.processors,
            *self.reads.processors,
            *self.clients.processors,
            *administration.processors,
            self.access.processor,
            health(self.store, self.registry.name_servers, self.copies.member),
            *of_member,
        )

    @property
    def replication(self) -> Replication:
        """Of a broker that is no member of a group."""
        assert isinstance(self.copies, Replication)
        return self.copies

    @property
    def port(self) -> int:
        return self._ports.port

    @property
    def name_servers(self) -> NameServers:
        return self.registry.name_servers

    @property
    def guard(self) -> Guard | None:
        """Looks at every request before its handler does."""
        return self.access.guard

    def identity(self) -> Identity:
        """How this broker is known to name servers."""
        return self.registry.identity()

    # -- life
    # ----------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self._ports.listen()

    def close(self) -> None:
        """Stop listening; ``run`` does it at its end, this is for a broker that never ran."""
        self._ports.close()

    async def run(self) -> None:
        """Serve until cancelled. Then: a leader hands its leadership over, name servers are told,
        nobody is accepted any more, the tables are written."""
        try:
            async with self.registry.remoting:
                await run_stages(
                    *((self.copies.first,) if self.copies.first else ()),
                    (self.name_servers,),
                    (
                        *self._ports.services,
                        self.clients.watch,
                        *self.tables.services,
                        *self.monitoring.services,
                        self.sends.fast_failure,
                        *self.access.services,
                        *(() if self.prometheus is None else (self.prometheus,)),
                        *self.registry.services,
                        self.reads.slow_consumers,
                        *self.storage.services,
                        *self.copies.services,
                    ),
                    (self.store, *self.copies.last),  # answers wait for them
                )
        finally:
            self.tables.save_now()
