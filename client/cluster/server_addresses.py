"""Addresses of name servers as programs, options and variables give them. No network: see
``name_servers``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from ...remoting.transport.address import is_host, port_of
from ..errors import ConfigError
from ..namespaces import namespace_of_address

ENVIRONMENT_VARIABLE: Final = "NAMESRV_ADDR"


def parse_addresses(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """``"host:port;host:port"`` or a sequence of ``host:port``; without either the variable
    NAMESRV_ADDR is read.

    Raises ``ConfigError`` when there is no address or one does not look like ``host:port``.
    """
    if given is None:
        given = os.environ.get(ENVIRONMENT_VARIABLE, "")
        if not given:
            raise ConfigError(
                "no name server is known: pass namesrv='host:9876' or set the environment "
                f"variable {ENVIRONMENT_VARIABLE}"
            )
    addresses = tuple(
        dict.fromkeys(_checked(text) for text in split_addresses(given) if text.strip())
    )
    if not addresses:
        raise ConfigError("the list of name servers is empty")
    return addresses


def split_addresses(given: str | Sequence[str]) -> Sequence[str]:
    """The entries as they stand there. Raises ``ConfigError`` for what is no text and no sequence
    of texts."""
    texts = given.split(";") if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"namesrv is 'host:9876' or a list of such texts, not {given!r}")
    return texts


def _checked(text: str) -> str:
    address = text.strip()
    if "," in address:
        raise ConfigError(
            f"several name servers are joined by ;, as in 'a:9876;b:9876', not {address[:200]!r}"
        )
    if address.startswith(
        ("http://", "https://")
    ):  # so are addresses of a cloud written; the protocol is ours all the same
        address = address.rpartition("/")[2]
    host, _, port = address.rpartition(":")
    if not is_host(host) or port_of(port) is None or "/" in host:
        raise ConfigError(f"the name server address {address[:200]!r} must look like host:9876")
    return address


def namespace_of_servers(namesrv: str | Sequence[str] | None) -> str | None:
    """The namespace that one of their addresses tells, given or from the environment."""
    addresses = namesrv if namesrv is not None else os.environ.get(ENVIRONMENT_VARIABLE, "")
    return next(
        (found for text in split_addresses(addresses) if (found := namespace_of_address(text))),
        None,
    )
