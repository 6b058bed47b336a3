"""Small files that are replaced as a whole: name server tables, configurations (classes
MixAll.string2File, ConfigManager).

The new text goes to ``<file>.tmp`` and to the disk, the old one is kept as ``<file>.bak``, then the
new one takes its name: whenever the machine stops, one of the two is whole. All of them have the
mode of the file, and its owner where that may be given: what was for some eyes only stays so. These
calls block; a daemon makes them in a thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: str | os.PathLike[str], text: str, aside: Path | None = None) -> None:
    """Make ``text`` the content of the file, folders included. Raises ``OSError``; then the old
    content is still there.

    ``aside``: where the old content goes if not to the backup.
    """
    target = Path(path)
    new_folders = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in new_folders:
        _sync_folder(folder.parent)
    fresh = target.with_name(target.name + ".tmp")
    like = target.stat() if target.exists() else None
    _write_to_disk(fresh, text.encode(), like)
    if (
        like is not None and (old := target.read_bytes()).strip()
    ):  # what was emptied is no content to go back to
        _write_to_disk(backup_of(target) if aside is None else aside, old, like)
    os.replace(fresh, target)
    _sync_folder(target.parent)
    if (
        like is None
    ):  # the folder may be new, and an attempt before this one may have failed when it had made it
        _sync_folder(target.parent.parent)


def put_aside(path: str | os.PathLike[str]) -> None:
    """A file does not count any more: it and its backup are ``<file>.old`` and the backup of that
    from now on. Raises ``OSError``."""
    aside = aside_of(path)
    for old, new in ((backup_of(path), backup_of(aside)), (Path(path), aside)):
        with suppress(FileNotFoundError):
            os.replace(old, new)
    _sync_folder(aside.parent)


def aside_of(path: str | os.PathLike[str]) -> Path:
    """Where ``put_aside`` puts it."""
    target = Path(path)
    return target.with_name(target.name + ".old")


def read_file(path: str | os.PathLike[str]) -> str | None:
    """The text of the file, ``None`` when there is none. Raises ``OSError`` when it cannot be read.

    UTF-8; a file that is not, is what Java's tools write: ISO 8859-1.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def backup_of(path: str | os.PathLike[str]) -> Path:
    """Where ``replace_file`` keeps the content before the last one."""
    target = Path(path)
    return target.with_name(target.name + ".bak")


def _write_to_disk(path: Path, data: bytes, like: os.stat_result | None) -> None:
    """Into a new file, with the rights of another one if there is one."""
    path.unlink(missing_ok=True)
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if like is None else 0o600
    )
    with open(descriptor, "wb") as file:
        if like is not None:
            _give_rights(descriptor, like)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _give_rights(descriptor: int, like: os.stat_result) -> None:
    if os.name == "nt":
        return
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):  # only root may give a file to somebody else
            os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, like.st_mode & 0o777)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last. Windows cannot open a folder, and does not need to."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
