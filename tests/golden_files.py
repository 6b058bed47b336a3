"""Bytes captured from the original RocketMQ.

A small set is part of the repository, ``golden/data``: what went over the wire (without texts of
the original: its refusals and remarks), and three little stores with what the original's own
decoder read from them. ``golden/make_data.py`` makes it of the whole set, which lies outside of the
repository: in the folder ``shared/golden`` beside the clone, or where the variable
AIOROCKETMQ_GOLDEN points. The whole set is used where it is there. Elsewhere, tests that need more
than the small one are skipped, with that reason.
"""

import gzip
import json
import lzma
import os
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SMALL_SET: Final = REPOSITORY / "tests" / "golden" / "data"


def whole_set() -> Path:
    """A folder, which may be absent."""
    named = os.environ.get("AIOROCKETMQ_GOLDEN")
    return Path(named) if named else REPOSITORY.parent / "shared" / "golden"


def needs_whole_set() -> None:
    """Skips the calling test without it."""
    if not whole_set().is_dir():
        pytest.skip(
            "the small set of captured files is too small; AIOROCKETMQ_GOLDEN can name the folder "
            "of the whole one"
        )


def golden_bytes(name: str) -> bytes:
    """The content of the captured file ``name``, however it is packed; skips the calling test (or,
    at import, its module) when it is in neither set."""
    for folder in (whole_set(), SMALL_SET):
        if (plain := folder / name).exists():
            return plain.read_bytes()
        if (packed := folder / f"{name}.gz").exists():
            return gzip.decompress(packed.read_bytes())
        if (packed := folder / f"{name}.xz").exists():
            return lzma.decompress(packed.read_bytes())
    pytest.skip(
        f"{name} is not in the small set of captured files; AIOROCKETMQ_GOLDEN can name the "
        "folder of the whole one",
        allow_module_level=True,
    )


def golden_lines(name: str) -> Iterator[dict[str, Any]]:
    """The lines of a captured ``<name>.jsonl``; skips as ``golden_bytes`` does."""
    yield from map(json.loads, golden_bytes(f"{name}.jsonl").splitlines())


def unpack_golden(name: str, folder: Path) -> None:
    """Everything in the captured archive ``<name>.tar`` goes into ``folder``; skips as
    ``golden_bytes`` does."""
    with _archive(name) as archive:
        archive.extractall(folder)


def golden_member(name: str, member: str) -> bytes:
    """A file in the captured archive ``<name>.tar``; skips as ``golden_bytes`` does."""
    with _archive(name) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def _archive(name: str) -> tarfile.TarFile:
    archive = tarfile.open(fileobj=BytesIO(golden_bytes(f"{name}.tar")))  # noqa: SIM115
    if hasattr(tarfile, "data_filter"):  # Python 3.11.4; Debian 12 has 3.11.2
        archive.extraction_filter = tarfile.data_filter
    return archive
