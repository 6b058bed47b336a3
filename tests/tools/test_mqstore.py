"""What mqstore prints, reads and makes; damage is in test_mqstore_damage.py."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiorocketmq.store.log.log_reader import crc_engine
from aiorocketmq.tools.mqstore import parquet
from aiorocketmq.tools.mqstore.__main__ import _root
from tests.stored import StoreDirectory

from ..golden.captured_stores import GOLDEN, dumped_units, lines_of, queue_units
from ..store.world import NOW, crash, folder_contents, open_store, put_ok
from .mqstore_world import (
    ITEMS,
    SLOTS,
    MqStore,
    Printed,
    flip,
    golden_store,
    offset_of,
    overwrite,
    small_store,
    verified,
)

CLEAN = ["clean-master", "clean-slave", "ipv6-master"]


# -- verify


@pytest.mark.parametrize("name", CLEAN)
def test_stores_of_the_original_are_clean(mqstore: MqStore, name: str, tmp_path: Path) -> None:
    printed = verified(mqstore, golden_store(name, tmp_path))
    assert (printed.code, printed.findings, printed.notes) == (0, [], [])
    assert printed.verdict == "clean: commit log, consume queues and index agree"
    if name.startswith("clean"):
        assert "344 records, 255702 bytes" in printed.out
        assert "344 entries in 24 consume queues; 698 items in 2 index files" in printed.out
    assert "MiB/s" in printed.out
    assert printed.out.endswith(f"CRC by {crc_engine()}\n")


def test_a_killed_store_of_the_original_needs_recovery(mqstore: MqStore, tmp_path: Path) -> None:
    printed = verified(mqstore, golden_store("sigkill-master", tmp_path))
    assert printed.code == 1
    assert printed.findings == [
        "consumequeue/GoldKill/0/00000000000000006000: byte 1700: message 385 of the commit log "
        "(from 819740 on) "
        "has no entry, the queue ends at 385",
        "index/20261120220846172: byte 0: the record at 819740 has keys and no items",
    ]
    assert printed.verdict.startswith("needs recovery: 2 findings")


def test_our_own_store_is_clean(mqstore: MqStore, tmp_path: Path) -> None:
    printed = verified(mqstore, small_store(tmp_path / "store"))
    assert (printed.code, printed.findings, printed.notes) == (0, [], [])
    assert "40 records" in printed.out
    assert "40 entries in 3 consume queues; 80 items in 2 index files" in printed.out


def test_an_empty_store_is_clean(mqstore: MqStore, tmp_path: Path) -> None:
    open_store(tmp_path).close()
    assert verified(mqstore, tmp_path).code == 0


def test_without_the_extension_of_crcmod_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["crcmod.crcmod"], "_usingExtension", False)
    assert crc_engine() == "crcmod in pure Python"


def test_messages_of_the_schedule_topic_have_times_of_delivery(
    mqstore: MqStore, tmp_path: Path
) -> None:
    root = golden_store("clean-master", tmp_path)
    assert (
        mqstore(
            "verify",
            root,
            "--delay-levels",
            "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        ).code
        == 0
    )
    printed = mqstore("verify", root, "--delay-levels", "2s")
    assert printed.code == 1
    assert "SCHEDULE_TOPIC_XXXX" in printed.findings[0]
    assert "level 1 waits 2000 ms" in printed.out


# -- info


def test_info_tells_what_is_there(mqstore: MqStore, tmp_path: Path) -> None:
    root = golden_store("clean-master", tmp_path)
    found = json.loads(mqstore("info", root, "--json").out)
    assert (found["abortFile"], found["lockedByBroker"], found["problems"]) == (False, False, [])
    log = found["commitLog"]
    assert (log["fileSize"], log["minOffset"], log["maxOffset"], len(log["files"])) == (
        65536,
        0,
        255702,
        4,
    )
    queues = {
        (q["topic"], q["queueId"]): (q["minOffset"], q["maxOffset"], q["files"])
        for q in found["queues"]
    }
    assert len(queues) == 24
    assert queues["GoldRoll", 0] == (0, 260, 3)
    assert found["checkpoint"]["physicMsgTimestamp"] == log["lastStoreTimestamp"] == 1795212681754
    assert [(file["slots"], file["items"]) for file in found["index"]] == [(100, 399), (100, 299)]
    text = mqstore("info", root).out
    assert "commit log: 0..255702, files of 65536 bytes" in text
    assert "260 messages, 3 files of 2000 bytes" in text


def test_info_sees_the_abort_file(mqstore: MqStore, tmp_path: Path) -> None:
    assert "abort file: there" in mqstore("info", golden_store("sigkill-master", tmp_path)).out


# -- cat


def rows(printed: Printed) -> list[dict[str, object]]:
    return [json.loads(line) for line in printed.out.splitlines()]


def test_cat_prints_every_message_as_it_was_sent(mqstore: MqStore, tmp_path: Path) -> None:
    found = {
        row["offsetMsgId"]: row
        for row in rows(mqstore("cat", golden_store("clean-master", tmp_path)))
    }
    assert len(found) == 344
    compared = 0
    for sent in GOLDEN[0].manifest():
        if not sent.get("offsetMsgId") or "," in sent["offsetMsgId"]:
            continue
        row = found[sent["offsetMsgId"]]
        assert row["msgId"] == sent["msgId"]
        if "bodyCompressed" not in row:  # lz4 and zstandard are extras
            body = (
                str(row["body"]).encode()
                if "body" in row
                else base64.b64decode(str(row["bodyBase64"]))
            )
            assert hashlib.sha1(body).hexdigest() == sent["bodySha1"]
            compared += 1
    assert compared > 250


def test_cat_chooses(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    everything = rows(mqstore("cat", root))
    assert len(everything) == 40

    def chosen(*options: object) -> list[dict[str, object]]:
        printed = mqstore("cat", root, *options)
        assert (printed.code, printed.err) == (0, "")
        return rows(printed)

    assert chosen("--topic", "U") == [row for row in everything if row["topic"] == "U"]
    assert chosen("--topic", "T", "--queue", 1, "--from", 5) == [
        row
        for row in everything
        if (row["topic"], row["queueId"]) == ("T", 1) and int(str(row["queueOffset"])) >= 5
    ]
    assert chosen("--begin", NOW + 7, "--end", NOW + 30) == everything[7:31]
    assert chosen("--begin", "2023-11-14T22:13:20.038+00:00") == everything[38:]
    assert chosen("--limit", 3) == everything[:3]
    assert chosen("--limit", 0) == chosen("--topic", "nobody") == []


def test_cat_starts_at_the_entry_of_the_queue(mqstore: MqStore, tmp_path: Path) -> None:
    """What lies in front of it is not even read: damage there does not matter."""
    root = small_store(tmp_path / "store")
    overwrite(root / "commitlog" / f"{0:020d}", 0, bytes(5000))
    printed = mqstore("cat", root, "--topic", "U", "--queue", 0, "--from", 12)
    assert (printed.code, printed.err) == (0, "")
    assert [row["queueOffset"] for row in rows(printed)] == [12]
    printed = mqstore("cat", root, "--topic", "U", "--queue", 0)
    assert printed.code == 1
    assert "zeros where a record should begin" in printed.err


def test_bodies_that_are_no_text_are_base64(mqstore: MqStore, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, body="käse".encode())
    put_ok(store, body=b"\xff\x00")
    put_ok(store, body=b"not compressed at all", sys_flag=0x301)
    store.close()
    text, binary, broken = rows(mqstore("cat", tmp_path))
    assert text["body"] == "käse"
    assert (binary["bodyBase64"], "body" in binary) == ("/wA=", False)
    assert (broken["bodyBase64"], broken["bodyCompressed"]) == (
        base64.b64encode(b"not compressed at all").decode(),
        True,
    )


def test_what_is_printed_as_json_steers_no_terminal(mqstore: MqStore, tmp_path: Path) -> None:
    store, said = open_store(tmp_path), "käse \x1b[2J\x7f\x9b\u202e"
    put_ok(store, body=said.encode(), properties={"TAGS": said})
    store.close()
    (line,) = mqstore("cat", tmp_path, "--json").out.splitlines()
    assert line.isprintable()
    assert "käse" in line
    assert (json.loads(line)["body"], json.loads(line)["tags"]) == (said, said)


@pytest.mark.parametrize(("command", "expected"), [("cat", "message 5"), ("verify", "clean: ")])
def test_on_a_terminal(command: str, expected: str, tmp_path: Path) -> None:
    """A table and a progress bar; the bar is gone at the end."""
    root = small_store(tmp_path / "store")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    arguments = [sys.executable, "-m", "aiorocketmq.tools.mqstore", command, str(root)]
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = io.BytesIO()
        while True:
            try:
                shown.write(os.read(ours, 65536))
            except OSError:  # the other side is closed
                break
    os.close(ours)
    assert process.returncode == 0
    assert expected in shown.getvalue().decode()


# -- export


def test_export_writes_parquet(mqstore: MqStore, tmp_path: Path) -> None:
    reader = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed: pip install aiorocketmq[arrow]"
    )
    root, file = small_store(tmp_path / "store"), tmp_path / "messages.parquet"
    before = folder_contents(root)
    printed = mqstore("export", root, file, "--topic", "T")
    assert (printed.code, printed.out) == (0, f"27 messages in {file}\n")
    assert folder_contents(root) == before
    table = reader.read_table(file)
    assert table.num_rows == 27
    row = table.to_pylist()[1]
    assert (row["topic"], row["queue_id"], row["queue_offset"], row["keys"], row["tags"]) == (
        "T",
        1,
        0,
        ["key1"],
        "tag1",
    )
    assert dict(row["properties"]) == {"KEYS": "key1", "UNIQ_KEY": "id0001", "TAGS": "tag1"}
    assert row["body"].startswith(b"message 1 x")
    assert row["store_timestamp"].timestamp() * 1000 == pytest.approx(NOW + 1)
    assert (row["msg_id"], len(row["offset_msg_id"])) == ("id0001", 32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["messages.parquet", "store"]


@pytest.mark.parametrize("number", [20, 39])
def test_a_damaged_body_is_no_message(mqstore: MqStore, tmp_path: Path, number: int) -> None:
    """In the middle, and where the log ends."""
    pq = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed: pip install aiorocketmq[arrow]"
    )
    root, table = small_store(tmp_path / "store"), tmp_path / "messages.parquet"
    phy_offset = offset_of(root, number)
    flip(root / "commitlog" / f"{phy_offset // 8192 * 8192:020d}", phy_offset % 8192 + 120)
    cat, export = mqstore("cat", root), mqstore("export", root, table)
    assert (cat.code, export.code, cat.err) == (1, 1, export.err)
    assert f"record at {phy_offset}: the body has the CRC" in cat.err
    expected = [each for each in range(40) if each != number]
    rows = [json.loads(line) for line in cat.out.splitlines()]
    assert [int(row["msgId"].removeprefix("id")) for row in rows] == expected
    rows = pq.read_table(table).to_pylist()
    assert [int(row["msg_id"].removeprefix("id")) for row in rows] == expected


def test_export_without_pyarrow_says_how_to_get_it(
    mqstore: MqStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    printed = mqstore("export", small_store(tmp_path / "store"), tmp_path / "file")
    assert (printed.code, printed.out) == (2, "")
    assert printed.err == f"mqstore: {parquet.PyarrowMissing()}\n"
    assert "pip install 'aiorocketmq[arrow]'" in printed.err
    assert not (tmp_path / "file").exists()


# -- rebuild


@pytest.mark.parametrize("name", [*CLEAN, "sigkill-master"])
def test_a_rebuilt_copy_has_the_queues_of_the_original(
    mqstore: MqStore, name: str, tmp_path: Path
) -> None:
    root, copy = golden_store(name, tmp_path), tmp_path / "copy"
    before = folder_contents(root)
    printed = mqstore("rebuild", root, "--to", copy)
    assert (printed.code, printed.err) == (0, "")
    assert folder_contents(root) == before
    expected = "store-sigkill-after-recovery" if name.startswith("sigkill") else f"store-{name}"
    assert sorted(queue_units(copy)) == dumped_units(lines_of(f"{expected}.dump"))
    if not name.startswith("sigkill"):  # byte by byte, and the log with them
        after = folder_contents(copy)
        assert {n: d for n, d in after.items() if not n.startswith(("index/", "lock"))} == {
            n: d for n, d in before.items() if not n.startswith(("index/", "lock"))
        }
    assert verified(mqstore, copy).code == 0


def test_a_copy_keeps_when_its_files_were_written(mqstore: MqStore, tmp_path: Path) -> None:
    root, copy = small_store(tmp_path / "store"), tmp_path / "copy"
    (root / "config").mkdir()
    tables = ("lmqConsumerOffset.json", "consumerOffset.json")
    for age, name in enumerate(tables, 1):
        (root / "config" / name).write_text("{}")
        os.utime(root / "config" / name, (age, age))
    assert mqstore("rebuild", root, "--to", copy).code == 0
    assert [(copy / "config" / name).stat().st_mtime for name in tables] == [1, 2]


def test_what_is_made_anew_is_for_nobody_who_may_not_enter_the_store(
    mqstore: MqStore, tmp_path: Path
) -> None:
    root, copy = small_store(tmp_path / "store"), tmp_path / "copy"
    root.chmod(0o700)
    for options in (("--to", copy), ()):
        assert mqstore("rebuild", root, "--slots", SLOTS, "--items", ITEMS, *options).code == 0
    folders = (copy, root / "consumequeue", root / "index")
    made = [copy, *(path for folder in folders for path in folder.rglob("*") if path.is_file())]
    assert len(made) > 10
    assert {path.stat().st_mode & 0o077 for path in made} == {0}


def test_rebuild_in_the_directory_itself(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = folder_contents(root)
    for queue in (root / "consumequeue" / "T", root / "index"):
        shutil.rmtree(queue)
    overwrite(root / "consumequeue" / "U" / "0" / f"{0:020d}", 0, b"\x01" * 60)
    assert verified(mqstore, root).code == 1
    printed = mqstore("rebuild", root, "--slots", SLOTS, "--items", ITEMS)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out == "rebuilt from 40 records: 40 entries in 3 consume queues, 2 index files\n"
    after = folder_contents(root)
    assert {n: d for n, d in after.items() if not n.startswith("index")} == {
        n: d for n, d in before.items() if not n.startswith("index")
    }
    assert [d for n, d in after.items() if n.startswith("index")] == [
        d for n, d in before.items() if n.startswith("index")
    ]
    assert verified(mqstore, root).code == 0


def test_rebuild_leaves_the_index_alone_when_told(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = folder_contents(root)
    assert mqstore("rebuild", root, "--no-index").code == 0
    assert folder_contents(root) == before


def test_rebuild_passes_over_damage_and_says_so(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    overwrite(root / "commitlog" / f"{0:020d}", 4, b"\0")
    printed = mqstore("rebuild", root)
    assert printed.code == 1
    assert printed.out.startswith("commitlog: 0..")
    assert "rebuilt from 39 records" in printed.out


def test_rebuild_refuses_to_copy_onto_something(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    for target in (root, root / "inside", tmp_path):
        printed = mqstore("rebuild", root, "--to", target)
        assert (printed.code, printed.out) == (2, "")
        assert printed.err.count("\n") == 1


def test_a_running_broker_is_respected(mqstore: MqStore, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = folder_contents(root)
    code = (
        "import sys; from pathlib import Path; from aiorocketmq.store.disk.lock_file import "
        "LockFile\n"
        "lock = LockFile(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); "
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(root / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert StoreDirectory(root).is_locked
        printed = mqstore("rebuild", root)
        assert (printed.code, printed.out) == (2, "")
        assert "is in use by another process" in printed.err
        printed = mqstore("verify", root)
        assert printed.code == 0
        assert "a broker has this store open" in printed.err
        assert "lock: held by a running broker" in mqstore("info", root).out
        assert folder_contents(root) == before
    assert not StoreDirectory(root).is_locked


def test_a_store_that_was_killed_needs_recovery_until_it_is_opened(
    mqstore: MqStore, tmp_path: Path
) -> None:
    store = open_store(tmp_path, max_hash_slot_num=SLOTS, max_index_num=ITEMS)
    for number in range(5):
        put_ok(store, body=b"x", properties={"KEYS": f"k{number}"}, store_timestamp=NOW + number)
    crash(store)
    unit = (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 80)
    overwrite(*unit, bytes(20))
    printed = verified(mqstore, tmp_path)
    assert printed.code == 1
    assert printed.verdict.startswith("needs recovery: ")
    open_store(tmp_path, max_hash_slot_num=SLOTS, max_index_num=ITEMS).close()
    assert verified(mqstore, tmp_path).code == 0


# -- the command line


@pytest.mark.parametrize("command", ["info", "cat", "verify", "rebuild"])
def test_a_directory_that_is_no_store_is_refused_in_one_line(
    mqstore: MqStore, command: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    for directory in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        printed = mqstore(command, directory)
        assert (printed.code, printed.out) == (2, "")
        assert printed.err.startswith("mqstore: ")
        assert printed.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "--begin", "yesterday"],
        ["cat", "--queue", "-1"],
        ["verify", "--delay-levels", "1y"],
        ["boil"],
        ["info"],
    ],
)
def test_wrong_command_lines(mqstore: MqStore, arguments: list[str], tmp_path: Path) -> None:
    directory = [] if arguments == ["info"] else [str(small_store(tmp_path / "store", 1))]
    printed = mqstore(*arguments[:1], *directory, *arguments[1:])
    assert (printed.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert printed.err.endswith(
        " -h shows the options)\n" if arguments != ["boil"] else "(mqstore -h shows the commands)\n"
    )


def test_a_reader_that_goes_away_is_no_damage(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "aiorocketmq.tools.mqstore",
        "cat",
        str(small_store(tmp_path / "store")),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(60) == 0


def test_no_command_at_all(mqstore: MqStore) -> None:
    assert mqstore() == mqstore("--help")


@pytest.mark.parametrize("name", sorted(_root.commands))
def test_a_slip_in_the_options_of_a_command(mqstore: MqStore, name: str) -> None:
    printed = mqstore(name, "--no-such-option")
    assert (printed.code, printed.out) == (2, "")
    assert "No such option '--no-such-option'" in printed.err


def test_help(mqstore: MqStore) -> None:
    for command in ("info", "cat", "verify", "rebuild", "export"):
        assert command in mqstore("--help").out
        assert mqstore(command, "-h").out.startswith(f"Usage: mqstore {command} ")
