"""How far a broadcasting consumer has got: a file of its own, in the original's format (client.md
§4.10; class LocalFileOffsetStore).

``<folder>/<client id>/<group>/offsets.json``, with the content before as ``.bak``. The keys of its
table are JSON objects, as fastjson writes them; so a Java consumer goes on where this one stopped,
and the other way round. Earlier versions left unit and ``STREAM`` out of the client id; such a file
is read until there is the right one.
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
    ) -> None:
        """``client_id``: one that stays the same (``ClientInstance.lasting_id``)."""
        super().__init__()
        self._outages = Outages(clock)
        home = Path(folder or DEFAULT_FOLDER).expanduser()
        short_id = "@".join(client_id.split("@")[:2])
        paths = [home / each / group / "offsets.json" for each in (client_id, short_id)]
        self.path: Path = paths[0]
        self._files = [
            BackedFile(path, lost="what was consumed since comes again")
            for path in dict.fromkeys(paths)
        ]
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Raises ``ConfigError`` when the file cannot be read."""
        await asyncio.to_thread(self._read)

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
        for file in self._files:
            try:
                table = file.load(lambda text: decode_body(OffsetFile, text.encode()).offset_table)
            except (OSError, UnusableFileError) as error:
                raise ConfigError(
                    f"the offsets cannot be read; repair or remove {file.path}: {error}"
                ) from error
            if table is not None:
                return dict(table)
        return {}

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        self._files[0].save(dumps_pretty(OffsetFile(offset_table={**self._read(), **offsets})))
