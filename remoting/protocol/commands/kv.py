"""Name server: its KV config (``headers.md`` part D, ``namesrv.md`` §5.9)."""

from __future__ import annotations

from ..bodies.kv import KVTable
from ..codes import RequestCode
from ..wire import NoFields, Record
from .base import Command


class PutKVConfigRequest(Record, frozen=True, kw_only=True):
    """Set one value (code 100)."""

    namespace: str
    key: str
    value: str


class KVConfigRequest(Record, frozen=True, kw_only=True):
    """One value (classes GetKVConfigRequestHeader, DeleteKVConfigRequestHeader)."""

    namespace: str
    key: str


class GetKVConfigResponse(Record, frozen=True, kw_only=True):
    value: str | None = None


class GetKVListByNamespaceRequest(Record, frozen=True, kw_only=True):
    """All values of a namespace (code 219)."""

    namespace: str


COMMANDS = {
    RequestCode.PUT_KV_CONFIG: Command(PutKVConfigRequest, NoFields),
    RequestCode.GET_KV_CONFIG: Command(KVConfigRequest, GetKVConfigResponse),
    RequestCode.DELETE_KV_CONFIG: Command(KVConfigRequest, NoFields),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Command(
        GetKVListByNamespaceRequest, NoFields, response_body=KVTable
    ),
}
