"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.daemon.persist import backup_of, read_file, replace_file
from aiorocketmq.remoting.file_mode import FileMode, files_are


def test_the_new_content_is_there_and_the_old_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "kvConfig.json"
    replace_file(path, "one")
    assert read_file(path) == "one"
    assert not backup_of(path).exists()
    replace_file(path, "zwei ü")
    replace_file(str(path), "three")
    assert read_file(path) == "three"
    assert backup_of(path).read_bytes() == "zwei ü".encode()
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "kvConfig.json",
        "kvConfig.json.bak",
    ]


def test_a_crash_before_the_rename_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_kept_and_is_that_of_the_backup_too(tmp_path: Path, mode: int) -> None:
    path, leftover = tmp_path / "broker.conf", tmp_path / "broker.conf.tmp"
    path.write_text("one")
    path.chmod(mode)
    backup_of(path).write_text("older")
    backup_of(path).chmod(0o666)
    leftover.write_text("of a crash")
    for text in ("two", "three"):
        replace_file(path, text)
        assert [mode_of(path), mode_of(backup_of(path))] == [mode, mode]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("one")
    os.chown(path, 4711, 4712)
    replace_file(path, "two")
    assert [(each.stat().st_uid, each.stat().st_gid) for each in (path, backup_of(path))] == [
        (4711, 4712)
    ] * 2


@pytest.mark.parametrize(
    ("wanted", "umask", "file", "folder"),
    [
        (FileMode.OWNER, 0o022, 0o600, 0o700),
        (FileMode.GROUP_READS, 0o022, 0o640, 0o750),
        (FileMode.GROUP_WRITES, 0o002, 0o660, 0o770),
        (FileMode.ALL_READ, 0o000, 0o644, 0o755),
        (FileMode.ALL_READ, 0o077, 0o600, 0o700),
    ],
)
def test_new_files_are_as_strict_as_the_stricter_of_property_and_umask(
    tmp_path: Path, wanted: FileMode, umask: int, file: int, folder: int
) -> None:
    before = os.umask(umask)
    try:
        with files_are(wanted):
            replace_file(tmp_path / "config" / "topics.json", "{}")
        assert os.umask(umask) == umask, "as before"
    finally:
        os.umask(before)
    assert (mode_of(tmp_path / "config" / "topics.json"), mode_of(tmp_path / "config")) == (
        file,
        folder,
    )
