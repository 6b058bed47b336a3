"""How far a broadcasting consumer has got: a file of its own, in the original's format (client.md
§4.10; class LocalFileOffsetStore).

``<folder>/<client id>/<group>/offsets.json``, with the content before as ``.bak``. The keys of its
table are JSON objects, as fastjson writes them; so a Java consumer goes on where this one stopped,
and the other way round. Earlier versions left unit and ``STREAM`` out of the client id. Such a file
may be another consumer's, who is there in any version: nobody takes it over, a line tells of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...daemon.backed_file import BackedFile, UnusableFileError
from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import decode_body
from ...remoting.protocol.fastjson.writer import dumps_pretty
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import Record
from ...remoting.services import to_the_end
from ..errors import ConfigError
from .offset_store import KnownOffsets

log: Final = logging.getLogger(__name__)

DEFAULT_FOLDER = Path("~/.rocketmq_offsets")


class OffsetFile(Record, frozen=True, kw_only=True):
    """The content of the file (class OffsetSerializeWrapper)."""

    offset_table: dict[MessageQueue, int] = msgspec.field(default_factory=dict)


class LocalOffsets(KnownOffsets):
    """Offsets of one group on one machine. Two consumers must not share a file: give one of them an
    ``instance_name``."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        client_id: str,
        group: str,
        clock: Clock,
        earlier_id: str | None = None,
    ) -> None:
        """``client_id``: one that stays the same (``ClientInstance.lasting_id``). ``earlier_id``:
        what earlier versions had for it."""
        super().__init__()
        self._outages = Outages(clock)
        home = Path(folder or DEFAULT_FOLDER).expanduser()
        self.path: Path = home / client_id / group / "offsets.json"
        self._earlier_path = home / (earlier_id or client_id) / group / "offsets.json"
        self._file = BackedFile(self.path, lost="what was consumed since comes again")
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Before the first use. Raises ``ConfigError`` when the file cannot be read."""
        if not await asyncio.to_thread(self._read):
            await asyncio.to_thread(self._tell_of_earlier)

    async def fetch(self, queue: MessageQueue) -> int | None:
        """What the file has. Raises ``ConfigError`` when neither it nor its backup can be read."""
        async with self._lock:
            return (await asyncio.to_thread(self._read)).get(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write these into the file; who is cancelled waits for that, as whoever comes next would
        find its thread still at it. Raises ``OSError``, ``ConfigError``."""
        async with self._lock:
            await to_the_end(asyncio.to_thread(self._write, dict(offsets)))

    async def persist(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Write what is known (of these queues). A failure is logged: the next time will do."""
        known = (
            self.known if queues is None else {q: self.known[q] for q in queues if q in self.known}
        )
        if not known:
            return
        try:
            await self.commit(known)
        except (OSError, ConfigError) as error:
            self._outages.fails(
                log, (self.path,), "offsets not written file=%s error=%s", self.path, error
            )
        else:
            self._outages.works((self.path,))

    # --- in a thread
    # ----------------------------------------------------------------------------------------------

    def _read(self) -> dict[MessageQueue, int]:
        try:
            table = self._file.load(
                lambda text: decode_body(OffsetFile, text.encode()).offset_table
            )
        except (OSError, UnusableFileError) as error:
            raise ConfigError(
                f"the offsets cannot be read; repair or remove {self.path}: {error}"
            ) from error
        return dict(table or {})

    def _tell_of_earlier(self) -> None:
        if self._earlier_path != self.path and os.path.exists(self._earlier_path):
            log.warning(
                "offsets of an earlier version, or of another consumer, are not used file=%s; "
                "where this consumer wrote it, stop that and move it to %s",
                self._earlier_path,
                self.path,
            )

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        self._file.save(dumps_pretty(OffsetFile(offset_table={**self._read(), **offsets})))
