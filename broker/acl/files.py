"""The ACL files: read, watched, written (classes PlainPermissionManager, AclUtils;
``broker-services.md`` §13).

Every ``*.yml`` and ``*.yaml`` below ``conf/acl`` of ROCKETMQ_HOME (not ``tools.yml``, the
credentials of the tools) and ``conf/plain_acl.yml`` (``rocketmq.acl.plain.file``). Scalars are read
as text, as they stand there: an access key may look like a number. Functions that read or write
block; the broker calls them in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ...daemon.persist import replace_file
from ...daemon.pid_files import rocketmq_home
from ...remoting.clock import Clock
from ...remoting.errors import RocketMQError
from ...remoting.outages import Outages
from ..config.config import BrokerConfig
from .addresses import address_pattern
from .permissions import AccessTable, AclError, AclFile, check_keys, check_resource, read_account

log: Final = logging.getLogger(__name__)

WATCH_S: Final = 5.0
AGAIN_S: Final = 60.0
"""Files that cannot be used and do not change are read again: what kept them from being read (no
descriptor left, an owner that was given to them a moment later) need not show in them."""
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_NOT_ACCOUNTS: Final = "tools.yml"
_UNUSABLE: Final = ("file",)

Seen = dict[Path, tuple[int, int]]
"""Modification time (ns) and size of each file."""


class AclFileError(RocketMQError):
    """The broker cannot start with these ACL files."""


def read_acl_file(path: Path) -> AclFile:
    """Raises ``AclError`` for a file that cannot be read, or is no YAML mapping. The error quotes
    no line of it."""
    try:
        _check_size(path, path.stat().st_size)
        text = path.read_bytes()
    except OSError as error:
        raise AclError(f"{path}: cannot be read: {error.strerror}") from error
    return _parsed(path, text)


def _check_size(path: Path, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise AclError(f"{path}: over {MAX_FILE_BYTES} bytes")


def _parsed(path: Path, text: bytes) -> AclFile:
    """Raises ``AclError``."""
    from .yaml import YamlError, parse_yaml

    try:
        content = parse_yaml(text)
    except YamlError as error:
        raise AclError(f"{path}: {error}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise AclError(f"{path}: must have globalWhiteRemoteAddresses and accounts")
    return AclFile(str(path), content)


def open_acl(config: BrokerConfig, clock: Clock) -> AclFiles | None:
    """``None`` when ``aclEnable`` is off. Raises ``AclFileError``, ``OSError``."""
    if not config.acl_enable:
        return None
    try:
        return AclFiles(_home(config), config.acl_plain_file, clock)
    except AclError as error:
        raise AclFileError(f"ACL file {error.text}") from error


def check_acl(config: BrokerConfig) -> None:
    """Whether ``open_acl`` would work with the files as they are; makes none. Blocks. Raises
    ``AclFileError``, ``OSError``."""
    home = _home(config)
    files = _files(_folder(home), _default_file(home, config.acl_plain_file))
    try:
        AccessTable([read_acl_file(path) for path in files if path.exists()])
    except AclError as error:
        raise AclFileError(f"ACL file {error.text}") from error


def _home(config: BrokerConfig) -> Path:
    return Path(config.rocketmq_home).expanduser() if config.rocketmq_home else rocketmq_home()


def _default_file(home: Path, plain_file: str) -> Path:
    return home / plain_file.lstrip("/")


def _folder(home: Path) -> Path:
    return home / "conf" / "acl"


def _files(folder: Path, default: Path) -> list[Path]:
    """Where accounts may be. Raises ``OSError``."""
    found = sorted(
        path
        for path in (folder.rglob("*") if folder.is_dir() else ())
        if path.suffix in (".yml", ".yaml") and path.name != _NOT_ACCOUNTS and path.is_file()
    )
    return found if default in found else [*found, default]


class AclFiles:
    """Where the accounts come from. ``table`` is what counts now; a file that cannot be used leaves
    it as it was."""

    def __init__(self, home: Path, plain_file: str, clock: Clock) -> None:
        """Makes an empty ``plain_acl.yml`` when there is none, and reads. Blocks. Raises
        ``AclError``, ``OSError``."""
        self._folder = _folder(home)
        self.default: Path = _default_file(home, plain_file)
        self._clock = clock
        self._lock = asyncio.Lock()
        self._outages = Outages(clock)
        self._refused: tuple[Seen, float] | None = None
        """Files that cannot be used, and when they are read again."""
        self._problem = ""
        if not self.default.exists():
            self.default.parent.mkdir(parents=True, exist_ok=True)
            self.default.touch(mode=0o600)
        self._seen = self._look()
        self.table: AccessTable = self._load(self._seen)
        if not self.table.accounts:
            log.warning(
                "ACL is on and there is no account: nobody but white listed peers is served "
                "file=%s",
                self.default,
            )

    @property
    def default_version(self) -> AclFile | None:
        """``plain_acl.yml`` as it is in use."""
        return next((file for file in self.table.files if file.path == str(self.default)), None)

    def _look(self) -> Seen:
        """Raises OSError."""
        seen: Seen = {}
        for path in _files(self._folder, self.default):
            with suppress(FileNotFoundError):  # gone meanwhile
                seen[path] = _stamp(path)
        return seen

    def _load(self, seen: Seen) -> AccessTable:
        if self.default not in seen:  # perhaps an editor is about to bring it back
            raise AclError(
                f"{self.default}: is gone; leave an empty file to have no accounts in it"
            )
        table = AccessTable([read_acl_file(path) for path in seen])
        log.info("ACL loaded files=%s accounts=%d", ",".join(map(str, seen)), len(table.accounts))
        return table

    # -- watching

    async def run(self) -> None:
        """Service: read again what has changed, until cancelled."""
        while True:
            await self._clock.sleep(WATCH_S)
            await self.refresh()

    async def refresh(self) -> bool:
        """Look at the files; whether there is another table now. One that cannot be used is read
        again when it changes, and every ``AGAIN_S``."""
        async with self._lock:
            try:
                seen = await asyncio.to_thread(self._look)
            except OSError as error:
                self._problem = (
                    f"{error.filename or self._folder}: cannot be read: {error.strerror}"
                )
                return self._stays_as_it_was()
            if seen == self._seen:
                self._take(self.table, seen)
                return False
            now = self._clock.monotonic()
            if self._refused is not None and seen == self._refused[0] and now < self._refused[1]:
                return self._stays_as_it_was()
            try:
                table = await asyncio.to_thread(self._load, seen)
            except AclError as error:
                self._refused, self._problem = (seen, now + AGAIN_S), error.text
                return self._stays_as_it_was()
            self._take(table, seen)
            return True

    def _stays_as_it_was(self) -> bool:
        self._outages.fails(
            log,
            _UNUSABLE,
            "ACL file cannot be used, the accounts stay as they were: %s",
            self._problem,
            level=logging.ERROR,
        )
        return False

    def _take(self, table: AccessTable, seen: Seen) -> None:
        self._seen, self._refused, self.table = seen, None, table
        self._outages.works(_UNUSABLE)

    # -- changing

    async def set_account(self, entry: Mapping[str, Any]) -> None:
        """Make an account in ``plain_acl.yml`` or change it where it stands; ``None`` leaves a
        value as it is.

        Raises ``AclError``, ``OSError``; then nothing has changed.
        """
        check_keys(str(entry.get("accessKey") or ""), str(entry.get("secretKey") or ""))
        for name in ("topicPerms", "groupPerms"):
            for text in entry.get(name) or ():
                check_resource(text)
        read_account(
            {name: value for name, value in entry.items() if value is not None}, "the request"
        )
        async with self._lock:
            owner = self.table.accounts.get(str(entry["accessKey"]))
            path = self.default if owner is None else Path(owner.file)
            await self._change(path, lambda content: _set_account(content, entry))

    async def delete_account(self, access_key: str) -> bool:
        """In every file: one account has the key, others may wait behind it. Whether there was such
        an account. Raises ``AclError``, ``OSError``."""
        async with self._lock:
            having = [file for file in self.table.files if _has_account(file.content, access_key)]
            for file in having:
                await self._change(
                    Path(file.path), lambda content: _delete_account(content, access_key)
                )
            return bool(having)

    async def set_global_white(self, patterns: list[str], path: str | None) -> None:
        """In ``plain_acl.yml``, or in another file that is in use. Raises ``AclError``,
        ``OSError``."""
        for pattern in patterns:
            address_pattern(pattern)
        async with self._lock:
            target = Path(path) if path else self.default
            if target not in self._seen:
                raise AclError(
                    f"{target} is none of the ACL files: {', '.join(map(str, self._seen))}"
                )
            await self._change(
                target, lambda content: content.update(globalWhiteRemoteAddresses=patterns)
            )

    async def _change(self, path: Path, change: Callable[[dict[str, Any]], None]) -> None:
        self.table, self._seen = await asyncio.to_thread(self._changed, path, change)

    def _changed(
        self, path: Path, change: Callable[[dict[str, Any]], None]
    ) -> tuple[AccessTable, Seen]:
        """The file is read anew, so that what somebody wrote by hand meanwhile stays. The others
        count as they are in use, whatever lies there now: an account can be revoked while another
        file cannot be used. ``refresh`` looks at them."""
        from .yaml import format_yaml

        file = read_acl_file(path)
        change(file.content)
        version = file.version.next(self._clock.time_ms())
        file.content["dataVersion"] = [{"counter": version.counter, "timestamp": version.timestamp}]
        for each in file.content.get("accounts") or ():
            if "admin" in each:
                each["admin"] = str(each["admin"]).lower() == "true"
        text = format_yaml(file.content)
        data = text.encode()
        _check_size(path, len(data))
        written = _parsed(path, data)  # as it will be read
        table = AccessTable(
            [written if each.path == written.path else each for each in self.table.files]
        )
        replace_file(path, text)
        return table, {**self._seen, **_stamp_of(path, data)}


def _stamp(path: Path) -> tuple[int, int]:
    """Raises OSError."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _stamp_of(path: Path, data: bytes) -> Seen:
    """Of the file with this content. None where somebody has put another one there meanwhile: with
    the stamp of before it is read at the next look."""
    with suppress(OSError):
        stamp = _stamp(path)
        if path.read_bytes() == data:
            return {path: stamp}
    return {}


def _set_account(content: dict[str, Any], entry: Mapping[str, Any]) -> None:
    accounts = content["accounts"] = content.get("accounts") or []
    found: dict[str, Any] = next(
        (each for each in accounts if _is_of(each, entry["accessKey"])), {}
    )
    accounts[:] = [each for each in accounts if each is not found]
    accounts.append(
        {**found, **{name: value for name, value in entry.items() if value is not None}}
    )


def _delete_account(content: dict[str, Any], access_key: str) -> None:
    content["accounts"] = [
        each for each in content.get("accounts") or [] if not _is_of(each, access_key)
    ]


def _has_account(content: dict[str, Any], access_key: str) -> bool:
    return any(_is_of(each, access_key) for each in content.get("accounts") or [])


def _is_of(entry: Mapping[str, Any], access_key: str) -> bool:
    return str(entry.get("accessKey")).strip() == access_key
