"""Why the store takes no messages just now: of the reasons that hold, the gravest one is told.

1. for this life of the store: it is a slave's, it is closed, or its disk failed
2. for a time: it is a member of a group and does not lead it
3. the commit log cannot be synced just now
4. the disk is nearly full (``diskSpaceWarningLevelRatio``)
5. there is no space for the index
"""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..model.config import MessageStoreConfig
from ..model.errors import StoreError, StoreFileError
from ..model.status import PutResult
from ..services.retention import DiskUse, Space
from .message_writer import MessageWriter

log: Final = logging.getLogger(__name__)

_FULL: Final = ("disk", "full")
_ROOM: Final = ("room",)
_NO_ROOM_S: Final = 60.0
"""So long it counts that no place could be made, when nobody has tried again."""


class Refusals:
    """Sets ``MessageWriter.refusal`` as reasons come and go."""

    def __init__(
        self, writer: MessageWriter, config: MessageStoreConfig, outages: Outages, clock: Clock
    ) -> None:
        self._writer: Final = writer
        self._clock: Final = clock
        self._no_room: tuple[StoreFileError, float] | None = None
        writer.on_room = self._room
        self._config: Final = config
        self._outages: Final = outages
        self._for_good: PutResult | None = None
        self._by_role: PutResult | None = None
        self._not_synced: PutResult | None = None
        self._disk_full: PutResult | None = None
        self._no_index: PutResult | None = None

    def from_now_on(self, remark: str) -> None:
        """No message is taken any more in this life of the store."""
        self._for_good = self._writer.refused(remark)
        self._choose()

    def by_role(self, refusal: PutResult | None) -> None:
        """What puts are answered while this member does not lead; None: it does."""
        self._by_role = refusal
        self._choose()

    @property
    def follows(self) -> bool:
        """This member does not lead."""
        return self._by_role is not None

    def disk_failed(self, error: StoreError) -> None:
        """A sync returned an error: what the system could not write it forgets, and the next sync
        would lie."""
        log.critical(
            "the disk failed, messages are refused until the broker is restarted: %s", error
        )
        self.from_now_on(f"the disk failed: {error}")

    def sync_put_off(self, error: StoreError | None) -> None:
        """What is taken must be on the disk in time. None: the commit log was synced again."""
        self._not_synced = (
            None
            if error is None
            else self._writer.refused(f"the store cannot be synced just now, tried again: {error}")
        )
        self._choose()

    def space_changed(self, space: Space, use: DiskUse) -> None:
        """The disk was looked at."""
        full = None
        if space is Space.FULL:
            limit = self._config.disk_space_warning_level_ratio
            full = self._writer.refused(
                f"the disk is full [{use}], no message is taken above {limit} % "
                "(diskSpaceWarningLevelRatio)"
            )
            self._outages.fails(
                log, _FULL, "messages are refused: %s", full.remark, level=logging.ERROR
            )
        else:
            self._outages.works(_FULL)
        self._disk_full = full
        self._choose()

    def index_blocked(self, error: StoreFileError | None) -> None:
        """What cannot be indexed is not taken, as in the original: what waits would grow without
        end. None: it goes on."""
        self._no_index = (
            None
            if error is None
            else self._writer.refused(f"there is no room for the index: {error}")
        )
        self._choose()

    def _room(self, error: StoreFileError | None) -> None:
        """A file for a message could not be made, or was: the next message tries again."""
        if error is None:
            if self._no_room is not None:
                self._outages.works(_ROOM)
            self._no_room = None
            return
        self._outages.fails(
            log, _ROOM, "messages are refused, they have no place: %s", error, level=logging.ERROR
        )
        self._no_room = error, self._clock.monotonic() + _NO_ROOM_S

    @property
    def no_room(self) -> str | None:
        """Why the last message, of this minute, had no place, if that is so."""
        if self._no_room is None or self._clock.monotonic() > self._no_room[1]:
            return None
        return f"messages have no place: {self._no_room[0]}"

    @property
    def trouble(self) -> PutResult | None:
        """What this machine is in the way with, whatever the role; None in good times."""
        return self._for_good or self._not_synced or self._disk_full or self._no_index

    def _choose(self) -> None:
        self._writer.refusal = self._for_good or self._by_role or self.trouble
