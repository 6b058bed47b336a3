"""The ACL signature of a request (``remoting.md`` §1.8; classes AclClientRPCHook, AclSigner).

``Signature`` = Base64(HMAC-SHA1(secret key, values of all ext fields sorted by name, joined, then
the body)).
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final

from .protocol.signed import signed_content
from .protocol.wire import Record

_BLOCK_BYTES: Final = 64
"""Of SHA-1."""


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
    """Makes the signature of what has been put together already; the key is looked at once. Threads
    may share one.

    HMAC as RFC 2104 has it, of two digests that have begun: ``hmac`` takes 0.4 µs longer for each
    message.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str) -> None:
        key = secret_key.encode()
        key = (hashlib.sha1(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(  # noqa: S324 - the original's
            _BLOCK_BYTES, b"\0"
        )
        self._inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in key))  # noqa: S324 - as above
        self._outer = hashlib.sha1(bytes(byte ^ 0x5C for byte in key))  # noqa: S324 - as above

    def sign(self, content: bytes, body: bytes | memoryview) -> bytes:
        """``content``: see ``signed_content``."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content + body)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


def signature(secret_key: str, ext_fields: Mapping[str, str], body: bytes | memoryview) -> str:
    """See ``signed_content``."""
    return Signer(secret_key).sign(signed_content(ext_fields), body).decode()
