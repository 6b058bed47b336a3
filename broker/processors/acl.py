"""Access control: the guard of all requests, and the commands 50 to 53 (class AdminBrokerProcessor;
``headers.md`` part C)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.peer import Peer
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands import COMMANDS
from ...remoting.protocol.commands.acl import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclInfoResponse,
    UpdateGlobalWhiteAddrsRequest,
)
from ...remoting.protocol.leaves import Headers
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.signed import ACCESS_KEY
from ...remoting.protocol.wire import NoFields
from ...store.message_store import MessageStore
from ..acl.addresses import AddressPatternError
from ..acl.files import AclFiles
from ..acl.permissions import ON_THE_WAY, Account, AclError
from ..acl.resources import LISTS_COUNT, Right, needs_of_requests, sent_to
from ..registry.registration import Identity

log: Final = logging.getLogger(__name__)

_OFF: Final = "ACL is off: set aclEnable=true and start the broker again"


class AclGuard:
    """Refuses what the ACL files do not allow. Called for every request while ``aclEnable`` is
    on."""

    def __init__(self, files: AclFiles, store: MessageStore, *, compatible: bool = False) -> None:
        """``compatible``: what the original does not look at is open to every account
        (``aclCompatible``)."""
        self._files = files
        self._store = store
        self._needs = needs_of_requests(self._topic_at, compatible=compatible)
        self._signed = Headers(
            {int(code): command.request for code, command in COMMANDS.items()}, Context
        ).signed
        self._without_a_row = Right.ANY_ACCOUNT if compatible else Right.ADMINISTRATOR

    def __call__(self, ctx: Context, body: Body) -> Reply | None:
        """Raises ``AclError`` (code 1), and ``ValueError`` for a body that cannot be read."""
        if self._needs.get(ctx.code) is Right.EVERYBODY:
            return None
        try:
            table, address = self._files.table, _address(ctx.connection.peer)
            if table.is_white(address):
                return None
            signed = self._signed(ctx.serialize_type, ctx.raw_header)
            if signed is None:
                account = table.account_of(ctx.ext_fields, body, address)
            else:
                account = table.signer_of(signed, body, address)
            if account is not None and not account.may_everything:
                self._check(account, ctx, body)
            if ctx.code == RequestCode.HEART_BEAT:
                access_key = ctx.ext_fields.get(ACCESS_KEY) if signed is None else signed[0]
                ctx.connection.attributes[ACCESS_KEY] = access_key
        except AclError as error:
            ctx.connection.tell_of(
                log,
                ("acl",),
                "request refused code=%d peer=%s reason=%s",
                ctx.code,
                ctx.connection.peer,
                error.text,
            )
            raise
        return None

    def account_of(self, ctx: Context) -> str:
        """The access key of a request that was let through; "" from a white address, whose
        signature nobody has looked at."""
        if self._files.table.is_white(_address(ctx.connection.peer)):
            return ""
        return ctx.ext_fields.get(ACCESS_KEY, "")

    def may_send(self, client: Peer, topic: str) -> bool:
        """Whether whoever sent the last heartbeat over this connection may send to a topic."""
        table, address = self._files.table, _address(client.peer)
        if table.is_white(address):
            return True
        account = table.accounts.get(client.attributes.get(ACCESS_KEY) or "")
        if account is None or account.white(address):
            return account is not None
        try:
            account.check(sent_to(topic))
        except AclError:
            return False
        return True

    def _check(self, account: Account, ctx: Context, body: Body) -> None:
        need = self._needs.get(ctx.code, self._without_a_row)
        if need is Right.ADMINISTRATOR:
            account.check_administrator(ctx.code)
        elif account.admin and ctx.code not in LISTS_COUNT:
            return
        elif need is Right.SENDER:
            account.check_sender()
        elif callable(need):
            account.check(need(ctx.request, body))

    def _topic_at(self, phy_offset: int) -> str | None:
        """Where a message is or shall be. Its queue has to know it: what looks like a record may be
        part of a body that somebody made, and would go on over the messages behind it."""
        record = self._store.message_by_offset(phy_offset) if phy_offset >= 0 else None
        if record is None:
            return None
        try:
            message = decode_record(record)
        except RecordError:
            message = None
        if message is None or not self._is_queued(message, phy_offset, len(record)):
            raise AclError(
                f"Need admin permission for the bytes at offset {phy_offset}, which no queue "
                "knows as a message"
            )
        if message.topic in ON_THE_WAY:
            return message.properties.get(PropertyName.REAL_TOPIC, message.topic)
        return message.topic

    def _is_queued(self, message: MessageExt, phy_offset: int, size: int) -> bool:
        units = self._store.entries.some(message.topic, message.queue_id, message.queue_offset, 1)
        return units is not None and [unit[:2] for unit in units] == [(phy_offset, size)]


def _address(peer: str) -> str:
    """``ip:port``, an IPv6 address in brackets."""
    return peer.rpartition(":")[0].strip("[]")


class AclProcessor:
    """``files`` is ``None`` while ACL is off."""

    def __init__(self, files: AclFiles | None, identity: Callable[[], Identity]) -> None:
        self._files = files
        self._identity = identity

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.set_account,
            RequestCode.DELETE_ACL_CONFIG: self.delete_account,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.versions,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.set_global_white,
        }

    async def set_account(
        self, request: CreateAccessConfigRequest, _body: Body, ctx: Context
    ) -> Reply:
        """Answered when the file is written."""
        code = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        if self._files is None:
            return Reply(code, remark=_OFF)
        log.info("account wanted by=%s access_key=%s", ctx.peer, request.access_key)
        entry = {
            "accessKey": request.access_key,
            "secretKey": request.secret_key,
            "whiteRemoteAddress": request.white_remote_address,
            "admin": request.admin,
            "defaultTopicPerm": request.default_topic_perm or None,
            "defaultGroupPerm": request.default_group_perm or None,
            "topicPerms": _listed(request.topic_perms),
            "groupPerms": _listed(request.group_perms),
        }
        return await _answer(code, self._files.set_account(entry))

    async def delete_account(
        self, request: DeleteAccessConfigRequest, _body: Body, ctx: Context
    ) -> Reply:
        code = ResponseCode.DELETE_ACL_CONFIG_FAILED
        if self._files is None:
            return Reply(code, remark=_OFF)
        log.info("account to be deleted by=%s access_key=%s", ctx.peer, request.access_key)
        try:
            if not await self._files.delete_account(request.access_key):
                remark = (
                    f"The accessKey[{request.access_key}] corresponding to accessConfig has been "
                    "deleted failed."
                )
                return Reply(code, remark=remark)
        except (AclError, OSError) as error:
            return Reply(code, remark=_reason(error))
        return Reply()

    async def set_global_white(
        self, request: UpdateGlobalWhiteAddrsRequest, _body: Body, ctx: Context
    ) -> Reply:
        code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        if self._files is None:
            return Reply(code, remark=_OFF)
        log.info("white list wanted by=%s addresses=%s", ctx.peer, request.global_white_addrs)
        patterns = _listed(request.global_white_addrs) or []
        return await _answer(
            code, self._files.set_global_white(patterns, request.acl_file_full_path)
        )

    def versions(self, _request: NoFields, _body: Body, _ctx: Context) -> Reply:
        """The original gives no answer at all while ACL is off."""
        if self._files is None:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=_OFF)
        own, default = self._identity(), self._files.default_version
        versions = {file.path: file.version for file in self._files.table.files}
        header = GetBrokerAclInfoResponse(
            version=encode_body(DataVersion() if default is None else default.version).decode(),
            all_acl_file_version=encode_body(versions).decode(),
            broker_name=own.broker_name,
            broker_addr=own.broker_addr,
            cluster_name=own.cluster_name,
        )
        return Reply(header=header)


async def _answer(code: ResponseCode, change: Awaitable[None]) -> Reply:
    try:
        await change
    except (AclError, AddressPatternError, OSError) as error:
        return Reply(code, remark=_reason(error))
    return Reply()


def _reason(error: AclError | AddressPatternError | OSError) -> str:
    if isinstance(error, AclError):
        return error.text
    if isinstance(error, OSError):
        return f"the ACL file cannot be written: {error.strerror}"
    return str(error)


def _listed(text: str | None) -> list[str] | None:
    """A list that is separated by commas (not by those in braces); ``None`` stays ``None``."""
    if text is None:
        return None
    found, depth, start = [], 0, 0
    for index, character in enumerate(text + ","):
        depth += (character == "{") - (character == "}")
        if character == "," and depth <= 0:
            found.append(text[start:index].strip())
            start = index + 1
    return [each for each in found if each]
