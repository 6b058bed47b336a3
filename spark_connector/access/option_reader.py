"""Reading what Spark hands over as options: text by name, in any case of letters.

Whoever parses options asks a reader for each name that there is; ``finish`` then refuses names that
nobody asked for, with the nearest one that there is. A name that has to be there and is not is told
of after those: a misspelt one is why.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...client.errors import ConfigError

__all__ = ["OptionReader", "check_ms"]

_TRUE: Final = ("true", "1", "yes")
_FALSE: Final = ("false", "0", "no")
_DURATION: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)")
_MS: Final = {
    "": 1, "ms": 1, "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000, "m": 60_000,
    "min": 60_000, "minute": 60_000,
    "minutes": 60_000, "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000, "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}  # fmt: skip
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([kmg]?)(?:i?b)?")
_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MAX_SECRET_BYTES: Final = 64 << 10
_SECONDS: Final = range(10**8, 10**11)
"""Milliseconds of 1970 to 1973, when nobody stored a message: seconds from 1973 to 5138."""
_FINER: Final = (
    ("microseconds", 1000, range(10**14, 10**17)),
    ("nanoseconds", 1_000_000, range(10**17, 2**63 - 1)),
)
"""Milliseconds of the year 5138 and later: Spark has microseconds, Python nanoseconds. (The last
of all stands for never.)"""
_NAMES_ELSEWHERE: Final = {
    "kafka.bootstrap.servers": "name servers are given with rocketmq.namesrv.addr",
    "kafka.group.id": "the group is given with consumerGroup",
    "rocketmq.group.id": "the group is given with consumerGroup",
    "includeheaders": "headers are properties here: includeProperties",
    "path": "a topic has no path: name it with the option topic",
}
"""What people bring along from Kafka's connector, and from files."""


class OptionReader:
    """The options of one read or write. Every method raises ``ConfigError`` that names the option;
    a value of a secret is in no text of an error."""

    def __init__(
        self, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._given = {name.lower(): (name, value) for name, value in options.items()}
        self._environment = environment
        self._known: dict[str, str] = {}
        self._missing: str | None = None

    # --- values
    # ----------------------------------------------------------------------------------------------

    def text(self, name: str, *aliases: str) -> str | None:
        """The value, or ``None`` when there is none or it is blank. Two names for one thing at once
        are refused."""
        found: list[tuple[str, str]] = []
        for each in (name, *aliases):
            self._known[each.lower()] = each
            if (given := self._given.get(each.lower())) is not None and given[1].strip():
                found.append((each, given[1].strip()))
        if len({value for _, value in found}) > 1:
            raise ConfigError(
                f"the options {' and '.join(each for each, _ in found)} mean the same: give one "
                "of them"
            )
        return found[0][1] if found else None

    def integer(self, name: str, default: int, *, lowest: int = 1, highest: int = 2**63 - 1) -> int:
        value = self.optional_integer(name, lowest=lowest, highest=highest)
        return default if value is None else value

    def optional_integer(
        self, name: str, *, lowest: int = 1, highest: int = 2**63 - 1
    ) -> int | None:
        if (text := self.text(name)) is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"option {name} must be a whole number, not {text!r}") from None
        if not lowest <= value <= highest:
            raise ConfigError(
                f"option {name} must be a whole number from {lowest} to {highest}, not {value}"
            )
        return value

    def time_ms(self, name: str, *, lowest: int = 0) -> int | None:
        """Milliseconds since 1970."""
        text = self.text(name)
        if text is not None and not text.removeprefix("-").isdecimal():
            raise ConfigError(
                f"option {name} must be a time in milliseconds since 1970, such as 1700000000000, "
                f"not {text!r}"
            )
        value = self.optional_integer(name, lowest=lowest)
        if value is not None:
            check_ms(name, value)
        return value

    def boolean(self, name: str, default: bool) -> bool:
        if (text := self.text(name)) is None:
            return default
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise ConfigError(f"option {name} must be true or false, not {text!r}")

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise ConfigError(f"option {name} must be one of {', '.join(choices)}, not {text!r}")
        return text

    def duration_ms(self, name: str, default: str) -> int:
        """``15m``, ``30s``, ``500ms``; a bare number is milliseconds."""
        text = self.text(name) or default
        match = _DURATION.fullmatch(text.lower())
        if match is None or match[2] not in _MS:
            raise ConfigError(
                f"option {name} must be a time such as 500ms, 30s or 15m, not {text!r}"
            )
        return int(match[1]) * _MS[match[2]]

    def size_bytes(
        self, name: str, default: str, *, lowest: int = 1, highest: int | None = None
    ) -> int:
        """``8m``, ``64k``; a bare number is bytes."""
        text = self.text(name) or default
        match = _SIZE.fullmatch(text.lower())
        size = -1 if match is None else int(match[1]) * _BYTES[match[2]]
        if size < lowest or (highest is not None and size > highest):
            most = "" if highest is None else f" and at most {highest}"
            raise ConfigError(
                f"option {name} must be a size such as 64k or 8m, at least {lowest}{most} bytes, "
                f"not {text!r}"
            )
        return size

    def secret(self, name: str) -> str | None:
        """The value itself, the text of the file ``<name>File``, or of the variable that
        ``<name>Env`` names. Both are read where the query is planned (on the driver): executors
        need neither."""
        plain, path, variable = self.text(name), self.text(f"{name}File"), self.text(f"{name}Env")
        if sum(each is not None for each in (plain, path, variable)) > 1:
            raise ConfigError(f"give only one of the options {name}, {name}File and {name}Env")
        if variable is not None:
            if not (value := self._environment.get(variable)):
                raise ConfigError(
                    f"option {name}Env: the environment variable {variable} is not set on the "
                    "driver"
                )
            return value
        return plain if path is None else _read_secret(name, path)

    # --- names
    # ----------------------------------------------------------------------------------------------

    def allow(self, *names: str) -> None:
        """Names that are somebody else's business (``checkpointLocation`` of a stream's sink)."""
        self._known.update({name.lower(): name for name in names})

    def lacks(self, problem: str) -> None:
        """Something has to be given and is not; ``finish`` says so."""
        self._missing = self._missing or problem

    def finish(self) -> None:
        """Raises ``ConfigError`` for the options that nobody asked for, then for what is
        lacking."""
        for lowered, (name, _) in sorted(self._given.items()):
            if lowered not in self._known:
                raise ConfigError(f"there is no option {name}; {self._hint(lowered)}")
        if self._missing is not None:
            raise ConfigError(self._missing)

    def _hint(self, lowered: str) -> str:
        if (elsewhere := _NAMES_ELSEWHERE.get(lowered)) is not None:
            return elsewhere
        near = difflib.get_close_matches(lowered, self._known, n=3, cutoff=0.6)
        if near:
            return f"did you mean {' or '.join(self._known[each] for each in near)}?"
        return self._all_names()

    def _all_names(self) -> str:
        return f"the options are {', '.join(sorted(self._known.values(), key=str.lower))}"


def check_ms(option: str, value: int) -> None:
    """Raises ``ConfigError`` for a time that must be one in another unit: with it a read would take
    everything, or nothing."""
    if value in _SECONDS:
        raise ConfigError(
            f"option {option} is in milliseconds since 1970, and {value} looks like seconds: give "
            f"{value}000"
        )
    for unit, per_ms, values in _FINER:
        if value in values:
            raise ConfigError(
                f"option {option} is in milliseconds since 1970, and {value} looks like {unit}: "
                f"give {value // per_ms}"
            )


def _read_secret(name: str, path: str) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            value = file.read(_MAX_SECRET_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"option {name}File: {path} cannot be read on the driver: {error}"
        ) from None
    if not value:
        raise ConfigError(f"option {name}File: {path} is empty")
    return value
