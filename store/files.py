"""All that a store keeps in its directory."""

from __future__ import annotations

from typing import Final

from ..remoting.clock import Clock
from ..remoting.outages import Outages
from ..remoting.protocol.record.entry import ENTRY_HEAD
from .disk.checkpoint import Checkpoint
from .disk.disk import Disk
from .disk.mapped_file_queue import MappedFileQueue
from .disk.mapping_limit import MappingLimit
from .index.index_files import IndexFiles
from .index.indexing import Indexing
from .log.commit_log import CommitLog
from .log.damage import DamagedRecords
from .log.damage_file import DamageFile
from .log.entry_index import EntryIndex
from .model.config import MessageStoreConfig
from .queues.consume_queue_ext import ConsumeQueueExts
from .queues.consume_queues import ConsumeQueues
from .queues.gone_queues import GoneQueues
from .queues.queue_ends import QueueEnds


class StoreFiles:
    """The files of one store, none of them loaded yet."""

    def __init__(self, config: MessageStoreConfig, disk: Disk, clock: Clock) -> None:
        """Raises StoreConfigError, StoreFileError."""
        root = config.root
        member = config.enable_dledger_commit_log
        self.log: Final = CommitLog(log_files(config, disk), ENTRY_HEAD.size if member else 0)
        self.entry_index: Final = (
            EntryIndex(config.dledger_directory / "index", disk) if member else None
        )
        """Of a member of a DLedger group."""
        self.checksums: Final = None if self.entry_index is None else self.entry_index.checksums
        self.damage: Final = DamagedRecords(disk.new_lock())
        self.log.files.on_bad_sector = self.damage.note_bad_sector
        outages = self.outages = Outages(clock)
        """Of what lasts because of the disk, on the event loop; who writes in a thread has his
        own."""
        self.damage_file: Final = DamageFile(root, disk, Outages(clock))
        self.queues: Final = ConsumeQueues(
            root / "consumequeue",
            config.consume_queue_file_size,
            disk,
            MappingLimit.of(config, disk),
        )
        self.queues.exts = _extensions(config, disk, outages)
        self.gone_queues: Final = GoneQueues(self.queues)
        self.checkpoint: Final = Checkpoint(root / "checkpoint", disk)
        self.ends: Final = QueueEnds(root, disk, Outages(clock))
        self.queues.on_delete = self.ends.forget
        self.index: Final = IndexFiles(
            root / "index", config.max_hash_slot_num, config.max_index_num, disk, clock.time_ms
        )
        self.indexing: Final = Indexing(self.index, clock)


def log_files(config: MessageStoreConfig, disk: Disk) -> MappedFileQueue:
    """The files of the commit log, not loaded yet; those of a member of a DLedger group lie behind
    its old ones, which had no entries. Raises StoreConfigError, StoreFileError."""
    paths, read_only, size = (
        config.commit_log_paths,
        config.read_only_paths,
        config.mapped_file_size_commit_log,
    )
    if config.enable_dledger_commit_log:
        old = [path for path in paths if disk.is_directory(path)]
        paths, read_only = config.dledger_data_paths, (*read_only, *old)
    if len(paths) == 1 and not read_only:
        files = MappedFileQueue(paths[0], size, disk)
    else:
        files = MappedFileQueue.on_paths(paths, read_only, size, disk)
    files.makes_folders = False  # they are made when the store is opened
    files.two_reserve = True
    return files


def _extensions(
    config: MessageStoreConfig, disk: Disk, outages: Outages
) -> ConsumeQueueExts | None:
    """The extensions of consume queues; None when there are none and shall be none."""
    directory, enabled = config.root / "consumequeue_ext", config.enable_consume_queue_ext
    if not enabled and not disk.is_directory(directory):
        return None
    return ConsumeQueueExts(
        directory, config.mapped_file_size_consume_queue_ext, disk, outages, enabled=enabled
    )
