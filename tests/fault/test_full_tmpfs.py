"""A store on a full tmpfs: there even reading a hole of a file through its mapping takes a page; without one it is a SIGBUS.

In a process of its own, with a file system of its own (``unshare``), because the failure is the end of the process.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ..store.world import NOW, crash, open_store, put_ok

LOG_FILE, QUEUE_FILE = 1 << 20, 200_000
_CAN_MOUNT = "mount -t tmpfs -o size=1m tmpfs {0} && umount {0}"


@pytest.fixture(scope="module")
def mounting(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("mount")
    command = ["unshare", "-m", "sh", "-c", _CAN_MOUNT.format(path)]
    if shutil.which("unshare") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of one's own needs the right to mount")


OPEN = """
import logging, os, shutil, sys
from pathlib import Path
from tests.store.world import bodies_of, open_store
source, root = Path(sys.argv[1]), Path(sys.argv[2])
for path in sorted(source.rglob("*")):
    target = root / path.relative_to(source)
    if path.is_dir():
        target.mkdir()
        continue
    with path.open("rb") as old, target.open("wb") as new:
        for at in range(0, path.stat().st_size, 4096):
            page = old.read(4096)
            if page.count(0) != len(page):
                new.seek(at)
                new.write(page)
        new.truncate(path.stat().st_size)
with open(root.parent / "filler", "wb", buffering=0) as filler:
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError:
        pass
store = open_store(root, mapped_file_size_commit_log={log}, mapped_file_size_consume_queue={queue})
print(len(bodies_of(store)), store.message_by_offset({hole}), flush=True)
store._close_files()
"""


@pytest.mark.usefixtures("mounting")
@pytest.mark.parametrize("stop", ["clean stop", "kill", "kill with a checkpoint", "damaged"])
def test_a_start_touches_no_hole(tmp_path: Path, stop: str) -> None:
    """The log ends with a whole page, and so does its first file, behind which a blank leads on."""
    root = tmp_path / "store"
    files = {"mapped_file_size_commit_log": LOG_FILE, "mapped_file_size_consume_queue": QUEUE_FILE}
    store = open_store(root, message_index_enable=False, **files)
    head = put_ok(store).size - 4
    for end in (4096 * 3, 4096 * 200):  # the next record does not fit then
        put_ok(store, body=bytes([1]) * (end - store.max_phy_offset % LOG_FILE - head), store_timestamp=NOW)
    put_ok(store, body=b"x" * (LOG_FILE - 4096 * 150))
    put_ok(store, body=bytes([1]) * (4096 * 115 - store.max_phy_offset % LOG_FILE - head))
    assert store.max_phy_offset % 4096 == 0
    if stop == "kill with a checkpoint":
        store._flush.save()
    store.close() if stop == "clean stop" else crash(store)
    shutil.rmtree(root / "index", ignore_errors=True)
    if stop == "damaged":
        path = root / "commitlog" / ("0" * 20)
        data = path.read_bytes()
        path.write_bytes(data[:4096] + bytes(8) + data[4104:])
        (root / "queueends").unlink(missing_ok=True)
    script = textwrap.dedent(OPEN).format(log=LOG_FILE, queue=QUEUE_FILE, hole=4096 * 220)
    mount = f"mkdir -p {tmp_path}/disk && mount -t tmpfs -o size=4m tmpfs {tmp_path}/disk && mkdir {tmp_path}/disk/store"
    command = f'{mount} && exec "{sys.executable}" -X faulthandler -c "$SCRIPT" {root} {tmp_path}/disk/store'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env={"SCRIPT": script, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2], timeout=60,
    )  # fmt: skip
    if stop in ("kill", "damaged"):  # entries of queues have to be written, which takes space
        assert (done.returncode, done.stdout) == (1, "")
        assert "No space left on device" in done.stderr.splitlines()[-1]
    else:
        assert done.returncode == 0, done.stderr[:1500]
        assert done.stdout.split() == ["5", "None"]
