"""A member of a group that elects its master: the node, and what the broker is by its role
(dledger.md §5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from ...remoting.clock import Clock
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.services import Service
from ...remoting.sliced_requests import in_slices
from ...remoting.transport.client import RemotingClient
from ...remoting.transport.config import ClientSettings, server_settings
from ...store.dledger.raft_store import RaftStore
from ...store.message_store import MessageStore
from ...store.model.errors import StoreError, StoreFileError
from ...store.model.put import PutMessage
from ...store.model.status import PutStatus
from ...store.raft.ready import Role, RoleChange
from ...store.raft.settings import RaftSettings
from ..config.settings import BrokerSettings
from ..raft.group import follower_broker_id, own_port
from ..raft.member_settings import member_settings
from ..raft.mending import EntryMending
from ..raft.node import RaftNode
from ..raft.parts import NodeSettings
from ..registry.name_servers import NameServers
from ..replication.door import link_security
from ..replication.find_leader import FindLeader
from ..replication.group_roles import GroupRoles, LongUndecided
from ..replication.queue_ends import note_numbers, take_from_others
from ..replication.roles import table_sync
from ..replication.slave_sync import GROUP_SYNC_S, SlaveSync
from ..replication.table_log import NOBODY, TableLog
from ..sends.durability import Durability
from ..sends.fast_failure import Waits
from .appearance import Appearance
from .ports import Listening
from .reads import Reads
from .registry import Registry
from .replication import taken_over
from .storage import Storage
from .tables import Tables
from .to_master import ToMaster

log: Final = logging.getLogger(__name__)


def _node_settings(
    settings: BrokerSettings,
    port: int,
    broker_address: Callable[[], str],
    takes_puts: Callable[[], bool],
) -> NodeSettings:
    """Raises ``TlsError``."""
    security = link_security(settings.tls, settings.ha_secret)
    allowed = frozenset(
        filter(None, map(str.strip, settings.group.d_leger_allowed_addresses.split(";")))
    )
    return NodeSettings(
        server=replace(
            server_settings(settings.server, settings.limits, settings.tls, name="raft", port=port),
            port_property="dLegerPeers",
        ),
        client=ClientSettings(limits=settings.connections.limits),
        outbound=security.outbound,
        secret=security.secret,
        allowed=allowed.__contains__,
        takes_puts=takes_puts,
        wait_ack_ms=settings.group.max_wait_ack_time_ms,
        most_waiting=settings.group.max_pending_requests_num,
        broker_address=broker_address,
    )


def append_noop(store: MessageStore, clock: Clock) -> None:
    """Put what the leader of a new term commits its log with: one small message of a topic that
    every broker has, which nobody reads. Raises ``StoreError``."""
    now = clock.time_ms()
    result = store.put_message(PutMessage(TopicName.SELF_TEST, 0, b"", b"", NOBODY, now, now, 0))
    if result.status is not PutStatus.PUT_OK:
        raise StoreError(f"the first entry of a term is not stored: {result.remark}")


class Group:
    """``node`` speaks with the other members; ``take_roles`` has the broker follow what it says."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        raft: RaftStore,
        broker_address: Callable[[], str],
        clock: Clock,
    ) -> None:
        """``broker_address``: where the broker takes requests. Raises ``StoreError``,
        ``TlsError``."""
        self.settings: RaftSettings = member_settings(
            settings.broker, settings.store, settings.group
        )
        config = settings.broker
        self.fields: SendErrorFields = SendErrorFields(
            msg_region=config.region_id, trace_on=config.trace_on
        )
        self.node: RaftNode = RaftNode(
            self.settings,
            _node_settings(
                settings,
                own_port(self.settings),
                broker_address,
                lambda: not (store.trouble or store.no_room or raft.is_stuck),
            ),
            raft,
            clock,
            partial(append_noop, store, clock),
        )
        self.durability: Durability = Durability(
            store,
            members=self.node,
            end=lambda: raft.log.log.max_phy_offset,
            refusal_fields=self.fields,
        )
        self._settings: Final = settings
        self._raft: Final = raft
        self._clock: Final = clock
        self._services: tuple[Service, ...] = ()
        self._roles: GroupRoles | None = None
        self._table_log: TableLog | None = None
        self._registers_from = 0.0

    # -- as the rest of the broker sees it

    @property
    def waits(self) -> Sequence[Waits]:
        """A message that waits for a majority keeps nobody out: the original answers each after its
        time (dledger.md §5.3)."""
        return ()

    @property
    def waiting(self) -> int:
        return self.node.waiting

    @property
    def longest_wait_ms(self) -> int:
        return self._settings.group.max_wait_ack_time_ms

    def lags(self) -> Mapping[str, int]:
        return {}

    @property
    def member(self) -> RaftNode | None:
        return self.node

    @property
    def listening(self) -> Sequence[Listening]:
        return (self.node,)

    @property
    def first(self) -> Sequence[Service]:
        """It hands its leadership over while the broker still serves."""
        return (self.node,)

    @property
    def services(self) -> Sequence[Service]:
        return self._services

    @property
    def last(self) -> Sequence[Service]:
        return ()

    # -- roles

    def take_roles(
        self,
        tables: Tables,
        storage: Storage,
        registry: Registry,
        reads: Reads,
        store: MessageStore,
        end_locks: Callable[[], None],
    ) -> Appearance:
        """``end_locks``: see ``Appearance``. Raises ``StoreFileError``."""
        name_servers = registry.name_servers
        to_master = ToMaster(self._settings, self._clock, registry.remoting)
        sync = table_sync(
            store,
            taken_over(tables, storage.delay_offset_persistence),
            to_master.remoting,
            self._clock,
            lambda: registry.identity().broker_addr,
            every_s=GROUP_SYNC_S,
        )
        find = FindLeader(
            sync,
            self.node.leader_broker,
            name_servers.register_soon,
            self.node.tell_not_registered,
            self._clock,
        )
        name_servers.on_answer.append(find.registered)
        appearance = Appearance(
            self._settings,
            follower_broker_id(self.settings.self_id),
            tables,
            storage,
            registry,
            reads,
            sync,
            end_locks,
        )
        self._roles = GroupRoles(
            appearance,
            partial(self._ready, partial(self._correct, tables, sync, store, to_master.remoting)),
            of_master=storage.of_master,
            of_slave=(find, sync),
        )
        self._services = (
            to_master,
            self._roles,
            LongUndecided(self._roles, appearance.be_known, self._clock),
            self._mending(store),
        )
        self.node.on_role.append(self._role_changed)
        self.node.on_not_registered.append(partial(self._register_again, name_servers))
        self.node.on_tables_changed.append(sync.tables_changed)
        self._table_log = self._follow_tables(tables, store)
        tables.state.topics.listeners.append(lambda _topic, _change: self._tables_changed())
        tables.state.groups.listeners.append(lambda _name: self._tables_changed())
        return appearance

    def _mending(self, store: MessageStore) -> EntryMending:
        node = self.node
        return EntryMending(
            store, node.entries_of_others, node.hand_over_damaged, node.entry_mended, self._clock
        )

    def _follow_tables(self, tables: Tables, store: MessageStore) -> TableLog:
        """Topics and groups are what the log says, from now on."""
        state, roles = tables.state, self._roles
        assert roles is not None
        table_log = TableLog(
            store,
            state.topics,
            state.groups,
            self._clock,
            leads=lambda: roles.is_master,
            changed=tables.taken_over,
            durability=self.durability,
            deletions=self._raft.deletions,
        )
        tables.in_log, tables.deleted_in_log = table_log.committed, table_log.deleted
        self._raft.on_readable.append(table_log.catch_up)
        table_log.catch_up()
        return table_log

    def _role_changed(self, change: RoleChange) -> None:
        assert self._roles is not None
        leader = change.leader_id or "nobody"
        log.info("member is %s term=%d leader=%s", change.role.name, change.term, leader)
        if change.role is Role.LEADER:
            self._roles.elected()
        elif change.role is Role.FOLLOWER:
            self._roles.follows()
        else:
            self._roles.alone()

    def _register_again(self, name_servers: NameServers) -> None:
        """Whoever asks for it: not more than once a second."""
        now = self._clock.monotonic()
        if self._roles is not None and self._roles.is_master and now >= self._registers_from:
            self._registers_from = now + _REGISTER_S
            log.info("a name server takes somebody else for the master, it is told again")
            name_servers.has_identity()

    def _tables_changed(self) -> None:
        if self._roles is not None and self._roles.is_master:
            self.node.tell_tables_changed()

    async def _correct(
        self, tables: Tables, sync: SlaveSync, store: MessageStore, remoting: RemotingClient
    ) -> None:
        """Before this member is master, what its tables, or what it lacks in them, cannot be."""
        if not self._raft.files.knows_numbers:
            await self._take_numbers(store, remoting)
        await tables.clamp_offsets(store)
        assert self._table_log is not None
        await leave_out_deleted(sync, self._table_log)

    async def _take_numbers(self, store: MessageStore, remoting: RemotingClient) -> None:
        """Its log began anew, and it was elected before it was told where the queues end of which
        nothing is left."""
        node, term = self.node, self.node.term

        def leads() -> bool:
            return node.role is Role.LEADER and node.term == term

        try:
            addresses = map(node.broker_of, node.settings.others)
            await take_from_others(store, remoting, addresses, leads)
            await note_numbers(store, leads)
        except StoreError as error:
            log.error("numbers of queues may begin at 0 again: %s", error)

    async def _ready(self, correct: Callable[[], Awaitable[None]]) -> bool:
        """All that this member's log has is committed, and in its queues or deleted, and its tables
        are corrected by that."""
        term, raft = self.node.term, self._raft
        while self.node.role is Role.LEADER and self.node.term == term:
            stored = await self.durability.all_stored() == 0
            done = stored and not raft.lag and not raft.deletions.are_due
            if done and self.node.takes_messages:
                await correct()
                return True
            await self._clock.sleep(_ASK_AGAIN_S)
        return False


_ASK_AGAIN_S: Final = 0.01
_REGISTER_S: Final = 1.0


async def leave_out_deleted(sync: SlaveSync, table_log: TableLog) -> None:
    """Of the topics that are going to be made, for the last leader did not live to tell of them,
    those that the log says were deleted."""
    if not sync.has_unknown_topics:
        return
    try:
        sync.were_deleted(await in_slices(table_log.deleted_topics()))
    except StoreFileError as error:
        log.error("topics that were deleted may be made again, the log cannot be read: %s", error)
