"""A store directory that is not what it should be: one clear error, nothing lost, nothing deleted,
nothing changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiorocketmq.store.inspect import StoreDirectory
from aiorocketmq.store.model.errors import StoreFileError

from ..store.world import bodies_of, folder_contents, open_store, put_ok

LOG_FILE = 8192
NOBODY = 65534


def filled(root: Path) -> list[bytes]:
    """A store with several files of both kinds, stopped in order."""
    store = open_store(root)
    bodies = [b"%d-" % number + bytes(400) for number in range(60)]
    for body in bodies:
        put_ok(store, body=body)
    store.close()
    return bodies


def foreign_log_file(root: Path) -> Path:
    path = root / "commitlog" / "notes.txt"
    path.write_text("mine")
    return path


def foreign_folder(root: Path) -> Path:
    path = root / "commitlog" / ("9" * 20)
    path.mkdir()
    return path


def foreign_topic(root: Path) -> Path:
    path = root / "consumequeue" / "backup.tar"
    path.write_text("mine")
    return path


def short_log_file(root: Path) -> Path:
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    os.truncate(path, 5000)
    return path


def long_log_file(root: Path) -> Path:
    path = root / "commitlog" / ("0" * 20)
    os.truncate(path, LOG_FILE + 1)
    return path


def short_queue_files(root: Path) -> Path:
    """One would be damage, made again from the commit log; all of them are another
    configuration."""
    (root / "queueends").unlink()
    first, *others = sorted((root / "consumequeue/T/0").iterdir())
    for path in (first, *others):
        os.truncate(path, 120)
    return first


def hole(root: Path) -> Path:
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    path.rename(root / "moved")
    return path


def odd_name(root: Path) -> Path:
    path = root / "commitlog" / ("0" * 20)
    return path.rename(path.with_name(f"{1:020d}"))


WRONG = [
    (foreign_log_file, "is not a file of the store"),
    (foreign_folder, "is not a file of the store"),
    (foreign_topic, "is not a folder of a topic"),
    (short_log_file, "is 5000 bytes long but the configured file size is 8192"),
    (long_log_file, "is 8193 bytes long but the configured file size is 8192"),
    (short_queue_files, "is 120 bytes long but the configured file size is 200"),
    (hole, "is missing between"),
    (odd_name, "has a name that is not a multiple of the file size"),
]


@pytest.mark.parametrize(("damage", "problem"), WRONG, ids=[damage.__name__ for damage, _ in WRONG])
def test_what_does_not_belong_there_is_named_and_nothing_is_touched(
    tmp_path: Path, damage: Callable[[Path], Path], problem: str
) -> None:
    filled(tmp_path)
    path = damage(tmp_path)
    before = folder_contents(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreFileError, match=f"{path.name}.*{problem}"):
            open_store(tmp_path)
        assert folder_contents(tmp_path) == before


@pytest.mark.parametrize(
    ("damage", "problem"), [WRONG[0], WRONG[3], WRONG[6]], ids=["foreign", "short", "hole"]
)
def test_the_broker_says_so_in_one_line(
    tmp_path: Path, damage: Callable[[Path], Path], problem: str
) -> None:
    root = tmp_path / "store"
    filled(root)
    path = damage(root)
    before = folder_contents(root / "commitlog")
    command = [
        sys.executable, "-m", "aiorocketmq.broker", "--listenPort=0", f"--storePathRootDir={root}",
        f"--mappedFileSizeCommitLog={LOG_FILE}", "--mappedFileSizeConsumeQueue=200",
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(tmp_path), "ROCKETMQ_HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert str(path) in last
    assert problem in last
    assert "Traceback" not in done.stderr
    assert folder_contents(root / "commitlog") == before


@pytest.mark.parametrize(
    "name",
    [b"T/4294967295", b"T/9999999999", b"x" * 140 + b"/0", b"\xff\xfe/0"],
    ids=["beyond-32-bits", "ten-digits", "long-topic", "not-utf-8"],
)
def test_what_cannot_be_a_queue_is_left_alone(
    tmp_path: Path, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a version 5 with a longer name, or somebody's copy."""
    bodies = filled(tmp_path)
    for kind in ("consumequeue", "consumequeue_ext"):
        path = tmp_path / kind / os.fsdecode(name)
        shutil.copytree(tmp_path / "consumequeue/T/0", path)
    before = len(os.listdir(path))
    store = open_store(tmp_path, enable_consume_queue_ext=True)
    assert sum("no queue of a topic, left alone" in line for line in caplog.messages) == 1
    assert bodies_of(store) == bodies
    store.close()
    assert len(os.listdir(path)) == before


@pytest.mark.parametrize("place", ["commitlog", "consumequeue", "consumequeue_ext"])
def test_what_a_file_system_keeps_for_itself_is_left_alone(shared_path: Path, place: str) -> None:
    """Each may be a disk of its own; only root may look into that folder, and it cannot be moved
    away."""
    root = shared_path / "store"
    with as_nobody() if os.geteuid() != 0 else contextlib.nullcontext():
        bodies = filled(root)
    (root / place).mkdir(exist_ok=True)
    give_away(root)
    (root / place / "lost+found").mkdir(mode=0o000)
    with as_nobody():
        store = open_store(root, enable_consume_queue_ext=True)
        assert bodies_of(store) == bodies
        store.close()
        seen = StoreDirectory(root)
        assert seen.log_files().problems == []
        assert list(seen.foreign_queues()) == []


# -- permissions


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may do anything: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """A folder that everybody may enter, which those of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="aiorocketmq-test-"))
    path.chmod(0o755)
    yield path
    for folder in (path, *path.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)
    shutil.rmtree(path)


def give_away(root: Path) -> None:
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "place",
    ["commitlog", "commitlog/" + "0" * 20, "consumequeue/T/0", "lock", "checkpoint", "abort"],
)
def test_permission_denied(shared_path: Path, place: str) -> None:
    root = shared_path / "store"
    with as_nobody() if os.geteuid() != 0 else contextlib.nullcontext():
        bodies = filled(root)
    (root / "abort").touch()
    give_away(root)
    before = folder_contents(root)
    mode = (root / place).stat().st_mode
    (root / place).chmod(0)
    with as_nobody():
        if place == "abort":  # it is there, and that is all it says
            store = open_store(root)
            assert bodies_of(store) == bodies
            store.close()
            return
        with pytest.raises(StoreFileError, match=f"{place}.*Permission denied"):
            open_store(root)
    (root / place).chmod(mode)
    assert folder_contents(root) == before
    with as_nobody():
        store = open_store(root)
        assert bodies_of(store) == bodies
        store.close()


def test_a_folder_that_cannot_be_written_to(shared_path: Path) -> None:
    root = shared_path / "store"
    root.mkdir(mode=0o555)
    give_away(root)
    with (
        as_nobody(),
        pytest.raises(StoreFileError, match="store/commitlog: cannot be made: Permission denied"),
    ):
        open_store(root)
    assert list(root.iterdir()) == []
