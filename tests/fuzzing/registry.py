"""The list: every parser of bytes that a peer, a disk or a user controls."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import broker, console, files, leaves, protocol, records, replication, spark, text
from .parsers import Parser

CORPUS: Final = Path(__file__).parent / "corpus"
"""A folder for each target."""
MOST_CORPUS_BYTES: Final = 300_000

_AREAS: Final = (protocol, records, replication, broker, text, files, spark, console, leaves)
PARSERS: Final[dict[str, Parser]] = {row.name: row for area in _AREAS for row in area.PARSERS}


def corpus_of(parser: Parser) -> list[bytes]:
    """The first inputs of a target, as they lie in the repository."""
    return [path.read_bytes() for path in sorted((CORPUS / parser.name).glob("*"))]
