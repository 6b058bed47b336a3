"""``mqstore info``: what a store directory holds."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...daemon.printable import printable
from ...store.disk.system_disk import PosixDisk
from ...store.dledger.state_files import CommitFile, HardStateFile
from ...store.inspect import QueueReader, StoreDirectory
from ...store.log.log_reader import Damage, FileSequence, LogReader, LogRecord
from ...store.model.errors import StoreFileError
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from .index_check import index_paths, read_header

__all__ = ["as_text", "summary"]


def summary(root: Path, commit_log: Sequence[Path] = ()) -> dict[str, Any]:
    """Everything for JSON. Only the last file of the log is read. Raises OSError without a commit
    log."""
    directory = StoreDirectory(root, commit_log)
    log = directory.log_files()
    return {
        "directory": str(root),
        "abortFile": directory.has_abort_file,
        "lockedByBroker": directory.is_locked,
        "checkpoint": _checkpoint(directory),
        "commitLog": _commit_log(log),
        **_member(directory),
        "queues": [_queue(reader, log.start) for reader in directory.queue_readers()],
        "index": list(_index(root)),
        "problems": [f"{path}: byte {byte}: {problem}" for path, byte, problem in log.problems],
    }


def _checkpoint(directory: StoreDirectory) -> dict[str, Any]:
    try:
        checkpoint = directory.checkpoint()
    except StoreFileError as error:
        return {"problem": str(error)}
    return {
        "physicMsgTimestamp": checkpoint.physic_msg_timestamp,
        "logicsMsgTimestamp": checkpoint.logics_msg_timestamp,
        "indexMsgTimestamp": checkpoint.index_msg_timestamp,
        "safePhyOffset": checkpoint.safe_phy_offset,
    }


def _member(directory: StoreDirectory) -> dict[str, Any]:
    """Of a member of a DLedger group, what it noted."""
    folder = directory.member_folder
    if folder is None:
        return {}
    hard_state = HardStateFile(folder, PosixDisk()).load()
    committed, end = CommitFile(folder, PosixDisk()).load()
    noted = {
        "folder": folder.name,
        "term": None if hard_state is None else hard_state.term,
        "votedFor": None if hard_state is None else hard_state.vote,
        "committedIndex": committed,
        "endIndex": end,
    }
    return {"dledger": noted}


def _commit_log(log: FileSequence) -> dict[str, Any]:
    files = []
    last_used = log.start
    for file in log.files:
        first = next(LogReader(log, check_crc=False).read(file.start), None)
        timestamp = (
            first.store_timestamp
            if isinstance(first, LogRecord) and first.phy_offset == file.start + file.head
            else None
        )
        last_used = file.start if timestamp is not None else last_used
        files.append(
            {
                "file": file.path.name,
                "bytes": file.length,
                "end": file.end,
                "firstStoreTimestamp": timestamp,
            }
        )
    reader = LogReader(log, check_crc=False)
    last = None
    damaged = 0
    for item in reader.read(last_used):
        if isinstance(item, Damage):
            damaged += not item.tail
        else:
            last = item.store_timestamp
    end = max(reader.end, last_used) if log.files else 0
    return {
        "fileSize": log.file_size,
        "files": files,
        "minOffset": log.start,
        "maxOffset": end,
        "lastStoreTimestamp": last,
        "damagedInLastFile": damaged,
    }


def _queue(reader: QueueReader, log_start: int) -> dict[str, Any]:
    low, high = reader.first, reader.end
    while low < high:  # the first entry whose message is still there
        middle = (low + high) // 2
        unit = reader.unit(middle)
        phy_offset, size, _ = CQ_UNIT.unpack(unit) if unit else (0, 0, 0)
        if phy_offset < log_start or (phy_offset == 0 and size == FILLER_SIZE):
            low = middle + 1
        else:
            high = middle
    return {
        "topic": reader.topic,
        "queueId": reader.queue_id,
        "minOffset": low,
        "maxOffset": reader.end,
        "count": reader.end - low,
        "files": len(reader.sequence.files),
        "fileSize": reader.sequence.file_size,
    }


def _index(root: Path) -> Iterator[dict[str, Any]]:
    for path in index_paths(root)[0]:
        try:
            header = read_header(path)
        except OSError as error:
            yield {"file": path.name, "problem": f"cannot be read: {error.strerror}"}
            continue
        if header is None:
            yield {"file": path.name, "problem": "is too short"}
            continue
        yield {
            "file": path.name,
            "bytes": header.length,
            "slots": header.slots or None,
            "items": max(0, header.next_item - 1),
            "beginPhyOffset": header.begin_phy_offset,
            "endPhyOffset": header.end_phy_offset,
            "beginTimestamp": header.begin_timestamp,
            "endTimestamp": header.end_timestamp,
        }


# -- for people


def as_text(found: dict[str, Any]) -> Iterator[str]:
    """The same in lines."""
    log = found["commitLog"]
    yield printable(found["directory"])
    abort_file = (
        "there: not closed in order, or open" if found["abortFile"] else "none: closed in order"
    )
    yield f"  abort file: {abort_file}"
    yield f"  lock: {'held by a running broker' if found['lockedByBroker'] else 'free'}"
    yield from (f"  {printable(problem)}" for problem in found["problems"])
    yield "checkpoint"
    for name, value in found["checkpoint"].items():
        yield (
            f"  {name:<20} "
            f"{time_text(value) if name.endswith('Timestamp') else printable(str(value))}"
        )
    yield f"commit log: {log['minOffset']}..{log['maxOffset']}, files of {log['fileSize']} bytes"
    for file in log["files"]:
        yield (
            f"  {file['file']}  up to {file['end']}  from {time_text(file['firstStoreTimestamp'])}"
        )
    if log["damagedInLastFile"]:
        yield f"  {log['damagedInLastFile']} damaged places in the last file: see mqstore verify"
    if "dledger" in found:
        yield "member of a DLedger group"
        for name, value in found["dledger"].items():
            yield f"  {name:<20} {printable(str(value))}"
    yield f"consume queues: {len(found['queues'])}"
    width = max((len(printable(queue["topic"])) for queue in found["queues"]), default=0)
    for queue in found["queues"]:
        yield (
            f"  {printable(queue['topic']):<{width}}  {queue['queueId']:>4}  "
            f"{queue['minOffset']}..{queue['maxOffset']}  "
            f"{queue['count']} messages, {queue['files']} files of {queue['fileSize']} bytes"
        )
    yield f"index files: {len(found['index'])}"
    for file in found["index"]:
        if "problem" in file:
            yield f"  {file['file']}  {file['problem']}"
        else:
            yield (
                f"  {file['file']}  {file['items']} items, commit log "
                f"{file['beginPhyOffset']}..{file['endPhyOffset']}, "
                f"{time_text(file['beginTimestamp'])} to {time_text(file['endTimestamp'])}"
            )


def time_text(timestamp: int | None) -> str:
    """``2026-11-20 22:11:21.754`` in local time."""
    if not timestamp:
        return "-"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return moment.isoformat(" ", "milliseconds")[:23]
