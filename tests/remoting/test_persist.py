"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.remoting.persist import backup_of, read_file, replace_file


def test_the_new_content_is_there_and_the_old_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "kvConfig.json"
    replace_file(path, "one")
    assert read_file(path) == "one"
    assert not backup_of(path).exists()
    replace_file(path, "zwei ü")
    replace_file(str(path), "three")
    assert read_file(path) == "three"
    assert backup_of(path).read_bytes() == "zwei ü".encode()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["kvConfig.json", "kvConfig.json.bak"]


def test_a_crash_before_the_rename_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    replace_file(path, "old")

    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, "new")
    assert read_file(path) == "old"


def test_no_file_is_no_error_and_a_folder_is(tmp_path: Path) -> None:
    assert read_file(tmp_path / "none") is None
    with pytest.raises(OSError, match="directory"):
        read_file(tmp_path)


def test_text_of_javas_tools_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("brokerName=Köln".encode("iso-8859-1"))
    assert read_file(tmp_path / "f") == "brokerName=Köln"
