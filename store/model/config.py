"""What can be set about the store: the original's names and defaults (broker-services.md §16.2,
MessageStoreConfig)."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import msgspec

from ...remoting.protocol.record.layout import QUEUE_UNIT
from ...remoting.protocol.wire import Record, i32
from .errors import StoreConfigError

CQ_UNIT_SIZE: Final = QUEUE_UNIT.size
PATH_SPLITTER: Final = ","
"""Between the paths of a commit log (MessageStoreConfig.MULTI_PATH_SPLITTER)."""

_BATCHES: Final = "no effect here: entries are always pushed in batches"

positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""With 0 of these a store would take no message or hand none out. Checked where text is read, not
when a Record is made."""
not_negative = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class BrokerRole(Enum):
    """Who writes: a master takes messages, a slave copies its master's commit log."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class FlushDiskType(Enum):
    """Whether a send is answered before (ASYNC) or after (SYNC) the message is on the disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class MessageStoreConfig(Record, kw_only=True):
    """Sizes in bytes, intervals in ms. Who changes one calls ``MessageStore.reconfigure``; most
    count at start only."""

    store_path_root_dir: str = "~/store"
    """``~`` is the home of the user."""
    store_path_commit_log: str | None = None
    """None: ``<root>/commitlog``. Several paths joined by ``,``: the files are spread over them."""
    read_only_commit_log_store_paths: str | None = None
    """Paths joined by ``,`` whose commit log files are read and get no new ones."""
    mapped_file_size_commit_log: Annotated[int, msgspec.Meta(ge=4096, le=2**31 - 1)] = 1 << 30
    max_mapped_queue_files: positive = 24_000
    """Files of consume queues that are mapped at once; those not used for the longest time are
    unmapped. Never more than half of the mappings that the kernel allows a process
    (``vm.max_map_count``)."""
    max_mapped_queue_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] = 256 << 30
    """The same limit in bytes of address space."""
    mapped_file_size_consume_queue: Annotated[int, msgspec.Meta(ge=CQ_UNIT_SIZE, le=2**31 - 1)] = (
        300_000 * CQ_UNIT_SIZE
    )
    """Rounded up to whole units of 20 bytes."""
    enable_consume_queue_ext: bool = False
    """Keep the bitmap of the SQL filters that want a message with its consume queue
    (``consumequeue_ext``)."""
    mapped_file_size_consume_queue_ext: Annotated[int, msgspec.Meta(ge=4096, le=2**31 - 1)] = (
        48 << 20
    )
    bit_map_length_consume_queue_ext: i32 = 64
    """Without effect, as in the original: bitmaps are as long as the broker's bloom filter makes
    them."""
    max_message_size: positive = 4 << 20
    """Of a body as it arrives."""

    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    offset_check_in_slave: bool = False
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log: positive = 500
    flush_commit_log_least_pages: not_negative = 4
    flush_commit_log_thorough_interval: not_negative = 10_000
    flush_interval_consume_queue: positive = 1_000
    flush_consume_queue_least_pages: not_negative = 2
    flush_consume_queue_thorough_interval: not_negative = 60_000
    sync_flush_timeout: positive = 5_000
    check_crc_on_recover: bool = msgspec.field(default=True, name="checkCRCOnRecover")

    max_transfer_bytes_on_message_in_memory: positive = 256 << 10
    max_transfer_count_on_message_in_memory: positive = 32
    max_transfer_bytes_on_message_in_disk: positive = 64 << 10
    max_transfer_count_on_message_in_disk: positive = 8
    access_message_in_memory_max_ratio: percent = 40
    """Percent of the physical memory: what lies further back counts as on the disk."""

    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    disk_max_used_space_ratio: percent = 75
    """Kept between 10 and 95 where it is used, as in the original."""
    disk_space_clean_forcibly_ratio: Annotated[int, msgspec.Meta(ge=1, le=100)] = 85
    """Percent; a system property of the original, the name is that of 5.x."""
    disk_space_warning_level_ratio: Annotated[int, msgspec.Meta(ge=1, le=100)] = 90
    """Likewise."""
    warm_maped_file_enable: bool = False
    """Touch the pages of the whole next commit log file ahead; without it the next 16 MiB are
    touched ahead."""
    mlock_mapped_file_enable: bool = False
    """Keep the pages of the commit log that were touched ahead in memory until their file is full
    (needs ``ulimit -l``)."""
    message_index_enable: bool = True
    max_hash_slot_num: positive = 5_000_000
    max_index_num: positive = 20_000_000
    max_msgs_num_batch: positive = 64
    default_query_max_num: positive = 32
    file_reserved_time: not_negative = 72
    """Hours."""
    delete_when: str = "04"
    """Hours of the day, several separated by ``;``."""
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: positive = 10_000
    delete_commit_log_files_interval: not_negative = 100
    delete_consume_queue_files_interval: not_negative = 100
    flush_delay_offset_interval: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] = 10_000
    enable_schedule_message_stats: bool = True
    scrub_interval_hours: not_negative = 168
    """A scrub of the commit log begins so long after the last one did (``scrub``); 0: none.
    Ours."""
    scrub_bytes_per_second: positive = 4 << 20
    """It reads no faster: a percent of a processor, 256 s for a file of 1 GiB. Ours."""
    enable_lmq: bool = False
    """Topics and groups ``%LMQ%...`` need no configuration, their queue is number 0
    (``broker/state/lmq.py``)."""
    enable_multi_dispatch: bool = False
    """A message also goes to the topics that its property INNER_MULTI_DISPATCH names
    (``multi_dispatch``)."""
    max_lmq_consume_queue_num: not_negative = 20_000

    enable_dledger_commit_log: bool = msgspec.field(default=False, name="enableDLegerCommitLog")
    """The broker is a member of a group that elects its master (dledger.md); the spelling is the
    original's."""
    dledger_group: str | None = msgspec.field(default=None, name="dLegerGroup")
    """None: the name of the broker."""
    dledger_peers: str | None = msgspec.field(default=None, name="dLegerPeers")
    """Every member, this one too: ``n0-host:port;n1-host:port``."""
    dledger_self_id: str | None = msgspec.field(default=None, name="dLegerSelfId")
    """Which of them this one is: a letter and a number."""
    preferred_leader_id: str | None = None
    """Members, joined by ``;``, one of which leads whenever it can."""
    is_enable_batch_push: Annotated[bool, msgspec.Meta(description=_BATCHES)] = False
    store_path_dledger_commit_log: str | None = msgspec.field(
        default=None, name="storePathDLedgerCommitLog"
    )
    """None: ``<root>/dledger-<id>/data``. Several paths joined by ``,``: file n lies in path n
    modulo their number."""

    @property
    def is_master(self) -> bool:
        """Of a member of a group: it leads, and all that its log has is committed. Nobody else
        there knows where queues end."""
        if self.enable_dledger_commit_log:
            return self.broker_role is BrokerRole.SYNC_MASTER
        return self.broker_role is not BrokerRole.SLAVE

    @property
    def hands_out_only_synced(self) -> bool:
        """Nothing leaves the broker that is not on its disk: not to consumers, not to slaves. What
        a slave has was on its master's; what a group has committed, a majority has."""
        return (
            self.flush_disk_type is FlushDiskType.SYNC_FLUSH
            and self.broker_role is not BrokerRole.SLAVE
            and not self.enable_dledger_commit_log
        )

    @property
    def root(self) -> Path:
        """The store directory."""
        return _path(self.store_path_root_dir)

    @property
    def commit_log_path(self) -> Path:
        """Where the commit log lies; of several paths the first."""
        return self.commit_log_paths[0]

    @property
    def commit_log_paths(self) -> tuple[Path, ...]:
        """Where the commit log lies."""
        return _paths(self.store_path_commit_log) or (self.root / "commitlog",)

    @property
    def read_only_paths(self) -> tuple[Path, ...]:
        """Where older files of the commit log lie."""
        return _paths(self.read_only_commit_log_store_paths)

    @property
    def dledger_directory(self) -> Path:
        """What a member of a group keeps besides (``enableDLegerCommitLog``)."""
        return self.root / f"dledger-{self.dledger_self_id}"

    @property
    def dledger_data_paths(self) -> tuple[Path, ...]:
        """Where the entries of a member lie."""
        return _paths(self.store_path_dledger_commit_log) or (self.dledger_directory / "data",)

    @property
    def consume_queue_file_size(self) -> int:
        """The configured size in whole units."""
        return -(-self.mapped_file_size_consume_queue // CQ_UNIT_SIZE) * CQ_UNIT_SIZE


def _paths(configured: str | None) -> tuple[Path, ...]:
    parts = [part.strip() for part in (configured or "").split(PATH_SPLITTER)]
    return tuple(_path(part) for part in dict.fromkeys(parts) if part)


def _path(configured: str) -> Path:
    """Raises ``StoreConfigError``."""
    try:
        return Path(configured).expanduser()
    except RuntimeError:
        raise StoreConfigError(
            f"{configured}: there is no such user, or it has no home; write the path in full"
        ) from None
