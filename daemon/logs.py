"""How the daemons log: one line per event, a sentence and then ``key=value`` pairs; on standard
error or in a file that is rotated.

::

    2026-11-21T13:14:15.123+0100 INFO    namesrv.daemon name server ready port=9876 home=/home/me

or, as JSON, ``{"time":"...","level":"INFO","logger":"namesrv.daemon","event":"name server
ready","port":9876,...}``.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import Any, Final, NamedTuple

from .printable import printable, printable_json

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LINES_PER_SECOND = 20
"""More lines of one kind are left out: peers that do wrong must not fill the disk, nor keep a
daemon busy writing."""
MAX_LINE = 2000
"""Characters of a message; peers choose what stands in it."""
FORMS: Final = ("text", "json")
_FIELD: Final = re.compile(r"(\w+)=(%[-#0 +]*\d*(?:\.\d+)?[sdrf])")
_PLACEHOLDER: Final = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_MAX_KINDS = 1000
_PACKAGE = __package__.partition(".")[0]


def _timestamp(record: logging.LogRecord) -> str:
    """Local time with milliseconds and the distance to UTC."""
    when = time.localtime(record.created)
    seconds, zone = time.strftime("%Y-%m-%dT%H:%M:%S", when), time.strftime("%z", when)
    return f"{seconds}.{int(record.msecs):03}{zone}"


class LineFormatter(logging.Formatter):
    """One line per record whatever a peer put into it; only the traceback of a bug takes more, and
    those begin with a space."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = _timestamp(record)
        message = printable(_shortened(record.getMessage()))
        if left_out := getattr(record, "left_out", 0):
            message += f" ({left_out} lines like this were left out)"
        line = f"{stamp} {record.levelname:<7} {record.name.removeprefix(_PACKAGE + '.')} {message}"
        if record.exc_info:
            for each in self.formatException(record.exc_info).split("\n"):
                line += "\n " + printable(each)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line. The pairs come from the template of the record, so a peer cannot
    make up any."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name.removeprefix(_PACKAGE + "."),
            **_event_and_fields(record),
        }
        if left_out := getattr(record, "left_out", 0):
            entry["left_out"] = left_out
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return printable_json(entry, default=str)


def _event_and_fields(record: logging.LogRecord) -> dict[str, Any]:
    """``"ready port=%d", 9876`` is ``{"event": "ready", "port": 9876}``; a template of another kind
    is one event."""
    template, args = str(record.msg), record.args
    places = _PLACEHOLDER.findall(template)
    fields = list(_FIELD.finditer(template))
    if (
        not isinstance(args, tuple)
        or len(places) != len(args)
        or "%%" in places
        or len(fields) != len(places)
    ):
        return {"event": _shortened(record.getMessage())}
    values = {match[1]: _value(arg) for match, arg in zip(fields, args, strict=True)}
    event = " ".join(_FIELD.sub("", template).split())
    return {
        "event": event,
        **{f"{name}_" if name in _TAKEN else name: value for name, value in values.items()},
    }


_TAKEN: Final = frozenset({"time", "level", "logger", "event", "left_out", "traceback"})


def _value(arg: object) -> object:
    return arg if isinstance(arg, (int, float, bool)) or arg is None else _shortened(str(arg))


class LogFile(NamedTuple):
    """Instead of standard error. When it has ``max_bytes`` it becomes ``<path>.1`` and so on,
    ``backups`` are kept.

    ``max_bytes`` 0: it is never rotated here.
    """

    path: str
    max_bytes: int = 100 << 20
    backups: int = 10


class FloodFilter(logging.Filter):
    """Lets ``LINES_PER_SECOND`` records of one kind (same logger, same sentence) through; the next
    second's first one tells how many were left out."""

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


def set_up_logging(level: str = "INFO", *, form: str = "text", file: LogFile | None = None) -> None:
    """Log everything of this package (warnings of others) to standard error or a file. ``form`` is
    one of ``FORMS``.

    Raises ``OSError`` for a file that cannot be opened.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        from .log_file import LogFileHandler  # not for others

        handler = LogFileHandler(*file)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    handler.addFilter(FloodFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_PACKAGE).setLevel(level)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... ({len(text)} characters)"
