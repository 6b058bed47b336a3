"""TLS settings under the original's names (``remoting.md`` §1.7; classes TlsMode, TlsSystemConfig,
TlsHelper).

A server decides per connection by its first byte: 0x16 is a TLS handshake, anything else is plain.
There is no test mode with a certificate made up at start: without ``tls.server.certPath`` a TLS
connection is closed, and the log says why.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

import msgspec

from ..errors import RocketMQError
from ..protocol.wire import Record

log: Final = logging.getLogger(__name__)

T = TypeVar("T")

HANDSHAKE_BYTE = 0x16
PATIENCE_S: float = 5.0
"""So long certificates may take to be read."""
AGAIN_S: Final = 60.0
"""Files that cannot be used and do not change are tried again: what kept them from being read (no
descriptor left, an owner that was given to them a moment later) need not show in them."""


class TlsMode(Enum):
    """What a server does with TLS (property ``tls.server.mode``)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsError(RocketMQError):
    """A certificate or key cannot be used."""


class TlsSettingsError(TlsError):
    """The properties do not go together, whatever the files hold."""


class TlsConfig(Record, frozen=True, kw_only=True):
    """Both ends' TLS properties; paths are PEM files."""

    server_mode: TlsMode = msgspec.field(name="tls.server.mode", default=TlsMode.PERMISSIVE)
    enable: bool = msgspec.field(name="tls.enable", default=False)
    server_need_client_auth: str = msgspec.field(name="tls.server.need.client.auth", default="none")
    server_cert_path: str | None = msgspec.field(name="tls.server.certPath", default=None)
    server_key_path: str | None = msgspec.field(name="tls.server.keyPath", default=None)
    server_key_password: str | None = msgspec.field(name="tls.server.keyPassword", default=None)
    server_auth_client: bool = msgspec.field(name="tls.server.authClient", default=False)
    server_trust_cert_path: str | None = msgspec.field(
        name="tls.server.trustCertPath", default=None
    )
    client_cert_path: str | None = msgspec.field(name="tls.client.certPath", default=None)
    client_key_path: str | None = msgspec.field(name="tls.client.keyPath", default=None)
    client_key_password: str | None = msgspec.field(name="tls.client.keyPassword", default=None)
    client_auth_server: bool = msgspec.field(name="tls.client.authServer", default=False)
    client_trust_cert_path: str | None = msgspec.field(
        name="tls.client.trustCertPath", default=None
    )


class ServerTls:
    """The certificate of a server, loaded again when its files change (class FileWatchService).
    Those that cannot be used are tried again every ``AGAIN_S``.

    New connections get the new certificate; those that exist keep theirs. Raises ``TlsError`` when
    made with files that cannot be used; ``refresh`` keeps the old certificate then.
    """

    def __init__(self, config: TlsConfig) -> None:
        if config.server_cert_path is None:
            raise TlsError("no certificate is configured (tls.server.certPath)")
        self._config = config
        self.problem: TlsError | None = None
        """Why the files as they are now are not in use."""
        self._paths = [
            p
            for p in (
                config.server_cert_path,
                config.server_key_path,
                config.server_trust_cert_path,
            )
            if p
        ]
        self._reader = _Reader()
        self._stamps = self._look()
        """Of the files in use."""
        self._tried = self._stamps
        self._again_at = 0.0
        self.context: ssl.SSLContext = _server_context(config, self._paths[0], self._reader)

    def refresh(self, now: float) -> None:
        """Look at the files; load them when they have changed. Blocks on the disk, but not for
        longer than ``PATIENCE_S`` where it does not answer. ``now``: seconds on a monotonic
        clock."""
        try:
            stamps = self._look()
        except TlsError as error:
            self.problem = error
            return
        if stamps == self._stamps:
            self.problem = None
            return
        if stamps == self._tried and now < self._again_at:
            return
        self._tried, self._again_at = stamps, now + AGAIN_S
        try:
            self.context = _server_context(self._config, self._paths[0], self._reader)
        except TlsError as error:
            self.problem = error
        else:
            self._stamps, self.problem = stamps, None
            log.info("certificate reloaded cert=%s", self._paths[0])

    def _look(self) -> list[tuple[int, int]]:
        """Raises ``TlsError`` where the file system does not answer."""
        what = f"the certificates {', '.join(self._paths)}"
        return self._reader.load(lambda: [_stamp(path) for path in self._paths], what)


def server_tls(config: TlsConfig) -> ServerTls | None:
    """What a server needs for TLS, or ``None`` when no certificate is configured. Raises
    ``TlsError``."""
    if config.server_cert_path is None and config.server_mode is TlsMode.ENFORCING:
        raise TlsSettingsError(
            "tls.server.mode=enforcing needs tls.server.certPath: without a certificate nobody "
            "could connect"
        )
    return None if config.server_cert_path is None else ServerTls(config)


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _server_context(config: TlsConfig, cert_path: str, reader: _Reader) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    key, password = config.server_key_path, config.server_key_password
    _load_chain(context, reader, cert_path, key, password, "server")
    if config.server_auth_client or config.server_need_client_auth in ("require", "optional"):
        if config.server_trust_cert_path is None:
            raise TlsError(
                "clients are to be authenticated, but tls.server.trustCertPath is not set"
            )
        _load_trust(context, reader, config.server_trust_cert_path)
        optional = config.server_need_client_auth == "optional" and not config.server_auth_client
        context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    return context


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """The context for connections that we make. As in the original the host name is not checked.
    Raises ``TlsError``."""
    context, reader = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), _Reader()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if config.client_auth_server:
        context.verify_mode = ssl.CERT_REQUIRED
        if config.client_trust_cert_path is None:
            context.load_default_certs()
        else:
            _load_trust(context, reader, config.client_trust_cert_path)
    if config.client_cert_path is not None:
        _load_chain(
            context,
            reader,
            config.client_cert_path,
            config.client_key_path,
            config.client_key_password,
            "client",
        )
    return context


def _load_chain(
    context: ssl.SSLContext,
    reader: _Reader,
    cert: str,
    key: str | None,
    password: str | None,
    side: str,
) -> None:
    def nobody_to_ask() -> str:
        raise TlsError(
            f"cannot use the key {key or cert}: it is encrypted, set tls.{side}.keyPassword"
        )

    what = f"the certificate {cert} with the key {key or cert}"
    reader.load(
        lambda: context.load_cert_chain(cert, key, nobody_to_ask if password is None else password),
        what,
    )


def _load_trust(context: ssl.SSLContext, reader: _Reader, path: str) -> None:
    def load() -> None:
        if not Path(path).exists():  # with a folder that is none ssl is content
            raise FileNotFoundError("there is no such file")
        is_folder = Path(path).is_dir()
        context.load_verify_locations(None if is_folder else path, path if is_folder else None)

    reader.load(load, f"the trusted certificates {path}")


class _Reader:
    """Looks at files, and loads them, in a thread that may be left alone: nobody can interrupt who
    reads from a FIFO that nobody writes to, or waits for a file system that hangs. Of such threads
    there is one at a time."""

    def __init__(self) -> None:
        self._last: Future[Any] = Future()
        self._last.set_result(None)

    def load(self, load: Callable[[], T], what: str) -> T:
        """Raises ``TlsError`` where ``load`` fails, or lasts longer than ``PATIENCE_S``."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                found = load()
            except (OSError, ValueError, TlsError) as error:  # SSLError is an OSError
                result.set_exception(error)
            else:
                result.set_result(found)

        try:
            if not self._last.done():
                raise TimeoutError
            Thread(target=run, name="certificates", daemon=True).start()
            self._last = result
            return result.result(PATIENCE_S)
        except TimeoutError:
            raise TlsError(
                f"cannot use {what}: nothing could be read within {PATIENCE_S:g} s; is it a FIFO, "
                "or on a file system that hangs?"
            ) from None
        except (OSError, ValueError, RuntimeError) as error:  # the last: no thread can be started
            raise TlsError(f"cannot use {what}: {error}") from None
