"""Damage of every kind: ``verify`` names file, byte and what is wrong, nothing raises, nothing is
written."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record import Records

from ..store.world import bodies_of, folder_contents, open_store, put_ok
from .damage_cases import CASES, LOG0, LOG1, RECORD, Case
from .mqstore_world import MqStore, flip, golden_store, offset_of, overwrite, small_store, verified


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_store(tmp_path_factory.mktemp("intact") / "store")


@pytest.fixture
def root(intact: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(intact, tmp_path / "store")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_is_named(mqstore: MqStore, root: Path, case: Case) -> None:
    case.damage(root)
    printed = verified(mqstore, root)
    assert sorted(printed.findings) == sorted(case.findings)
    assert sorted(printed.notes) == sorted(case.notes)
    assert printed.code == bool(printed.findings)
    count = len(printed.findings)
    assert printed.verdict == (
        f"DAMAGED: {count} finding{'s' if count > 1 else ''}"
        if count
        else "clean: commit log, consume queues and index agree"
    )


def test_whatever_wrote_the_log_verify_reads_it_without_leaves(
    mqstore: MqStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a leaf is asked")

    for leaf in ("scan_columns", "stretch_columns"):
        monkeypatch.setattr(sys.modules[Records.__module__], leaf, refuse)
    assert verified(mqstore, root).findings == []
    CASES[0].damage(root)
    assert verified(mqstore, root).findings == CASES[0].findings


def test_the_record_that_cases_are_about(intact: Path) -> None:
    assert offset_of(intact, 5) == RECORD


def test_the_queue_of_a_deleted_topic_is_not_missed(mqstore: MqStore, root: Path) -> None:
    """Records stay in the log when their topic is deleted."""
    shutil.rmtree(root / "consumequeue" / "U")
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{}}}')
    printed = verified(mqstore, root)
    assert (printed.code, printed.findings) == (0, [])
    assert printed.notes == [
        "consumequeue/U: is not there and nor is the topic in config/topics.json: it was deleted"
    ]


def test_records_that_have_expired_are_not_missed(mqstore: MqStore, root: Path) -> None:
    (root / LOG0).unlink()
    printed = verified(mqstore, root)
    assert (printed.code, printed.findings, printed.notes) == (0, [], [])
    assert '"minOffset":6,' in mqstore("info", root, "--json").out


def test_control_characters_of_a_damaged_file_do_not_reach_the_terminal(
    mqstore: MqStore, root: Path
) -> None:
    overwrite(root / LOG0, RECORD + 399, b"\x1b")
    printed = verified(mqstore, root)
    assert printed.code == 1
    assert "\\x1b" in printed.out
    assert "\x1b" not in printed.out


@pytest.mark.parametrize("bit", [0, 7])
def test_every_byte_of_a_record_that_is_covered(mqstore: MqStore, root: Path, bit: int) -> None:
    """All but flag, sysFlag, hosts, times and counters, of which nothing else in the store
    knows."""
    unknown = {*range(16, 20), *range(36, 40), *range(40, 84)}
    silent = set()
    for byte in (*range(100), *range(100, 395, 59), *range(395, 437)):
        flip(root / LOG0, RECORD + byte, bit)
        if mqstore("verify", root).code == 0:
            silent.add(byte)
        flip(root / LOG0, RECORD + byte, bit)
    assert silent <= unknown


@pytest.mark.parametrize("seed", range(12))
def test_arbitrary_damage_never_raises_and_nothing_is_written(
    mqstore: MqStore, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    root = golden_store(chance.choice(["clean-master", "ipv6-master", "sigkill-master"]), tmp_path)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in chance.sample(files, min(8, len(files))):
        spoil(path, chance)
    before = folder_contents(root)
    for command in (
        ["verify"],
        ["info"],
        ["info", "--json"],
        ["cat"],
        ["cat", "--topic", "GoldRoll", "--queue", "0", "--from", "99", "--limit", "5"],
        ["rebuild", "--to", str(tmp_path / "copy")],
    ):
        printed = mqstore(command[0], root, *command[1:])
        assert printed.code in (0, 1, 2)
        assert "Traceback" not in printed.out + printed.err
    assert folder_contents(root) == before


def spoil(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data)) if data else 0
    match chance.choice(["bit", "cut", "zeros", "noise", "longer", "gone"]):
        case "bit" if data:
            data[at] ^= 1 << chance.randrange(8)
        case "cut":
            del data[at:]
        case "zeros":
            data[at : at + 500] = bytes(len(data[at : at + 500]))
        case "noise":
            data[at : at + 50] = chance.randbytes(len(data[at : at + 50]))
        case "longer":
            data += chance.randbytes(30)
        case "gone":
            path.unlink()
            return
        case _:  # one bit of nothing
            pass
    path.write_bytes(data)


@pytest.mark.parametrize("damage", ["cut", "zeros", "a bit"])
def test_queueends_that_is_damaged(tmp_path: Path, mqstore: MqStore, damage: str) -> None:
    path = small_store(tmp_path) / "queueends"
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:100],
            "zeros": bytes(len(data)),
            "a bit": data[:60] + bytes([data[60] ^ 1]) + data[61:],
        }[damage]
    )
    printed = verified(mqstore, tmp_path)
    assert printed.findings == [
        "queueends: byte 0: is damaged: the next start reads the entries of all consume queues"
    ]


@pytest.mark.parametrize("lost", ["consumequeue/T/1", "consumequeue/T", "consumequeue"])
def test_a_queue_of_which_nothing_is_left_not_even_its_messages(
    tmp_path: Path, mqstore: MqStore, lost: str
) -> None:
    """The log has lost them too, so only ``queueends`` tells."""
    small_store(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{},"U":{}}}')
    (tmp_path / LOG0).unlink()
    (tmp_path / LOG1).unlink()
    shutil.rmtree(tmp_path / lost)
    printed = verified(mqstore, tmp_path)
    told = [line for line in printed.findings if line.startswith("consumequeue/T/1")]
    assert told, printed.out


def test_rebuild_keeps_numbers_of_which_the_log_knows_nothing(
    tmp_path: Path, mqstore: MqStore
) -> None:
    small_store(tmp_path, 20)
    data = (tmp_path / LOG0).read_bytes()
    end = data.rindex(b"message 17")  # the last one of U
    start = data.rindex(b"\xda\xa3\x20\xa7", 0, end) - 4
    (tmp_path / LOG0).write_bytes(data[:start] + bytes(200) + data[start + 200 :])
    shutil.rmtree(tmp_path / "consumequeue/U")
    assert mqstore("rebuild", tmp_path).code == 1
    assert not (tmp_path / "queueends").exists()
    store = open_store(tmp_path)
    assert (len(bodies_of(store, "U")), store.max_offset("U", 0)) == (5, 6)
    store.close()


def test_a_sector_of_zeros_in_properties_is_damage_as_it_is_for_a_start(
    tmp_path: Path, mqstore: MqStore
) -> None:
    store = open_store(tmp_path)
    for number in range(3):
        put_ok(
            store, body=b"%d" % number, properties={"KEYS": "k", "TAGS": "t", "long": "x" * 1500}
        )
    store.close()
    path = tmp_path / LOG0
    victim = 1024 + 1024
    overwrite(path, victim, bytes(512))
    printed = verified(mqstore, tmp_path)
    (told,) = printed.findings
    assert told.startswith(f"{LOG0}: byte {victim}: record at ")
    assert "zeros in its properties" in told
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "abort").touch()
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert len(store.recovery.damaged) == 1
    store.close()
