"""What each property does, from ``properties.toml``: for ``--help`` and for
``docs/configuration.md``."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, Final

from ..remoting.protocol.java_properties import description_of
from ..remoting.protocol.wire import Field, Record

_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")


@functools.cache
def property_texts() -> dict[str, Any]:
    """The tables of the file, by the names of the Records."""
    import tomllib  # here: only who asks for help needs it

    return tomllib.loads(Path(__file__).with_name("properties.toml").read_text(encoding="utf-8"))


def help_text(record_type: type[Record], field: Field) -> str:
    """What ``--help`` says of a property, without the marks of Markdown; empty where nobody says
    anything."""
    told = property_texts().get(record_type.__name__, {}).get(field.wire_name)
    return _LINK.sub(r"\1", told).replace("`", "") if told else description_of(field)
