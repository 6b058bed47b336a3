"""``mqstore`` and the stores of members of DLedger groups: the original's and ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ..golden_files import unpack_golden
from ..store.dledger.world import commit_all, leader, raft_of
from ..store.world import NOW, folder_contents, put_ok
from .mqstore_world import MqStore, flip, overwrite, verified

CLEAN = "clean: commit log, consume queues and index agree"


def golden_member(name: str, tmp_path: Path) -> Path:
    unpack_golden(f"dledger/store-{name}", tmp_path)
    return tmp_path / f"store-{name}"


@pytest.mark.parametrize(
    ("name", "judgement", "figures"),
    [
        ("group3-n0", "DAMAGED: 1 finding", "438 records, 210409 bytes of commit log (entries up "
         "to 437 in term 5); 438 entries in 25 consume queues; 586 items in 2 index files"),
        ("dirty-n1", CLEAN, "349 records, 185373 bytes of commit log (entries up to 348 in term 2);"
         " 344 entries in 23 consume queues; 741 items in 2 index files"),
        ("mixed-n0", CLEAN, "67 records, 136952 bytes of commit log (entries up to 24 in term 0); "
         "67 entries in 5 consume queues; 122 items in 1 index files"),
        ("begin-n2", CLEAN, "32 records, 129081 bytes of commit log (entries up to 61 in term 1); "
         "62 entries in 4 consume queues; 32 items in 1 index files"),
    ],
)  # fmt: skip
def test_members_of_the_original(
    mqstore: MqStore, tmp_path: Path, name: str, judgement: str, figures: str
) -> None:
    root = golden_member(name, tmp_path)
    printed = mqstore("verify", root)
    assert (printed.verdict, printed.err) == (judgement, "")
    assert printed.out.splitlines()[-1].startswith(figures)
    if name == "group3-n0":  # lost by its SIGKILL, and not made again
        assert printed.findings == [
            "index/20261123152544126: byte 0: 171 records from 132282 to 184031 have keys and no "
            "items"
        ]
    if name == "dirty-n1":
        assert printed.notes == [
            "dledger-n1: entries 344..348 are not committed as far as this member knows: the next "
            "leader confirms or replaces them"
        ]


def test_export_of_the_original(mqstore: MqStore, tmp_path: Path) -> None:
    """The older log and the entries behind it are one."""
    root = golden_member("mixed-n0", tmp_path)
    rows = [json.loads(line) for line in mqstore("cat", root).out.splitlines()]
    assert len(rows) == 67
    assert [row["phyOffset"] for row in rows] == sorted(row["phyOffset"] for row in rows)
    assert rows[42]["phyOffset"] == 131072 + 48
    exported = mqstore("export", root, tmp_path / "all.parquet")
    assert (exported.code, exported.out.startswith("67 messages in ")) == (0, True)


def member(root: Path, count: int = 40) -> Path:
    """A store of ours, closed in order, everything committed."""
    store = leader(root, term=3, max_hash_slot_num=20, max_index_num=80)
    for number in range(count):
        topic, queue_id = [("T", 0), ("T", 1), ("U", 0)][number % 3]
        body = b"message %d " % number + b"x" * 300
        properties = {"KEYS": f"key{number}", "UNIQ_KEY": f"id{number:04d}"}
        put_ok(store, topic, queue_id, body, properties=properties, store_timestamp=NOW + number)
        commit_all(store)
    store.close()
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return member(tmp_path / "store")


def test_a_member_of_ours(mqstore: MqStore, root: Path) -> None:
    printed = verified(mqstore, root)
    assert (printed.code, printed.findings, printed.notes) == (0, [], [])
    assert "(entries up to 39 in term 3); 40 entries in 3 consume queues" in printed.out
    info = json.loads(mqstore("info", root, "--json").out)
    assert info["dledger"] == {
        "folder": "dledger-n0", "term": 3, "votedFor": "n0", "committedIndex": 39, "endIndex": 39,
    }  # fmt: skip
    assert info["commitLog"]["lastStoreTimestamp"] == NOW + 39
    assert "committedIndex       39" in mqstore("info", root).out


def test_what_is_not_committed_is_in_no_queue(mqstore: MqStore, tmp_path: Path) -> None:
    store = leader(tmp_path)
    for number in range(9):
        put_ok(store, body=b"%d" % number, properties={"KEYS": "k"})
    raft_of(store).commit(5)
    store.close()
    printed = verified(mqstore, tmp_path)
    assert (printed.code, printed.verdict) == (0, CLEAN)
    assert printed.notes == [
        "dledger-n0: entries 6..8 are not committed as far as this member knows: the next leader "
        "confirms or replaces them"
    ]


def test_reading_begins_at_a_message(mqstore: MqStore, root: Path) -> None:
    rows = [
        json.loads(line)
        for line in mqstore("cat", root, "--topic=T", "--queue=1", "--from=9").out.splitlines()
    ]
    assert [row["queueOffset"] for row in rows] == [9, 10, 11, 12]
    late = mqstore("cat", root, f"--begin={NOW + 30}").out.splitlines()
    assert [json.loads(line)["storeTimestamp"] for line in late] == [*range(NOW + 30, NOW + 40)]


def data_file(root: Path, number: int = 0) -> Path:
    return sorted((root / "dledger-n0" / "data").iterdir())[number]


def unit(root: Path, index: int) -> tuple[Path, int]:
    return root / "dledger-n0" / "index" / f"{0:020d}", 32 * index


def test_a_log_elsewhere(mqstore: MqStore, root: Path, tmp_path: Path) -> None:
    """Its files tell that they hold entries."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(root / "dledger-n0" / "data", elsewhere)
    printed = mqstore("verify", root, "--commit-log", elsewhere)
    assert (printed.code, printed.verdict) == (0, CLEAN)
    assert "(entries up to 39 in term 3)" in printed.out


@pytest.mark.parametrize("older", [True, False], ids=["older log", "entries only"])
def test_a_log_elsewhere_that_nobody_names(
    mqstore: MqStore, root: Path, tmp_path: Path, older: bool
) -> None:
    """``storePathDLedgerCommitLog``: the folder of the member is there without its entries."""
    if older:
        root = golden_member("mixed-n0", tmp_path)
    shutil.move(root / "dledger-n0" / "data", tmp_path / "elsewhere")
    before = folder_contents(root)
    for command, option in (("rebuild", ()), ("mend", ()), ("repair", ("--from=localhost:1",))):
        printed = mqstore(command, root, *option)
        assert printed.code == 2
        assert "dledger-n0: is the log of a member of a DLedger group: " in printed.err
    for command, *file in (("info",), ("verify",), ("cat",), ("export", f"{tmp_path}/all")):
        printed = mqstore(command, root, *file)
        assert printed.err.startswith("mqstore: the entries of dledger-n0 are not here: ")
    assert folder_contents(root) == before
    assert "are not here" not in mqstore("cat", root, "--commit-log", tmp_path / "elsewhere").err


def test_several_members(mqstore: MqStore, root: Path) -> None:
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    printed = mqstore("verify", root)
    assert printed.code == 2
    assert "holds the logs of several members (dledger-n0, dledger-n1)" in printed.err
    assert mqstore("verify", root, "--commit-log", root / "dledger-n1" / "data").code == 0


@pytest.mark.parametrize(
    ("byte", "problem"),
    [
        (3, "the magic is 0x00000000, an entry has 1"),
        (15, "the entry has the index 8, 0 is next"),
        (35, "channel and CRCs of an entry are 0"),
        (31, "the entry says it is at 8, it is at 0"),
    ],
)
def test_a_damaged_head(mqstore: MqStore, root: Path, byte: int, problem: str) -> None:
    """Its message is lost, and nothing else."""
    flip(data_file(root), byte, bit=3 if byte in (15, 31) else 0)
    printed = verified(mqstore, root)
    lost = printed.findings[-1]
    if byte == 15:  # nobody knows what index the first one should have
        assert any("the entry has the index 1, 9 is next" in line for line in printed.findings)
        return
    assert lost.startswith("dledger-n0/data/00000000000000000000: byte ")
    assert f"record at 0: {problem}" in lost
    assert printed.code == 1


def test_a_damaged_body(mqstore: MqStore, root: Path) -> None:
    flip(data_file(root), 48 + 90)
    (finding,) = verified(mqstore, root).findings
    assert "record at 0: the body has the CRC" in finding


@pytest.mark.parametrize("byte", [16 + 7, 48 + 40 + 7])
def test_what_only_a_checksum_shows(mqstore: MqStore, root: Path, byte: int) -> None:
    """The term of an entry, the born time of its record."""
    flip(data_file(root), byte)
    *others, finding = verified(mqstore, root).findings
    assert finding.startswith("dledger-n0/checksums/00000000000000000000: byte 0: entry 0, at 0")
    assert "is not what it was when it was written" in finding
    checkpoint = root / "dledger-n0" / "checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("entryChecksums=1\n", ""))
    assert verified(mqstore, root).findings == others, "the original has written since"


def test_units_that_are_wrong(mqstore: MqStore, root: Path) -> None:
    path, at = unit(root, 5)
    overwrite(path, at, bytes(64))
    flip(*unit(root, 20), bit=1)
    printed = verified(mqstore, root)
    assert printed.findings == [
        "dledger-n0/index/00000000000000000000: byte 160: no unit for entries 5..6",
        "dledger-n0/index/00000000000000000000: byte 640: a unit that leads elsewhere for entry 20",
    ]
    assert printed.verdict.startswith("needs recovery: 2 findings")
    shutil.rmtree(root / "dledger-n0" / "index")
    assert verified(mqstore, root).findings == [
        "dledger-n0/index: byte 0: no unit for entries 0..39"
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("checkpoint", "committedIndex=50\nendIndex=50\n",
         "says that entries up to 50 are committed, the log ends with 39"),
        ("currterm", "voteLeader=n0\ncurrTerm=2\n",
         "says the term 2, the last entry has the term 3"),
        ("currterm", "", "is missing or not to be understood: what this member voted for is not "
         "known"),
    ],
)  # fmt: skip
def test_what_the_member_noted(
    mqstore: MqStore, root: Path, name: str, text: str, problem: str
) -> None:
    (root / "dledger-n0" / name).write_text(text)
    for suffix in (".bak", ".tmp"):
        (root / "dledger-n0" / f"{name}{suffix}").unlink(missing_ok=True)
    printed = verified(mqstore, root)
    assert printed.findings == [f"dledger-n0/{name}: byte 0: {problem}"]
    assert printed.verdict == "DAMAGED: 1 finding"


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("rebuild",), "move consumequeue/ and index/ away"),
        (("mend",), "move this folder away and start it"),
        (("repair", "--from=localhost:1"), "move this folder away and start it"),
    ],
)
def test_what_is_for_other_stores(
    mqstore: MqStore, root: Path, command: tuple[str, ...], advice: str
) -> None:
    printed = mqstore(command[0], root, *command[1:])
    assert printed.code == 2
    assert "is the log of a member of a DLedger group: " in printed.err
    assert advice in printed.err
