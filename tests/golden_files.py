"""Where the bytes captured from the original RocketMQ lie.

They are not part of this repository: the folder ``shared/golden`` stands beside the clone, or the variable
AIOROCKETMQ_GOLDEN names it. Tests that need them are skipped, with that reason, when they are absent.
"""

import os
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def golden_folder() -> Path:
    named = os.environ.get("AIOROCKETMQ_GOLDEN")
    return Path(named) if named else REPOSITORY.parent / "shared" / "golden"


def golden_path(name: str) -> Path:
    """The captured file ``name``; skips the calling test (or, at import, its module) when it is not there."""
    path = golden_folder() / name
    if not path.exists():
        pytest.skip(f"no captured file {path}; AIOROCKETMQ_GOLDEN can name the folder", allow_module_level=True)
    return path


def unpack_golden(name: str, folder: Path) -> None:
    """Everything in the captured archive ``name`` goes into ``folder``; skips as ``golden_path`` does."""
    with tarfile.open(golden_path(name)) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4; Debian 12 has 3.11.2
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
