"""How many files of consume queues are mapped at once.

A broker may have tens of thousands of queues; a mapping of each of their files would need as many
descriptors and entries in the kernel's tables. So mappings are made when units are written, or read
more than now and then, and when there are too many, one that was not used lately goes. What is not
mapped is read with ``pread``.

An approximation of "least recently used" (a clock with second chances) that costs the hot path
nothing: owners tell only when they are asked whether they were used since they were asked the last
time.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

from ..model.config import MessageStoreConfig
from .disk import Disk
from .mapped_file import MappedFile

_MAX_WRITING: Final = 64
"""Files that are written without their mapping, each with one more descriptor."""
_UNLIMITED: Final = 1 << 30
_CHANCES: Final = 64
"""So many in use are passed over, then one of them goes all the same."""


class MappingOwner(Protocol):
    """Who uses a mapping."""

    def was_used(self) -> bool:
        """Whether it was used since the last question."""

    def unmap(self, file: MappedFile) -> None:
        """Stop using a mapping and close it."""


class MappingLimit:
    """The mapped files in the order in which they were last seen in use."""

    def __init__(self, max_files: int = _UNLIMITED) -> None:
        self.max_files: Final = max(2, max_files)
        self._all_stay = False
        self._owners: Final[OrderedDict[MappedFile, MappingOwner]] = OrderedDict()
        self._writing: Final[OrderedDict[MappedFile, None]] = OrderedDict()

    @classmethod
    def of(cls, config: MessageStoreConfig, disk: Disk) -> MappingLimit:
        """As configured, as far as the system allows."""
        by_bytes = config.max_mapped_queue_bytes // config.consume_queue_file_size
        return cls(min(config.max_mapped_queue_files, by_bytes, disk.most_mappings()))

    @property
    def count(self) -> int:
        """Files that are mapped, and perhaps some that are not any more."""
        return len(self._owners)

    def add(self, file: MappedFile, owner: MappingOwner) -> None:
        """``owner`` is about to map a file; another mapping may have to go first."""
        if file in self._owners:
            return
        while len(self._owners) >= self.max_files and not self._all_stay:
            self._make_one_go()
        self._owners[file] = owner

    @contextlib.contextmanager
    def all_stay(self) -> Iterator[None]:
        """For who makes room in some files and must not fail when he writes there: what is mapped
        meanwhile comes on top of the limit, which is half of what the system allows."""
        self._all_stay = True
        try:
            yield
        finally:
            self._all_stay = False
            while len(self._owners) > self.max_files:
                self._make_one_go()

    def forget(self, file: MappedFile) -> None:
        """It is not mapped any more."""
        self._owners.pop(file, None)

    def write(self, file: MappedFile, position: int, data: bytes) -> None:
        """``MappedFile.write``, which keeps a descriptor: only some files have one at a time.
        Raises StoreFileError."""
        if file not in self._writing:
            if len(self._writing) >= _MAX_WRITING:
                self._writing.popitem(last=False)[0].end_writing()
            self._writing[file] = None
        file.write(position, data)

    def _make_one_go(self) -> None:
        for _ in range(_CHANCES):
            file, owner = self._owners.popitem(last=False)
            if not owner.was_used():
                break
            self._owners[file] = owner
        else:
            file, owner = self._owners.popitem(last=False)
        owner.unmap(file)
