"""The ACL signature of a request (``remoting.md`` §1.8; classes AclClientRPCHook, AclSigner).

``Signature`` = Base64(HMAC-SHA1(secret key, values of all ext fields sorted by name, joined, then the body)).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping

from .protocol.wire import Record

_NOT_SIGNED = ("Signature", "_UNIQUE_KEY_QUERY")
# The original's client signs _UNIQUE_KEY_QUERY and its broker does not, so such a request never passes (quirk).


class Credentials(Record, frozen=True):
    """Who asks. The secret never goes over the wire and is left out of ``repr``."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r}, secret_key=***)"


def signed(credentials: Credentials, ext_fields: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The ext fields with ``AccessKey``, ``SecurityToken`` and ``Signature`` added.

    >>> fields = {"consumerGroup": "cg", "topic": "T", "queueId": "3"}
    >>> signed(Credentials("RocketMQ", "12345678"), fields, b"BODY")["Signature"]
    'RWiDmewhrPVUsMQXaVvqOxFswSY='
    """
    fields = {**ext_fields, "AccessKey": credentials.access_key}
    if credentials.security_token is not None:
        fields["SecurityToken"] = credentials.security_token
    fields["Signature"] = signature(credentials.secret_key, fields, body)
    return fields


class Signer:
    """Makes the signature of what has been put together already; the key is looked at once. Threads may share one."""

    __slots__ = ("_begun",)

    def __init__(self, secret_key: str) -> None:
        self._begun = hmac.new(secret_key.encode(), digestmod="sha1")

    def sign(self, content: bytes, body: bytes) -> bytes:
        """``content``: the values of the fields, in the order of their names."""
        digest = self._begun.copy()
        digest.update(content)
        digest.update(body)
        return base64.b64encode(digest.digest())


def signature(
    secret_key: str,
    ext_fields: Mapping[str, str],
    body: bytes | memoryview,
    *,
    unsigned: Collection[str] = _NOT_SIGNED,
) -> str:
    """Names are sorted as Java sorts text, by UTF-16 code units."""
    signed_names = [name for name in ext_fields if name not in unsigned]
    if "".join(signed_names).isascii():
        names = sorted(signed_names)  # the usual case, three times as fast
    else:
        names = sorted(signed_names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    content = "".join(ext_fields[name] for name in names).encode()
    digest = hmac.new(secret_key.encode(), content, "sha1")
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()
