"""Who may what, from files of accounts; secrets are left out before anything else is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Safe either way; the one in C takes a tenth of the time."""
MOST_FILE_BYTES: Final = 4 << 20
MOST_ACCOUNTS: Final = 2000


class AccountRow(NamedTuple):
    """One account of one file."""

    name: str
    admin: bool
    white_address: str
    default_topic: str
    default_group: str
    topics: Sequence[str]
    groups: Sequence[str]

    @property
    def may_everything(self) -> bool:
        """An administrator whom no list of topics or groups binds."""
        return self.admin and not self.topics and not self.groups


class AccountFile(NamedTuple):
    """``problem``: why it cannot be read."""

    path: str
    white_addresses: Sequence[str]
    accounts: Sequence[AccountRow]
    problem: str = ""


def parse_accounts(path: str, text: str) -> AccountFile:
    """What a file says. What is no table of accounts becomes a problem, in words that repeat
    nothing of it."""
    try:
        content = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError):
        return AccountFile(path, (), (), "it is no YAML")
    if not isinstance(content, Mapping):
        return AccountFile(path, (), (), "it is no table of accounts")
    accounts = content.get("accounts")
    rows = accounts if isinstance(accounts, list) else []
    return AccountFile(
        path,
        _texts(content.get("globalWhiteRemoteAddresses")),
        [_row(each) for each in rows[:MOST_ACCOUNTS] if isinstance(each, Mapping)],
    )


def _row(entry: Mapping[object, object]) -> AccountRow:
    return AccountRow(
        _text(entry.get("accessKey")),
        entry.get("admin") is True or _text(entry.get("admin")).lower() == "true",
        _text(entry.get("whiteRemoteAddress")),
        _text(entry.get("defaultTopicPerm")) or "DENY",
        _text(entry.get("defaultGroupPerm")) or "DENY",
        _texts(entry.get("topicPerms")),
        _texts(entry.get("groupPerms")),
    )


def _text(value: object) -> str:
    return str(value)[:300] if isinstance(value, str | int | float | bool) else ""


def _texts(value: object) -> list[str]:
    return [_text(each) for each in value] if isinstance(value, list) else []
