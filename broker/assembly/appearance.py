"""What others see of a member of a group: which requests it serves, and how name servers know it
(dledger.md §5.3 to §5.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ...remoting.dispatch import Body, Context, Handler, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.wire import NoFields
from ...store.model.config import BrokerRole
from ..config.config import BrokerConfig
from ..config.settings import BrokerSettings
from ..replication.role_tables import slave_table, undecided_table
from ..replication.slave_sync import SlaveSync
from ..schedule.offset_persistence import DelayOffsetPersistence
from ..schedule.schedule_offsets import DelayOffsets
from ..sends.durability import BUSY
from .ports import Ports
from .reads import Reads
from .registry import Registry
from .storage import Storage
from .tables import Tables

log: Final = logging.getLogger(__name__)

Table = Mapping[RequestCode, Handler]


class Appearance:
    """See ``group_roles.Appearance``. Until ``show_on`` is called nobody is served."""

    def __init__(
        self,
        settings: BrokerSettings,
        slave_id: int,
        tables: Tables,
        storage: Storage,
        registry: Registry,
        reads: Reads,
        sync: SlaveSync,
        end_locks: Callable[[], None],
    ) -> None:
        """``end_locks``: those of queues that this broker has given."""
        self._settings: Final = settings
        self._slave_id: Final = slave_id
        self._tables: Final = tables
        self._storage: Final = storage
        self._registry: Final = registry
        self._reads: Final = reads
        self._sync: Final = sync
        self._end_locks: Final = end_locks
        self._ports: Ports | None = None
        self._master: Table = {}
        self._slave: Table = {}
        registry.name_servers.wait_for_identity()

    def request_tables(self, table: Table, fields: SendErrorFields) -> tuple[Table, Table, Table]:
        """Of a master, of a slave, and of who does not know yet what it is."""
        offsets, persistence = self._tables.delay_offsets, self._storage.delay_offset_persistence
        master = {
            **table,
            RequestCode.GET_ALL_DELAY_OFFSET: CommittedDelayOffsets(offsets, persistence).answer,
        }
        commit = self._sync.commit
        return master, slave_table(table, fields, commit), undecided_table(table, fields, commit)

    def show_on(self, ports: Ports, master: Table, slave: Table) -> None:
        """The tables are those of ``request_tables``, perhaps with something around the
        handlers."""
        self._ports, self._master, self._slave = ports, master, slave

    def be_master(self) -> None:
        self._tables.begin_as_master(self._storage.store, self._sync.leads())
        self._storage.begin_as_master()
        self._is(0, BrokerRole.SYNC_MASTER, self._master)

    def be_slave(self) -> None:
        self._storage.end_as_master()
        self._is(self._slave_id, BrokerRole.SLAVE, self._slave)
        self._end_locks()

    def be_known(self) -> None:
        """As a follower, though it follows nobody: it goes on refusing what it refused."""
        self._is(self._slave_id, BrokerRole.SLAVE, None)

    def _is(self, broker_id: int, role: BrokerRole, table: Table | None) -> None:
        config: BrokerConfig = self._settings.broker
        config.broker_id, self._settings.store.broker_role = broker_id, role
        self._storage.store.read_role()
        self._reads.pull.read_role()
        assert self._ports is not None
        if table is not None:
            self._ports.use(table)
        self._registry.name_servers.has_identity()
        log.info("this broker is %s id=%d", role.name, broker_id)


class CommittedDelayOffsets:
    """What followers ask for: how far each delay level has been delivered. What was delivered
    counts only when it is committed: who leads next would pass over what it does not have."""

    def __init__(self, offsets: DelayOffsets, persistence: DelayOffsetPersistence) -> None:
        self._offsets: Final = offsets
        self._persistence: Final = persistence

    async def answer(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        if not await self._persistence.settle():
            raise RequestError(ResponseCode.SYSTEM_ERROR, BUSY)
        return Reply(body=encode_body(self._offsets.safe_record()))
