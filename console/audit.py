"""One line for every change: when, who, from where, what, of what, and how it went. Never a secret,
never a body.

To a file, or to standard error, where also stands what a file did not take; not through the log,
which leaves lines out when there are many.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from ..client.errors import ConfigError
from ..remoting.clock import Clock

_MOST: Final = 300
"""Characters of one value."""


class AuditLog:
    """``path``: ``None`` is standard error."""

    def __init__(self, path: str | None, clock: Clock) -> None:
        """Raises ``ConfigError`` where the file cannot be written."""
        self._clock = clock
        try:
            self._file = None if path is None else Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - until close
        except OSError as error:
            raise ConfigError(f"the audit file {path} cannot be written: {error}") from None

    def note(self, who: str, address: str, action: str, subject: str, outcome: str) -> None:
        """``subject`` names what was changed, ``outcome`` is ``done`` or what the cluster said."""
        when = datetime.fromtimestamp(self._clock.time_ms() / 1000, UTC)
        fields = {
            "who": who, "from": address, "action": action, "subject": subject, "outcome": outcome,
        }  # fmt: skip
        line = " ".join(f"{name}={_value(text)}" for name, text in fields.items())
        line = f"{when:%Y-%m-%dT%H:%M:%SZ} AUDIT {line}"
        if self._file is not None:
            try:
                return _write(self._file, line)
            except OSError as error:  # what was done is done, and its line is not to be lost
                line += f" (not in the audit file: {error.strerror})"
        with suppress(OSError):
            _write(sys.stderr, line)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # lines that were told on standard error
                self._file.close()


def _write(file: TextIO, line: str) -> None:
    file.write(line + "\n")
    file.flush()


def _value(text: str) -> str:
    """On one line, whatever a peer put into it."""
    shown = "".join(each if each.isprintable() and each != '"' else "?" for each in text[:_MOST])
    return shown if shown and " " not in shown and "=" not in shown else f'"{shown}"'
