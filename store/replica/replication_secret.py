"""A secret that a slave and its master share (``haSecret``), without I/O: each proves to the other
that it has it.

Before its first report the slave says hello, and nothing of the log goes over the connection before
all four are through::

    slave to master   hello       0  8  MAGIC
                                  8 16  nonce
    master to slave   challenge   0  8  MAGIC
                                  8 16  nonce
    slave to master   proof       0 32  HMAC-SHA256(secret, "slave" + both nonces)
    master to slave   proof       0 32  HMAC-SHA256(secret, "master" + both nonces)

Of the nonces the slave's is the first.

In the original's protocol a connection begins with the slave's offset. The magic would be a
negative one, which there is not, and its first byte is not that of TLS either, so the three ways to
begin cannot be taken for each other. Who has no secret does not begin so: a peer of the original
and one of ours without a secret understand each other as ever. The proof keeps strangers out; that
nobody between the two reads or changes bytes takes TLS.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from .replication import ReplicationError

MAGIC: Final = b"\xffHAKEY\x00\x01"
NONCE_BYTES: Final = 16
MIN_SECRET_LENGTH: Final = 16
"""Who listens to a handshake can try secrets as fast as he likes."""
_HELLO_BYTES: Final = len(MAGIC) + NONCE_BYTES
_PROOF_BYTES: Final = hashlib.sha256().digest_size
_NO_SECRET_THERE: Final = (
    "it does not know the secret: haSecret must be the same at both ends (the original has none)"  # noqa: S105 - a remark
)


def says_hello(data: bytes) -> bool:
    """A connection that begins so wants a proof, or is none of ours: no offset is negative."""
    return data[:1] == MAGIC[:1]


class MasterHandshake:
    """The master's end. ``done``: the slave has proved itself; then ``rest`` is what it sent behind
    that."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        """``nonce``: ``NONCE_BYTES`` random bytes, never used before."""
        self.done: bool = False
        self.rest: bytes = b""
        self._secret: Final = secret
        self._own: Final = nonce
        self._peers: bytes | None = None

    def receive(self, data: bytes) -> bytes:
        """What to answer. Raises ReplicationError for a peer that does not know the secret."""
        self.rest += data
        if self._peers is None:
            if self.rest[: len(MAGIC)] != MAGIC[: len(self.rest)]:
                raise ReplicationError(_NO_SECRET_THERE)
            if len(self.rest) < _HELLO_BYTES:
                return b""
            self._peers, self.rest = self.rest[len(MAGIC) : _HELLO_BYTES], self.rest[_HELLO_BYTES:]
            return MAGIC + self._own
        if len(self.rest) < _PROOF_BYTES:
            return b""
        nonces = self._peers + self._own
        if not hmac.compare_digest(
            self.rest[:_PROOF_BYTES], _proof(self._secret, b"slave", nonces)
        ):
            raise ReplicationError(_NO_SECRET_THERE)
        self.done, self.rest = True, self.rest[_PROOF_BYTES:]
        return _proof(self._secret, b"master", nonces)


class SlaveHandshake:
    """The slave's end: sends ``hello`` first. ``done``: the master has proved itself."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        """``nonce``: ``NONCE_BYTES`` random bytes, never used before."""
        self.done: bool = False
        self.hello: Final = MAGIC + nonce
        self._secret: Final = secret
        self._own: Final = nonce
        self._nonces: bytes | None = None
        self._rest = b""

    def receive(self, data: bytes) -> bytes:
        """What to answer. Raises ReplicationError for a peer that does not know the secret, or says
        more than it may."""
        self._rest += data
        answer = b""
        if self._nonces is None:
            if self._rest[: len(MAGIC)] != MAGIC[: len(self._rest)]:
                raise ReplicationError(_NO_SECRET_THERE)
            if len(self._rest) < _HELLO_BYTES:
                return b""
            self._nonces = self._own + self._rest[len(MAGIC) : _HELLO_BYTES]
            self._rest = self._rest[_HELLO_BYTES:]
            answer = _proof(self._secret, b"slave", self._nonces)
        if len(self._rest) >= _PROOF_BYTES:
            if not hmac.compare_digest(self._rest, _proof(self._secret, b"master", self._nonces)):
                raise ReplicationError(_NO_SECRET_THERE)
            self.done = True
        return answer


def _proof(secret: bytes, whose: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, whose + nonces, "sha256")
