"""``mqstore repair``: what is damaged in a commit log is fetched from another replica, proved and
written in its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...broker.config.config import SecretConfig
from ...daemon.launch import Settings, read_properties_file
from ...daemon.printable import printable
from ...remoting.transport.tls import TlsConfig, TlsMode, client_context
from ...store.disk.mapped_file import MappedFile
from ...store.disk.system_disk import PosixDisk
from ...store.inspect import StoreDirectory
from ...store.log.log_reader import Damage, FileSequence, LogReader
from ...store.model.errors import StoreError
from ...store.replica.log_fetch import LogStream, log_stream
from ...store.replica.repair import DamagedThereTooError, bytes_over_files, intact_bytes
from .entry_check import ELSEWHERE, refuse_member
from .sole_use import sole_use

__all__ = ["Repaired", "StreamFrom", "repair", "replica_at"]

StreamFrom = Callable[[int], AbstractContextManager[LogStream]]
"""Connects to the other replica; its log from an offset on. Raises ReplicationError."""


class Repaired(NamedTuple):
    """How many damaged places there were."""

    mended: int
    left: int

    def __str__(self) -> str:
        if not self.mended and not self.left:
            return "no record of the commit log is damaged"
        advice = (
            "; now mqstore verify, and mqstore rebuild if it names consume queues"
            if self.mended
            else ""
        )
        return f"{self.mended} damaged places mended, {self.left} left{advice}"


def replica_at(address: tuple[str, int], config_file: str | None) -> StreamFrom:
    """How to ask it: with the secret, and by TLS, as the configuration of a slave says. Raises
    LaunchError, PropertyError, TlsError, OSError.
    """
    settings = Settings(
        (SecretConfig, TlsConfig), read_properties_file(config_file) if config_file else ()
    )
    tls, secret = settings[TlsConfig], settings[SecretConfig].ha_secret
    outbound = client_context(tls) if tls.server_mode is TlsMode.ENFORCING else None
    return partial(log_stream, address, secret=secret.encode(), tls=outbound)


def repair(
    root: Path,
    stream_from: StreamFrom,
    tell: Callable[[str], None],
    commit_log: Sequence[Path] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Repaired:
    """Tell what becomes of each place in one line. Raises StoreLockedError, StoreFileError,
    OSError."""
    directory = StoreDirectory(root, commit_log)
    refuse_member(directory, ELSEWHERE)
    with sole_use(directory) as log:
        mended = left = 0
        places, log_end = _damaged_places(log, progress)
        damaged = {(place.begin, place.end) for place in places}
        waiting = deque(places)
        while waiting:
            place = waiting.popleft()
            try:
                _mend(log, place, stream_from, log_end, damaged)
            except DamagedThereTooError as error:  # perhaps a part of it only
                intact, not_there = (
                    _parts(place, sizes) for sizes in (error.intact, error.damaged)
                )
                damaged.remove((place.begin, place.end))
                damaged.update((part.begin, part.end) for part in (*intact, *not_there))
                waiting.extendleft(reversed(intact))
                left += len(not_there)
                for part in not_there:
                    tell(printable(f"{_name(part)}: not mended: {error}"))
            except StoreError as error:
                left += 1
                tell(printable(f"{_name(place)}: not mended: {error}"))
            else:
                mended += 1
                damaged.remove((place.begin, place.end))
                tell(printable(f"{_name(place)}: mended ({place.problem})"))
        return Repaired(mended, left)


def _name(place: Damage) -> str:
    return f"{place.path.name}: bytes {place.begin}..{place.end - 1}"


def _parts(place: Damage, sizes: Mapping[int, int]) -> list[Damage]:
    """By their offsets."""
    return [place._replace(begin=at, end=at + size) for at, size in sizes.items()]


def _damaged_places(
    log: FileSequence, progress: Callable[[int, int], None]
) -> tuple[list[Damage], int]:
    """Those with something intact behind them (the rest is where the log ends), and where the log
    ends."""
    reader = LogReader(log)
    places: list[Damage] = []
    total = sum(file.length for file in log.files)
    for item in reader.read():
        progress(reader.position - log.start, total)
        if isinstance(item, Damage) and not item.tail:
            file = log.find(item.begin)
            places.append(
                item if item.begin < item.end or file is None else item._replace(end=file.end)
            )  # a blank
    return places, reader.end


def _mend(
    log: FileSequence,
    place: Damage,
    stream_from: StreamFrom,
    log_end: int,
    damaged: Iterable[tuple[int, int]],
) -> None:
    """Raises RepairError, ReplicationError, StoreFileError, OSError."""
    file = log.find(place.begin)
    assert file is not None

    def read(offset: int, size: int) -> bytes:
        return bytes_over_files(log.find, offset, size, lambda file, *where: file.read(*where))

    place_of_file = file.start, file.end
    front, data = intact_bytes(
        place.begin, place.end, place_of_file, read, stream_from,
        log=(log.start, log_end), damaged=damaged,
    )  # fmt: skip
    MappedFile(place.path, file.length, PosixDisk()).put_back(front - file.start, data)
