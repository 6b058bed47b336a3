"""Where a client's access key comes from: an argument, a file, or the environment (client.md §7.3;
class AclUtils).

A file has either the lines of the original's key file or those of ``tools.yml``::

    AccessKey=RocketMQ                  accessKey: RocketMQ
    SecretKey=12345678                  secretKey: 12345678
    SecurityToken=...                   securityToken: ...

Values are text as they stand there; a line that begins with ``#`` says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..remoting.signature import Credentials
from .errors import ConfigError

__all__ = ["credentials_from", "read_key_file"]

ACCESS_KEY_VARIABLE = "ROCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE = "ROCKETMQ_SECRET_KEY"  # noqa: S105 - a name
SECURITY_TOKEN_VARIABLE = "ROCKETMQ_SECURITY_TOKEN"  # noqa: S105 - a name
KEY_FILE_VARIABLE = "ROCKETMQ_CLIENT_KEYFILE"

_MAX_FILE_BYTES = 64 << 10
_NAMES = {"accesskey": "access_key", "secretkey": "secret_key", "securitytoken": "security_token"}


def credentials_from(
    given: Credentials | str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ
) -> Credentials | None:
    """Those that were given, or those in the file that was given; else what the environment says:
    ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY (and ROCKETMQ_SECURITY_TOKEN), or the file
    ROCKETMQ_CLIENT_KEYFILE; else none.

    Raises ``ConfigError`` when something is there and cannot be used.
    """
    if isinstance(given, Credentials):
        return given
    if given is not None:
        if not isinstance(given, (str, os.PathLike)):
            raise ConfigError(
                "credentials are Credentials(access_key, secret_key) or the path of a key file, "
                f"no {type(given).__name__}"
            )
        return read_key_file(given)
    access_key, secret_key = (
        environment.get(ACCESS_KEY_VARIABLE),
        environment.get(SECRET_KEY_VARIABLE),
    )
    if access_key and secret_key:
        return Credentials(access_key, secret_key, environment.get(SECURITY_TOKEN_VARIABLE) or None)
    if access_key or secret_key:
        raise ConfigError(
            f"set both of the environment variables {ACCESS_KEY_VARIABLE} and "
            f"{SECRET_KEY_VARIABLE}, or none"
        )
    path = environment.get(KEY_FILE_VARIABLE)
    return read_key_file(path) if path else None


def read_key_file(path: str | os.PathLike[str]) -> Credentials:
    """The credentials in a file, see the module. Raises ``ConfigError`` when it cannot be read or
    lacks a key."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {os.fspath(path)} cannot be read: {error}") from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not (line := line.strip()).startswith("#"):
            name, value = _entry(line)
            if name in _NAMES and value:
                found[_NAMES[name]] = value
    if missing := [key for key in ("access_key", "secret_key") if key not in found]:
        raise ConfigError(
            f"the key file {os.fspath(path)} has no {' and no '.join(missing)}; write "
            "AccessKey=... SecretKey=..."
        )
    return Credentials(**found)


def _entry(line: str) -> tuple[str, str]:
    """``name=value`` or ``name: value``, whichever separator comes first."""
    at = min((index for index in (line.find("="), line.find(":")) if index >= 0), default=len(line))
    value = line[at + 1 :].strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return line[:at].strip().lower(), value
