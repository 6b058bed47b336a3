"""Access control: the accounts of brokers (``headers.md`` part C, 50 to 53)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict, Unpack

from ...remoting.errors import ProtocolError
from ...remoting.protocol.bodies.codec import BodyError, decode_body
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.acl import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclInfoResponse,
    UpdateGlobalWhiteAddrsRequest,
)
from .core import AdminCore


class AclVersion(NamedTuple):
    """The versions of a broker's ACL files."""

    cluster: str
    broker_name: str
    address: str
    files: dict[str, DataVersion]
    """By path; ``timestamp`` is when it last changed (ms)."""


class AccountRights(TypedDict, total=False):
    """What an account may do; what is left out is as the broker has it by default. Perms are
    ``DENY``, ``PUB``, ``SUB``, ``PUB|SUB``, lists hold ``name=PUB``."""

    white_remote_address: str | None
    admin: bool
    default_topic_perm: str | None
    default_group_perm: str | None
    topic_perms: Sequence[str]
    group_perms: Sequence[str]


class AccountOperations(AdminCore):
    async def create_account(
        self,
        address: str,
        access_key: str,
        secret_key: str,
        **rights: Unpack[AccountRights],
    ) -> None:
        """Make or change an account of a broker.

        Raises ``BrokerError`` (209) when the broker does not take it: keys that are too short, ACL
        that is off.
        """
        header = CreateAccessConfigRequest(
            access_key=access_key,
            secret_key=secret_key,
            white_remote_address=rights.get("white_remote_address"),
            admin=rights.get("admin", False),
            default_topic_perm=rights.get("default_topic_perm"),
            default_group_perm=rights.get("default_group_perm"),
            topic_perms=",".join(rights.get("topic_perms", ())) or None,
            group_perms=",".join(rights.get("group_perms", ())) or None,
        )
        await self._invoke(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)

    async def delete_account(self, address: str, access_key: str) -> None:
        """Remove an account from a broker. Raises ``BrokerError`` (210) for one that it does not
        have."""
        await self._invoke(
            address, RequestCode.DELETE_ACL_CONFIG, DeleteAccessConfigRequest(access_key=access_key)
        )

    async def acl_version(self, address: str) -> AclVersion:
        """Which versions of ACL files a broker has. Raises ``BrokerError`` (1) when ACL is off."""
        answer = await self._invoke(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        header: GetBrokerAclInfoResponse = answer.header
        try:
            files = decode_body(
                dict[str, DataVersion], (header.all_acl_file_version or "{}").encode()
            )
        except BodyError as error:
            raise ProtocolError(
                f"{address} told versions of its ACL files that cannot be read: {error}"
            ) from error
        return AclVersion(header.cluster_name, header.broker_name, header.broker_addr, files)

    async def update_global_white_addresses(
        self, address: str, addresses: Sequence[str], acl_file: str | None = None
    ) -> None:
        """Which addresses need no account on a broker; ``acl_file`` is a path there (default:
        ``plain_acl.yml``)."""
        header = UpdateGlobalWhiteAddrsRequest(
            global_white_addrs=",".join(addresses), acl_file_full_path=acl_file
        )
        await self._invoke(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)
