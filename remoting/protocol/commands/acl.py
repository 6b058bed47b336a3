"""Access control lists of a broker (``headers.md`` part C)."""

from __future__ import annotations

from ..codes import RequestCode
from ..wire import NoFields, Record
from .base import Command


class CreateAccessConfigRequest(Record, frozen=True, kw_only=True):
    """Make or change an account (code 50)."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    """``topicA=PUB|SUB,topicB=DENY``; ``group_perms`` likewise."""
    group_perms: str | None = None


class DeleteAccessConfigRequest(Record, frozen=True, kw_only=True):
    """Remove an account (code 51)."""

    access_key: str


class UpdateGlobalWhiteAddrsRequest(Record, frozen=True, kw_only=True):
    """Addresses that need no account (code 53)."""

    global_white_addrs: str
    """Separated by commas."""
    acl_file_full_path: str | None = None
    """``None``: ``plain_acl.yml``. The original's header demands a path, its tools may leave it
    out."""


class GetBrokerAclInfoResponse(Record, frozen=True, kw_only=True):
    """Versions of the broker's ACL files (code 52)."""

    version: str
    """A DataVersion as JSON text."""
    all_acl_file_version: str | None = None
    """``{path: DataVersion}`` as JSON text."""
    broker_name: str
    broker_addr: str
    cluster_name: str


COMMANDS = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: Command(CreateAccessConfigRequest, NoFields),
    RequestCode.DELETE_ACL_CONFIG: Command(DeleteAccessConfigRequest, NoFields),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Command(UpdateGlobalWhiteAddrsRequest, NoFields),
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: Command(NoFields, GetBrokerAclInfoResponse),
}
