"""How the daemons log: one line per event on standard error, a sentence and then ``key=value`` pairs.

::

    2026-11-21T13:14:15.123+0100 INFO    namesrv.daemon name server ready port=9876 home=/home/me/.aiorocketmq
"""

from __future__ import annotations

import logging
import sys
import time

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LINES_PER_SECOND = 20
"""More lines of one kind are left out: peers that do wrong must not fill the disk, nor keep a daemon busy writing."""
MAX_LINE = 2000
"""Characters of a message; peers choose what stands in it."""
_MAX_KINDS = 1000
_PACKAGE = __package__.partition(".")[0]


class LineFormatter(logging.Formatter):
    """One line per record whatever a peer put into it; only the traceback of a bug takes more."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.localtime(record.created)
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', when)}.{int(record.msecs):03}{time.strftime('%z', when)}"
        message = _one_line(_shortened(record.getMessage()))
        if left_out := getattr(record, "left_out", 0):
            message += f" ({left_out} lines like this were left out)"
        line = f"{stamp} {record.levelname:<7} {record.name.removeprefix(_PACKAGE + '.')} {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class FloodFilter(logging.Filter):
    """Lets ``LINES_PER_SECOND`` records of one kind (same logger, same sentence) through; the next second's first one tells
    how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], tuple[int, int]] = {}
        """Kind to the second of its last record, and how many there were in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind, second = (record.name, str(record.msg)), int(record.created)
        last, count = self._kinds.get(kind, (second, 0))
        if last != second:
            record.left_out = max(0, count - LINES_PER_SECOND)
            count = 0
        elif count == 0 and len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (second, count + 1)
        return count < LINES_PER_SECOND or record.levelno >= logging.CRITICAL


def set_up_logging(level: str = "INFO") -> None:
    """Log everything of this package (warnings of others) to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    handler.addFilter(FloodFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_PACKAGE).setLevel(level)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... ({len(text)} characters)"


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
