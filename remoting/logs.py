"""How the daemons log: one line per event on standard error, a sentence and then ``key=value`` pairs.

::

    2026-11-21T13:14:15.123+0100 INFO    namesrv.daemon name server ready port=9876 home=/home/me/.aiorocketmq
"""

from __future__ import annotations

import logging
import sys
import time

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_PACKAGE = __package__.partition(".")[0]


class LineFormatter(logging.Formatter):
    """One line per record whatever a peer put into it; only the traceback of a bug takes more."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.localtime(record.created)
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', when)}.{int(record.msecs):03}{time.strftime('%z', when)}"
        message = _one_line(record.getMessage())
        line = f"{stamp} {record.levelname:<7} {record.name.removeprefix(_PACKAGE + '.')} {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def set_up_logging(level: str = "INFO") -> None:
    """Log everything of this package (warnings of others) to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_PACKAGE).setLevel(level)


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
