"""TLS of a program's connections, as a file of properties says it."""

from __future__ import annotations

import ssl

from ..daemon.launch import LaunchError, read_properties_file
from ..remoting.protocol.java_properties import PropertyError, record_from_properties
from ..remoting.transport.tls import TlsConfig, client_context
from .errors import ConfigError

__all__ = ["tls_context"]


def tls_context(path: str | None) -> ssl.SSLContext | None:
    """What the properties ``tls.client.*`` of a file say (those of the daemons); ``None`` without a
    file: plain.

    Raises ``ConfigError`` for a file that cannot be used, ``TlsError`` for its certificates.
    """
    if path is None:
        return None
    try:
        reading = record_from_properties(TlsConfig, read_properties_file(path))
    except (LaunchError, PropertyError) as error:
        raise ConfigError(str(error)) from None
    if unknown := [found.name for found in reading.unknown if found.name.startswith("tls.")]:
        raise ConfigError(f"{path}: there is no property {', '.join(unknown)}")
    return client_context(reading.record)
