"""Where the programs are that texts of this package name: ``mqadmin``, ``mqstore`` ..."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

__all__ = ["folder_not_in_path"]


def folder_not_in_path() -> Path | None:
    """The folder of this Python's programs where a shell like the one that started this process
    does not find them by their names: an environment, ``.venv`` of a clone say, that is not
    active. None where it does, and where there are none."""
    folder = Path(sys.executable).parent
    if not os.access(folder / "mqadmin", os.X_OK) or shutil.which("mqadmin"):
        return None
    return folder
