"""A leaf and its twin side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from aiorocketmq.remoting.protocol.leaves import KIND

SOURCES: Final = Path(__file__).resolve().parents[4] / "remoting/protocol/leaves"
"""Where what was compiled comes from; the module itself may have been installed elsewhere."""


def compiled_leaves() -> ModuleType:
    """Skips the calling module where they are not built. That the twins were asked for
    (AIOROCKETMQ_PURE) is no reason."""
    if "built" in KIND:
        pytest.skip(f"no compiled leaves: {KIND}", allow_module_level=True)
    from aiorocketmq.remoting.protocol.leaves import _compiled

    return _compiled


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """What it returns, or the type and text of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is: the twin has to do the same
        return type(error), str(error)
