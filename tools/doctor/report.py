"""What was found, as text for people or as JSON. Nothing secret is in it: what hides it looks at
every line."""

from __future__ import annotations

import platform
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...daemon.printable import printable_json
from ..mqadmin.shell import one_line
from .finding import Finding, Level
from .seen import Seen

WIDTH: Final = 100
_MARGIN: Final = 8
HIDDEN: Final = "***"


class Hider:
    """Takes secrets, and the name of the user's home, out of texts."""

    def __init__(self, secrets: tuple[str, ...], home: Path | None) -> None:
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)
        self._home = str(home) if home is not None and home != home.parent else ""

    def __call__(self, text: str) -> str:
        """In one line, without control characters."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        if self._home:
            text = text.replace(self._home, "~")
        return one_line(text)


def as_text(
    version: str, seen: Seen, answering: list[str], found: list[Finding], hide: Hider
) -> str:
    """Plain lines. What answers, what is wrong and what to do, how many of each."""
    lines = [line for each in answering for line in _block("answers", hide(each))]
    told: list[str] = []
    for level, where, what, to_do in found:
        told += _block(level.value, hide(f"{where}: {what}"))
        if to_do:
            told += _block("", f"-> {hide(to_do)}")
    count = Counter(each.level for each in found)
    end = (
        f"{count[Level.WRONG]} wrong, {count[Level.NOTE]} to know, {count[Level.UNSEEN]} not seen. "
        "Nothing was changed, no message was read."
    )
    parts = [[f"{version}, {_platform()}; {_manner(seen)}"], lines, told, [end]]
    return "\n\n".join("\n".join(each) for each in parts if each)


def as_json(
    version: str, seen: Seen, answering: list[str], found: list[Finding], hide: Hider
) -> str:
    """One object."""
    return printable_json(
        {
            "version": version,
            "platform": _platform(),
            "manner": _manner(seen),
            "answers": [hide(each) for each in answering],
            "findings": [
                {
                    "level": level.value,
                    "where": hide(where),
                    "what": hide(what),
                    "toDo": hide(to_do) if to_do else "",
                }
                for level, where, what, to_do in found
            ],
        },
        indent=2,
    )


def _platform() -> str:
    return f"Python {platform.python_version()}, {platform.system()}"


def _manner(seen: Seen) -> str:
    speech = "TLS" if seen.tls else "plain"
    return f"{speech}, requests {'signed' if seen.signed else 'not signed'}"


def _block(mark: str, text: str) -> Iterator[str]:
    return iter(
        textwrap.wrap(
            f"{mark:<{_MARGIN}}{text}",
            WIDTH,
            subsequent_indent=" " * (_MARGIN + 3 * (not mark)),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
    )
