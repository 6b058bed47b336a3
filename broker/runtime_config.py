"""The configuration while the broker runs: read and changed by requests 25 and 26 (class Configuration;
``broker-services.md`` §16)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ..remoting.clock import Clock
from ..remoting.errors import RequestError
from ..remoting.persist import replace_file
from ..remoting.protocol.bodies.topic_config import DataVersion
from ..remoting.protocol.codes import ResponseCode
from ..remoting.protocol.java_properties import (
    Property,
    PropertyError,
    format_properties,
    parse_properties,
    read_value,
    update_record,
)
from ..remoting.protocol.wire import Field, Record, fields_of, to_text
from .config import ALIASES

log = logging.getLogger(__name__)

ALWAYS_BLACK_LISTED: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})


class RuntimeConfig:
    """All Records of the broker as one table of properties.

    A Record that is not frozen is changed in place, and whoever holds it sees the new value. A property of a frozen one (the
    store's) is written to the file and takes effect at the next start. ``path`` is the ``-c`` file, or
    ``config/broker.properties`` in the store.
    """

    def __init__(
        self,
        records: Iterable[Record],
        path: Path,
        clock: Clock,
        *,
        unknown: Mapping[str, str] = MappingProxyType({}),
        kept: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``unknown``: what else the file has, handed out and kept. ``kept``: what is not even handed out."""
        self._records = tuple(records)
        self._fields: dict[str, tuple[Record, Field]] = {
            field.wire_name: (record, field) for record in self._records for field in fields_of(type(record))
        }
        self._unknown = dict(unknown)
        self._kept = dict(kept)
        self._next_start: dict[str, str] = {}
        self._path = path
        self._clock = clock
        self._lock = asyncio.Lock()
        self.data_version = DataVersion(counter=0, timestamp=clock.time_ms())

    def text(self) -> str:
        """Every property as ``name=value`` lines, also what the file had and nobody knows."""
        return format_properties(self._shown())

    def _shown(self) -> dict[str, str]:
        values = {name: getattr(record, field.name) for name, (record, field) in self._fields.items()}
        table = {name: _text_of(value) for name, value in values.items() if value is not None}
        return table | self._unknown | self._next_start

    async def update(self, text: str, source: str) -> list[str]:
        """Change properties and write the file; unknown names are passed over. The names that have another value now.

        Raises ``RequestError``: code 16 when one of them must not be changed, code 1 for a text or a value that cannot be
        read; then nothing has changed.
        """
        try:
            found = [each._replace(name=ALIASES.get(each.name, each.name)) for each in parse_properties(text, source)]
            self._refuse_black_listed(found)
            known = [each for each in found if each.name in self._fields]
            values = [(each, read_value(self._fields[each.name][1], each)) for each in known]
        except PropertyError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from error
        changed = [each.name for each, value in values if self._set(each, value)]
        if changed:
            self.data_version = self.data_version.next(self._clock.time_ms())
            log.info("configuration changed by=%s properties=%s", source, changed)
            await self._save()
        return changed

    def _set(self, found: Property, value: object) -> bool:
        record, field = self._fields[found.name]
        if getattr(record, field.name) == value:
            return self._next_start.pop(found.name, None) is not None
        if type(record).__struct_config__.frozen:
            log.warning("property takes effect at the next start name=%s value=%s", found.name, found.value)
            self._next_start[found.name] = found.value
        else:
            update_record(record, [found])
        return True

    def _refuse_black_listed(self, found: Iterable[Property]) -> None:
        record, field = self._fields["configBlackList"]
        listed = {name.strip() for name in str(getattr(record, field.name)).split(";")} | ALWAYS_BLACK_LISTED
        if any(each.name in listed for each in found):
            raise RequestError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")

    async def _save(self) -> None:
        async with self._lock:
            try:
                text = format_properties(self._shown() | self._kept)
                await asyncio.to_thread(replace_file, self._path, text)
            except OSError as error:
                remark = f"the change is in effect but could not be written to {self._path}: {error.strerror}"
                raise RequestError(ResponseCode.SYSTEM_ERROR, remark) from error


def _text_of(value: object) -> str:
    return str(getattr(value, "name", None) or to_text(value))
