"""Tables in files with a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.broker.state.json_file import JsonFile
from aiorocketmq.store.model.errors import StoreFileError


def test_saving_keeps_the_old_content_as_backup(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "config/topics.json")
    assert file.load(str) is None
    file.save("one")
    assert not file.backup_path.exists()
    file.save("zwei ü")
    assert (file.load(str), file.backup_path.read_text()) == ("zwei ü", "one")
    assert sorted(path.name for path in (tmp_path / "config").iterdir()) == [
        "topics.json",
        "topics.json.bak",
    ]


def test_the_backup_is_used_when_the_file_is_missing_empty_or_refused(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "f")
    file.save("7")
    file.save("8")
    for content in (None, "", " \n", "x"):
        if content is None:
            file.path.unlink()
        else:
            file.path.write_text(content)
        assert file.load(int) == 7
    file.backup_path.write_text("y")
    with pytest.raises(StoreFileError, match="repair or remove both"):
        file.load(int)
    file.path.unlink()
    file.backup_path.unlink()
    assert file.load(int) is None


def test_a_failed_save_keeps_the_old_content(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "f")
    file.save("old")
    (tmp_path / "f.tmp").mkdir()
    with pytest.raises(StoreFileError, match="cannot be written"):
        file.save("new")
    assert file.load(str) == "old"


def test_text_of_another_charset_is_that_of_a_java_broker(tmp_path: Path) -> None:
    """Which writes in the charset of its system."""
    file = JsonFile(tmp_path / "f")
    file.path.write_bytes("ü".encode("iso-8859-1"))
    assert file.load(str) == "ü"
