"""The configuration while the broker runs: read and changed by requests 25 and 26 (class
Configuration; ``broker-services.md`` §16)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from ...daemon.launch import LaunchError, Settings, describe
from ...daemon.persist import replace_file
from ...remoting.clock import Clock
from ...remoting.errors import RequestError, RocketMQError
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.java_properties import (
    Property,
    format_properties,
    parse_properties,
    read_value,
    record_to_properties,
    update_record,
)
from ...remoting.protocol.wire import Field, Record, fields_of
from ...store.model.config import MessageStoreConfig
from ...store.model.errors import StoreError
from ...store.services.retention import Rules
from .config import ALIASES, BrokerClientConfig, BrokerServerConfig
from .group_config import GroupConfig

log: Final = logging.getLogger(__name__)

ALWAYS_BLACK_LISTED: Final = frozenset(
    {
        "brokerConfigPath",
        "rocketmqHome",
        "configBlackList",
        "requestHooks",
        "rocketmq.acl.plain.file",
    }
)
"""The last two are ours: who may change a configuration may not run code or choose other accounts
with it."""


def _next_start() -> frozenset[str]:
    store = {
        field.wire_name
        for field in fields_of(MessageStoreConfig)
        if field.name not in _STORE_AT_ONCE
    }
    ports = {
        field.wire_name
        for record in (BrokerServerConfig, BrokerClientConfig, GroupConfig)
        for field in fields_of(record)
    }
    return _BROKER_NEXT_START | store | ports


_BROKER_NEXT_START: Final = frozenset(
    {
        "fetchNamesrvAddrByAddressServer",
        "rocketmq.namesrv.domain",
        "rocketmq.namesrv.domain.subgroup",
        "brokerIP1",
        "brokerIP2",
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "defaultTopicQueueNums",
        "clusterTopicEnable",
        "brokerTopicEnable",
        "msgTraceTopicName",
        "traceTopicEnable",
        "aclEnable",
        "aclCompatible",
        "requestHooks",
        "rocketmq.acl.plain.file",
        "enableCalcFilterBitMap",
        "expectConsumerNumUseFilter",
        "maxErrorRateOfBloomFilter",
        "prometheusPort",
        "prometheusAddress",
        "haListenPort",
        "haSendHeartbeatInterval",
        "haHousekeepingInterval",
        "haTransferBatchSize",
        "haMasterAddress",
        "haSlaveFallbehindMax",
        "slaveTimeout",
        "haFetchFromFirstFile",
        "haAckAfterFlush",
        "haMaxConnectionsPerAddress",
        "inSyncReplicas",
    }
)
_STORE_AT_ONCE: Final = frozenset(
    {
        "max_message_size",
        "flush_interval_commit_log",
        "flush_commit_log_least_pages",
        "flush_commit_log_thorough_interval",
        "flush_interval_consume_queue",
        "flush_consume_queue_least_pages",
        "flush_consume_queue_thorough_interval",
        "sync_flush_timeout",
        "max_transfer_bytes_on_message_in_memory",
        "max_transfer_count_on_message_in_memory",
        "max_transfer_bytes_on_message_in_disk",
        "max_transfer_count_on_message_in_disk",
        "access_message_in_memory_max_ratio",
        "disk_max_used_space_ratio",
        "disk_space_clean_forcibly_ratio",
        "disk_space_warning_level_ratio",
        "max_msgs_num_batch",
        "default_query_max_num",
        "file_reserved_time",
        "delete_when",
        "clean_file_forcibly_enable",
        "clean_resource_interval",
        "delete_commit_log_files_interval",
        "delete_consume_queue_files_interval",
        "flush_delay_offset_interval",
    }
)
StartCheck = Callable[[Settings, Settings, Settings], Awaitable[None]]
REFUSALS: Final = (ValueError, OSError, RocketMQError, StoreError, LaunchError)
"""What checks raise for values that cannot be."""

NEXT_START: Final = _next_start()
"""Properties whose change takes effect at the next start: they say what the broker is, where its
files lie, what it listens on. All others take effect at once."""


class RuntimeConfig:
    """All Records of the broker as one table of properties.

    A change is made in place: who reads its Record when it needs a value sees the new one, and who
    has taken a value over listens (``on_change``, called with the names that have changed). What
    only counts at start, ``NEXT_START`` and all of a frozen Record, is written to the file and
    stays as it is until then. Before anything is changed, ``checks`` look at a copy of a Record
    with the new values, ``start_checks`` at what the next start would be told, at what it would be
    told now, and at what this one has; what they find wrong is one of ``REFUSALS``. ``path`` is the
    ``-c`` file, or ``config/broker.properties`` in the store.
    """

    def __init__(
        self,
        records: Iterable[Record],
        path: Path,
        clock: Clock,
        *,
        unknown: Mapping[str, str] = MappingProxyType({}),
        kept: Mapping[str, str] = MappingProxyType({}),
        of_this_machine: Collection[str] = (),
        in_force: Mapping[str, Callable[[str], str]] = MappingProxyType({}),
    ) -> None:
        """``unknown``: what else the file has, handed out and kept. ``kept``: what is not even
        handed out. ``of_this_machine``: what is not written before somebody says what it is.
        ``in_force``: what a configured value comes to, for those who ask; the file keeps what was
        configured."""
        self._records = tuple(records)
        self._fields: dict[str, tuple[Record, Field]] = {
            field.wire_name: (record, field)
            for record in self._records
            for field in fields_of(type(record))
        }
        self._unknown = dict(unknown)
        self._kept = dict(kept)
        self._unwritten = set(of_this_machine)
        self._in_force = in_force
        self._next_start: dict[str, str] = {}
        self._unsaved = False
        """The file could not be written after a change."""
        self._path = path
        self._clock = clock
        self.on_change: list[Callable[[Sequence[str]], None]] = []
        self.checks: list[Callable[[Record], object]] = []
        self.start_checks: list[StartCheck] = []
        self._lock = asyncio.Lock()
        self.data_version: DataVersion = DataVersion(counter=0, timestamp=clock.time_ms())

    def text(self) -> str:
        """Every property as ``name=value`` lines, also what the file had and nobody knows."""
        table = self._shown()
        return format_properties(
            table | {name: value_of(table[name]) for name, value_of in self._in_force.items()}
        )

    def _running(self) -> dict[str, str]:
        return {
            name: text
            for record in self._records
            for name, text in record_to_properties(record).items()
        }

    def _shown(self) -> dict[str, str]:
        return self._running() | self._unknown | self._next_start

    def unknown_in(self, text: str) -> list[str]:
        """Names in such a text that are no property of this broker: ``update`` passes over them.
        Raises ``ValueError``."""
        return [
            each.name
            for each in parse_properties(text)
            if ALIASES.get(each.name, each.name) not in self._fields
        ]

    def later_in(self, names: Iterable[str]) -> list[str]:
        """Those of the names whose new value only counts at the next start."""
        return [name for name in names if name in self._next_start]

    async def update(self, text: str, source: str) -> list[str]:
        """Change properties and write the file; unknown names are passed over. The names that have
        another value now. ``source``: who asked, for the log. A file that could not be written is
        written by the next call, whatever that changes.

        Raises ``RequestError``: code 16 when one of them must not be changed, code 1 for a text or
        a value that cannot be read; then nothing has changed.
        """
        async with self._lock:
            values = await self._read(text)
            changed = [each.name for each, value in values if self._set(each, value)]
            said = {each.name for each, _ in values} & self._unwritten  # also that it shall stay so
            self._unwritten -= said
            if changed:
                self.data_version = self.data_version.next(self._clock.time_ms())
                log.info("configuration changed by=%s properties=%s", source, changed)
                for listener in self.on_change:
                    listener(changed)
            if changed or said or self._unsaved:
                self._unsaved = True
                await self._save()
                self._unsaved = False
        return changed

    async def _read(self, text: str) -> list[tuple[Property, object]]:
        """The values of known properties. Raises ``RequestError``."""
        try:
            found = [
                each._replace(name=ALIASES.get(each.name, each.name))
                for each in parse_properties(text)
            ]
            self._refuse_black_listed(found)
            known = [each for each in found if each.name in self._fields]
            values = [(each, read_value(self._fields[each.name][1], each)) for each in known]
            self._check(known)
            await self._check_next_start(known)
        except REFUSALS as error:
            if isinstance(error, RequestError):
                raise
            raise RequestError(ResponseCode.SYSTEM_ERROR, describe(error)) from error
        return values

    async def _check_next_start(self, found: Iterable[Property]) -> None:
        """Raises ``REFUSALS``."""
        kinds = [type(record) for record in self._records]
        now = {name: value for name, value in self._shown().items() if name in self._fields}
        wanted = now | {each.name: each.value for each in found}
        # of other characters than ASCII the file has six for each
        parse_properties(format_properties(self._shown() | wanted | self._kept))
        after, before, running = (
            Settings(kinds, [Property(*each) for each in table.items()])
            for table in (wanted, now, self._running())
        )
        for check in self.start_checks:
            await check(after, before, running)

    def _check(self, found: Iterable[Property]) -> None:
        """Raises ``ValueError``."""
        by_record: dict[int, list[Property]] = {}
        for each in found:
            by_record.setdefault(id(self._fields[each.name][0]), []).append(each)
        for record in self._records:
            if id(record) in by_record:
                values = {
                    each.name: read_value(self._fields[each.name][1], each)
                    for each in by_record[id(record)]
                }
                changed = replace(
                    record, **{self._fields[name][1].name: value for name, value in values.items()}
                )
                for check in self.checks:
                    check(changed)

    def _set(self, found: Property, value: object) -> bool:
        record, field = self._fields[found.name]
        if getattr(record, field.name) == value:
            return self._next_start.pop(found.name, None) is not None
        if found.name in NEXT_START or type(record).__struct_config__.frozen:
            log.warning(
                "property takes effect at the next start name=%s value=%s", found.name, found.value
            )
            self._next_start[found.name] = found.value
        else:
            update_record(record, [found])
        return True

    def _refuse_black_listed(self, found: Iterable[Property]) -> None:
        record, field = self._fields["configBlackList"]
        listed = {
            name.strip() for name in str(getattr(record, field.name)).split(";")
        } | ALWAYS_BLACK_LISTED
        if any(each.name in listed for each in found):
            raise RequestError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")

    async def _save(self) -> None:
        written = self._shown() | self._kept
        text = format_properties(
            {name: value for name, value in written.items() if name not in self._unwritten}
        )
        try:
            await asyncio.to_thread(replace_file, self._path, text)
        except OSError as error:
            remark = (
                f"the change is in effect but could not be written to {self._path}: "
                f"{error.strerror}"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark) from error


def check_store_config(record: Record) -> None:
    """Raises ``StoreConfigError``."""
    if isinstance(record, MessageStoreConfig):
        Rules.of(record)
