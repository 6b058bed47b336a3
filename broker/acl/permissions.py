"""Who may do what (classes PlainPermissionManager, PlainAccessValidator, Permission;
``broker-services.md`` §13).

Pure: an ``AccessTable`` is made from the content of the ACL files and never changes; a changed file
makes a new one. A request is looked at in this order: global white list, access key, white list of
the account, signature, permissions. A white listed peer needs no signature and no permission.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.topic_names import (
    TopicName,
    group_of_retry_topic,
    is_retry_topic,
    retry_topic,
)
from ...remoting.protocol.signed import ACCESS_KEY, SIGNATURE, Signed, signed_content, signed_of
from ...remoting.signature import Signer
from .addresses import AddressPatternError, AddressTest, address_pattern

MIN_KEY_LENGTH: Final = 7
"""Of access keys and secret keys ("longer than 6")."""

_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "


class AclError(RequestError):
    """A request is refused, or an ACL file cannot be used."""

    def __init__(self, text: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, _EXCEPTION + text)
        self.text = text


class Permission:
    """Class Permission. Plain numbers: every request asks, and an ``IntFlag`` takes ten times as
    long to say."""

    DENY: Final = 1
    ANY: Final = 2
    PUB: Final = 4
    SUB: Final = 8


_PERMISSIONS: Final[Mapping[str, int]] = {
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
    "DENY": Permission.DENY,
}

ON_THE_WAY: Final = frozenset(
    {
        TopicName.SCHEDULE,
        TopicName.TRANS_HALF,
        TopicName.TRANS_OP_HALF,
        TopicName.TRANS_CHECK_MAX_TIME,
    }
)
"""Messages in them belong to other topics, to all of them, or say what becomes of those: no default
says anything of these."""

Resource = tuple[str, int]
"""A topic, or a group as its retry topic, and what is wanted of it."""


def parse_permission(text: object) -> int:
    """Whatever is not known denies."""
    return _PERMISSIONS.get(str(text).strip(), Permission.DENY)


class Account(NamedTuple):
    """One entry of ``accounts``. ``resources`` has groups under the names of their retry topics;
    ``None``: no list."""

    access_key: str
    secret_key: str
    signer: Signer
    white: AddressTest
    admin: bool
    default_topic: int
    default_group: int
    resources: Mapping[str, int] | None
    file: str
    may_everything: bool
    """An administrator who has no lists."""

    def __repr__(self) -> str:
        return f"Account({self.access_key!r} of {self.file})"

    def check_administrator(self, code: int) -> None:
        """Raises ``AclError`` when it is none."""
        if not self.admin:
            raise AclError(
                f"Need admin permission for request code={code}, but accessKey={self.access_key} "
                "is not"
            )

    def check_sender(self) -> None:
        """Raises ``AclError`` when it may send to no topic."""
        owned = self.resources or {}
        granted = [right for name, right in owned.items() if not is_retry_topic(name)]
        if not any(
            right & Permission.PUB and not right & Permission.DENY
            for right in (*granted, self.default_topic)
        ):
            raise AclError("No default permission for any topic to send to")

    def check(self, wanted: Iterable[Resource]) -> None:
        """Raises ``AclError`` for what this account may not do."""
        if self.may_everything:
            return
        owned = self.resources
        for name, needed in wanted:
            granted = None if owned is None else owned.get(name)
            if granted is None:
                granted = self._default(name)
            if granted & Permission.DENY or not granted & needed:
                group = group_of_retry_topic(name)
                shown = f"topic:{name}" if group is None else f"group:{group}"
                raise AclError(f"No default permission for {shown}")

    def _default(self, name: str) -> int:
        if name in ON_THE_WAY:
            return Permission.DENY
        return self.default_group if is_retry_topic(name) else self.default_topic


class AclFile(NamedTuple):
    """One ACL file as it was read: ``content`` is the YAML document, ``{}`` for an empty file."""

    path: str
    content: dict[str, Any]

    @property
    def version(self) -> DataVersion:
        found = self.content.get("dataVersion")
        first = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
        return DataVersion(
            counter=_whole(first.get("counter")), timestamp=_whole(first.get("timestamp"))
        )


class AccessTable:
    """All accounts and white lists. Of two accounts with one access key that of the earlier file
    counts."""

    def __init__(self, files: Sequence[AclFile]) -> None:
        """Raises ``AclError`` with the file and what is wrong."""
        self.files: Final = tuple(files)
        self.accounts: Final[dict[str, Account]] = {}
        white: list[AddressTest] = []
        for file in files:
            try:
                white += [
                    address_pattern(each)
                    for each in _texts(file.content, "globalWhiteRemoteAddresses")
                ]
                for entry in _entries(file.content):
                    account = read_account(entry, file.path)
                    self.accounts.setdefault(account.access_key, account)
            except (AclError, AddressPatternError) as error:
                reason = error.text if isinstance(error, AclError) else str(error)
                raise AclError(f"{file.path}: {reason}") from error
        self._white: Final = tuple(white)

    def is_white(self, address: str) -> bool:
        """A peer that may do everything without an account."""
        return bool(self._white) and any(matches(address) for matches in self._white)

    def account_of(
        self, fields: Mapping[str, str], body: bytes | memoryview, address: str
    ) -> Account | None:
        """Who signed this request; ``None`` for a peer that needs no signature. Raises
        ``AclError``."""
        if self.is_white(address):
            return None
        signed = signed_of(fields)
        if signed is not None:
            return self.signer_of(signed, body, address)
        account = self._account(fields.get(ACCESS_KEY))
        if account.white(address):
            return None
        found = fields.get(SIGNATURE, "").encode()
        # Java clients sign UNIQUE_KEY_QUERY and the original's broker does not: here both ways are
        # right
        for content in (signed_content(fields), signed_content(fields, (SIGNATURE,))):
            if hmac.compare_digest(found, account.signer.sign(content, body)):
                return account
        raise AclError(f"Check signature failed for accessKey={account.access_key}")

    def signer_of(self, signed: Signed, body: bytes | memoryview, address: str) -> Account | None:
        """The same for a request that is signed in one way, of a peer that is not on the lists for
        all."""
        access_key, found, content = signed
        account = self._account(access_key)
        if account.white(address):
            return None
        if not hmac.compare_digest(found, account.signer.sign(content, body)):
            raise AclError(f"Check signature failed for accessKey={access_key}")
        return account

    def _account(self, access_key: str | None) -> Account:
        if access_key is None:
            raise AclError("No accessKey is configured")
        account = self.accounts.get(access_key)
        if account is None:
            raise AclError(f"No acl config for {access_key}")
        return account


def read_account(entry: Mapping[str, Any], file: str) -> Account:
    """Raises ``AclError``, ``AddressPatternError``. Never tells a secret."""
    access_key, secret_key = _text(entry.get("accessKey")), _text(entry.get("secretKey"))
    check_keys(access_key, secret_key)
    lists = {"topicPerms": _texts(entry, "topicPerms"), "groupPerms": _texts(entry, "groupPerms")}
    resources: dict[str, int] = {}
    for name, is_group in (("topicPerms", False), ("groupPerms", True)):
        for text in lists[name]:
            resource, permission = parse_resource(text)
            resources[retry_topic(resource) if is_group else resource] = permission
    admin = _text(entry.get("admin")).lower() == "true"
    return Account(
        access_key=access_key,
        secret_key=secret_key,
        signer=Signer(secret_key),
        white=address_pattern(_text(entry.get("whiteRemoteAddress"))),
        admin=admin,
        default_topic=parse_permission(entry.get("defaultTopicPerm")),
        default_group=parse_permission(entry.get("defaultGroupPerm")),
        resources=resources or None,
        file=file,
        may_everything=admin and not resources,
    )


def check_keys(access_key: str, secret_key: str) -> None:
    """Raises ``AclError`` when one of them is missing or too short."""
    if len(access_key) < MIN_KEY_LENGTH or len(secret_key) < MIN_KEY_LENGTH:
        raise AclError(
            f"The accessKey={access_key} and its secretKey cannot be null and length should "
            "longer than 6"
        )


def parse_resource(text: str) -> tuple[str, int]:
    """``topicA=PUB|SUB``. Raises ``AclError``."""
    name, equals, permission = (part.strip() for part in text.partition("="))
    if not equals or not name or "=" in permission:
        raise AclError(
            f"Parse resource permission error for {text}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    return name, parse_permission(permission)


def check_resource(text: str) -> None:
    """As ``parse_resource``, and the permission must be one of those that there are."""
    name, _ = parse_resource(text)
    if text.partition("=")[2].strip() not in _PERMISSIONS:
        raise AclError(
            f"Parse resource permission error for {name}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB' or 'DENY'."
        )


# -- reading YAML, where anything may stand


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _whole(value: object) -> int:
    return int(text) if (text := _text(value)).isdecimal() and len(text) < 19 else 0


def _texts(content: Mapping[str, Any], name: str) -> list[str]:
    found = content.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise AclError(f"{name} must be a list")
    return [_text(each) for each in found]


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = content.get("accounts") or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise AclError("accounts must be a list of accounts, each with accessKey and secretKey")
    return found
