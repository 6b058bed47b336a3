"""The number of this package."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

__all__ = ["package_version"]

_UNKNOWN: Final = "0+unknown"


def package_version() -> str:
    """That of the clone whose files run, whatever else is installed, or that of the installation;
    ``0+unknown`` in a zip, which has neither."""
    project = Path(__file__).parents[1] / "pyproject.toml"
    if project.is_file():
        number: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
        return number
    try:
        return version("aiorocketmq")
    except PackageNotFoundError:
        return _UNKNOWN
