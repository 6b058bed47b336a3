"""The small set of captured files that is part of the repository."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from ..golden_files import SMALL_SET, needs_whole_set
from .make_data import FOLDER_OF_A_MACHINE, LIMIT_BYTES, WIRES, is_free, small_set

FILES = sorted(path for path in SMALL_SET.rglob("*") if path.is_file())


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) <= LIMIT_BYTES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_a_folder_of_a_machine(path: Path) -> None:
    assert not FOLDER_OF_A_MACHINE.search(content(path))


@pytest.mark.parametrize("name", WIRES)
def test_answers_are_those_that_succeeded_and_say_nothing(name: str) -> None:
    frames = [json.loads(line) for line in content(SMALL_SET / f"{name}.xz").splitlines()]
    assert {frame["kind"] for frame in frames} >= {"req", "resp", "oneway"}
    assert all(map(is_free, frames))


@pytest.mark.parametrize(
    ("answer", "free"),
    [
        ({"code": 0, "header": {}}, True),
        ({"code": 0, "header": {"remark": "FOUND"}}, True),
        ({"code": 0, "header": {"remark": "not a name"}}, False),
        ({"code": 17, "header": {}}, False),
        ({"code": 0, "header": {}, "hex": b"a folder: /tmp/store".hex()}, False),
    ],
)
def test_what_is_free(answer: dict[str, object], free: bool) -> None:
    assert is_free({"kind": "resp", "hex": "", **answer}) is free


def test_it_is_made_of_the_whole_set() -> None:
    needs_whole_set()
    found = {str(path.relative_to(SMALL_SET)).removesuffix(".xz"): content(path) for path in FILES}
    assert found == dict(small_set())
