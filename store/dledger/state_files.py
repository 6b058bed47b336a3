"""The small files of a member: its term and vote, what it knows to be committed, and the marker
that tells that it had a log.

``dledger-<id>/currterm`` and ``dledger-<id>/checkpoint`` are the original's (dledger.md §3.2), in
the format of ``.properties``. The original syncs neither; here ``currterm`` is on the disk before
anybody is answered, or a power failure would let a member vote twice in a term.

``config/dledgerMember.json`` is ours, and lies apart from the log: a disk that was changed, a
folder that is not mounted, or files that somebody deleted take the entries a member has
acknowledged, and what it promised by that. It tells up to which index the log was on the disk and
committed; who finds less has lost entries and must not vote until it has them again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from ...remoting.protocol.java_properties import PropertyError, parse_properties
from ..disk.disk import Disk
from ..model.config import MessageStoreConfig
from ..model.errors import BrokenPromiseError, StoreConfigError, translated
from ..raft.ready import HardState

log: Final = logging.getLogger(__name__)

_SELF_ID: Final = re.compile(r"[A-Za-z][0-9]{1,9}")


class HardStateFile:
    """``currterm``. ``save`` blocks until it is on the disk."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path: Final = directory / "currterm"
        self._disk: Final = disk

    def load(self) -> HardState | None:
        """None: it is not there, or cannot be understood. The original deletes the file before it
        renames the new one: only without one what a stop in the middle has left counts. Its
        ``.bak`` never does: it has the term before, or what was so before this member ran here.
        Raises StoreFileError.
        """
        path = self.path if self._disk.exists(self.path) else self.path.with_suffix(".tmp")
        values = _properties(self._disk, path)
        term = _number(values.get("currTerm"))
        return None if term is None else HardState(term, values.get("voteLeader") or None)

    def save(self, term: int, vote: str | None) -> None:
        """Raises StoreFileError, SyncFailedError."""
        text = f"voteLeader={vote or ''}\ncurrTerm={term}\n"
        replace_whole(self._disk, self.path, text.encode())


class CommitFile:
    """``checkpoint`` of the folder of a member: ``committedIndex`` and ``endIndex``, and a key of
    ours, ``entryChecksums=1``. The original leaves it out when it writes the file, every 3 s: then
    others have written entries, and checksums of ours may be those of entries that are gone."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path: Final = directory / "checkpoint"
        self._disk: Final = disk
        self._saved: tuple[int, int] | None = None
        self.has_checksums: bool = False
        """All that was written since the checksums were is ours."""
        self.is_of_others: bool = False
        """The original has written it."""

    def load(self) -> tuple[int, int]:
        """Committed index and end index, -1 where nobody knows. Raises StoreFileError."""
        values = _properties(self._disk, self.path)
        committed, end = _number(values.get("committedIndex")), _number(values.get("endIndex"))
        known = (-1 if committed is None else committed, -1 if end is None else end)
        self.has_checksums = values.get("entryChecksums") == "1"
        self.is_of_others = bool(values) and not self.has_checksums
        self._saved = known if self.has_checksums else None
        return known

    def save(self, committed: int, end: int) -> None:
        """Blocks. Nothing to do when it says so already. Raises StoreFileError."""
        if (committed, end) != self._saved:
            text = f"committedIndex={committed}\nendIndex={end}\nentryChecksums=1\n"
            replace_whole(self._disk, self.path, text.encode())
            self._saved = committed, end


class Membership(msgspec.Struct, rename="camel", frozen=True):
    """What the marker says."""

    group: str
    self_id: str
    synced_index: int = -1
    """Every entry up to it was on the disk here, and committed."""
    votes: bool = True
    """False: entries were lost, and the member has not caught up yet."""
    numbers: bool = True
    """False: its log began anew, and nobody has told it yet where the queues end of which nothing
    is left (``GoneQueues``)."""


class MemberMarker:
    """The file. ``now`` is what it says, None while this directory is no member's."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.path: Final = root / "config" / "dledgerMember.json"
        self._disk: Final = disk
        self._lock: Final = disk.new_lock()
        self.now: Membership | None = None

    def load(self, group: str, self_id: str) -> Membership | None:
        """One that cannot be read counts as one that says that entries were lost. Raises
        StoreConfigError when the directory is another member's, StoreFileError.
        """
        with translated(self.path, "cannot be read"):
            try:
                data = self._disk.contents(self.path)
            except FileNotFoundError:
                self.now = None
                return None
        try:
            found = msgspec.json.decode(data, type=Membership)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = Membership(group, self_id, votes=False)
        if found.self_id != self_id or (found.group and group and found.group != group):
            raise StoreConfigError(
                f"{self.path.parent.parent} is the store of member {found.self_id} of group "
                f"{found.group}, not of {self_id} of {group}: correct dLegerSelfId and "
                "dLegerGroup, or choose another storePathRootDir; a member never takes over the "
                "files of another"
            )
        self.now = found
        return found

    def change(self, change: Callable[[Membership | None], Membership | None]) -> None:
        """Write what is made of what it says; None, or the same: nothing. Blocks, in any thread.
        Raises StoreFileError."""
        with self._lock:
            now = change(self.now)
            if now is not None and now != self.now:
                replace_whole(self._disk, self.path, msgspec.json.encode(now))
                self.now = now


class MemberFiles:
    """All of them. What blocks is called in a thread: term and vote in one, how far everything is
    in another, for it may take long."""

    def __init__(self, config: MessageStoreConfig, disk: Disk) -> None:
        """Raises StoreConfigError."""
        self.self_id: Final = self_id_of(config)
        self.group: Final = config.dledger_group or ""
        self._hard: Final = HardStateFile(config.dledger_directory, disk)
        self._commit: Final = CommitFile(config.dledger_directory, disk)
        self._marker: Final = MemberMarker(config.root, disk)
        self.hard_state: HardState = HardState()
        """What was saved last."""
        self.committed_index: int = -1
        self._end_index = -1
        self._had_hard_state = False

    @property
    def was_member(self) -> bool:
        """This directory has been a member's before."""
        return self._marker.now is not None or self._had_hard_state

    @property
    def has_checksums(self) -> bool:
        """Those of entries are of this log (``CommitFile``)."""
        return self._commit.has_checksums

    @property
    def votes(self) -> bool:
        """It has all that it ever acknowledged."""
        return self._marker.now is None or self._marker.now.votes

    @property
    def knows_numbers(self) -> bool:
        """Of all queues, also of those that the log has nothing of."""
        return self._marker.now is None or self._marker.now.numbers

    def load(self) -> None:
        """Raises StoreConfigError when the directory is another member's, StoreFileError."""
        self._marker.load(self.group, self.self_id)
        hard_state = self._hard.load()
        self._had_hard_state = hard_state is not None
        self.hard_state = hard_state or HardState()
        committed, self._end_index = self._commit.load()
        marked = self._marker.now
        self.committed_index = max(committed, -1 if marked is None else marked.synced_index)

    def trusted_index(self, *, clean: bool) -> int | None:
        """Entries up to this one were on the disk at an orderly stop, or as far as the marker says.
        None: nobody knows, for the original has written."""
        marked = self._marker.now
        if marked is None or (clean and self._end_index < 0):
            return None
        if clean:
            return self._end_index
        return None if self._commit.is_of_others else marked.synced_index

    def judge(self, end_index: int, end_term: int, damage: str | None, *, clean: bool) -> None:
        """Whether the log that was found is all that this member had; where it is not, that is
        noted before anybody can be told anything else. ``damage``: what was wrong with it. Raises
        StoreFileError.
        """
        self.hard_state = max(self.hard_state, HardState(end_term, None), key=lambda it: it.term)
        marked = self._marker.now
        synced = marked.synced_index if marked else -1
        # what is committed is never taken back; what is not may have been since it was noted
        known = max(synced, self.committed_index, self._end_index if clean else -1)
        problem = damage
        if known > end_index:
            problem = f"it had entries up to {known}, and has them up to {end_index}"
        elif not self._had_hard_state and (marked is not None or end_index >= 0):
            problem = f"{self._hard.path} is gone: what it voted for is not known"
        if problem is not None:
            log.error(
                "this member (%s) has lost entries or votes: %s. It does not vote before it has "
                "caught up with a leader; until then a group of three may not lose another one",
                self.self_id, problem,
            )  # fmt: skip
        if marked is not None or self._had_hard_state or end_index >= 0 or problem is not None:
            votes = problem is None and self.votes
            now = self._membership(min(synced, end_index), votes=votes)
            self._marker.change(lambda _before: now)

    def save_hard_state(self, term: int, vote: str | None) -> None:
        """Durable when it returns. Blocks. Raises StoreFileError; BrokenPromiseError for an earlier
        term, and for another vote in the same one."""
        now = self.hard_state
        if term < now.term or (term == now.term and now.vote not in (None, vote)):
            raise BrokenPromiseError(
                f"term {term} with a vote for {vote} cannot follow term {now.term} with one for "
                f"{now.vote}"
            )
        if self._marker.now is None:  # first: a member whose files are all gone must know that
            self._marker.change(lambda now: now or self._membership(-1, votes=True))
        self._hard.save(term, vote)
        self.hard_state = HardState(term, vote)

    def save_votes(self, votes: bool) -> None:
        """It has caught up, or it has not. Blocks. Raises StoreFileError."""
        self._marker.change(
            lambda now: self._membership(-1 if now is None else now.synced_index, votes=votes)
        )

    def save_numbers(self, known: Callable[[], bool]) -> None:
        """Whether it knows those of all queues, asked for when it is written. Blocks. Raises
        StoreFileError."""
        self._marker.change(
            lambda now: structs.replace(now or self._membership(-1, votes=True), numbers=known())
        )

    def save_ends(self, committed: int, end: int, synced: int) -> None:
        """``synced``: up to which index everything is on the disk. Blocks. Raises
        StoreFileError."""
        self._commit.save(committed, end)
        self.committed_index = committed
        most = min(synced, committed)

        def known(now: Membership | None) -> Membership | None:
            if now is None or now.synced_index >= most:
                return None
            return self._membership(most, votes=now.votes)

        self._marker.change(known)

    def _membership(self, synced_index: int, *, votes: bool) -> Membership:
        return Membership(self.group, self.self_id, synced_index, votes, self.knows_numbers)


def self_id_of(config: MessageStoreConfig) -> str:
    """Raises StoreConfigError."""
    self_id = config.dledger_self_id or ""
    if not _SELF_ID.fullmatch(self_id):
        raise StoreConfigError(
            f"dLegerSelfId={self_id}: expected a letter and a number that tell this member from "
            "the others, such as n0"
        )
    return self_id


def replace_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Write a small file so that a stop at any time leaves the old or the new one, and have it on
    the disk. Raises StoreFileError; then the old one is there.
    """
    fresh = path.with_name(path.name + ".tmp")
    with translated(path, "cannot be written"):
        disk.make_directories(path.parent)
        fd = disk.open(fresh, "replace")
        try:
            view = memoryview(data)
            while view:
                view = view[disk.append(fd, view) :]
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.replace(fresh, path)
    disk.sync_directory(path.parent)


def _properties(disk: Disk, path: Path) -> dict[str, str]:
    with translated(path, "cannot be read"):
        try:
            data = disk.contents(path)
        except FileNotFoundError:
            return {}
    try:
        return {each.name: each.value for each in parse_properties(data.decode("utf-8", "replace"))}
    except PropertyError:
        return {}


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
