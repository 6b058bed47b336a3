"""``mqstore repair``: from a replica that sends its log as a master does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ..store.replica.replica_port import replica_of
from ..store.world import bodies_of, folder_contents, open_store
from .mqstore_world import MqStore, flip, offset_of, overwrite, small_store

LOG0, LOG1 = (f"commitlog/{start:020d}" for start in (0, 8192))


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """One that will be damaged, and its replica."""
    mine = small_store(tmp_path / "mine")
    shutil.copytree(mine, tmp_path / "theirs")
    return mine, tmp_path / "theirs"


DAMAGE: list[tuple[str, Callable[[Path], object], int]] = [
    ("a bit of a body", lambda root: flip(root / LOG0, offset_of(root, 5) + 120), 1),
    ("a bit of a size", lambda root: flip(root / LOG0, offset_of(root, 5) + 2), 1),
    ("a bit of a magic", lambda root: flip(root / LOG0, offset_of(root, 5) + 4), 1),
    ("the first record of all", lambda root: flip(root / LOG0, 100), 1),
    ("the first head of all", lambda root: overwrite(root / LOG0, 0, bytes(60)), 1),
    ("the first record of a file", lambda root: overwrite(root / LOG1, 2, b"\\xff" * 90), 1),
    ("a sector over several records", lambda root: overwrite(root / LOG0, 1024, bytes(1024)), 1),
    ("the size of a blank", lambda root: flip(root / LOG0, 7885), 1),
    ("the magic of a blank", lambda root: flip(root / LOG0, 7886), 1),
    (
        "two places",
        lambda root: (
            flip(root / LOG0, offset_of(root, 3) + 99),
            flip(root / LOG0, offset_of(root, 6) + 99),
        ),
        2,
    ),
]


@pytest.mark.parametrize(
    ("damage", "count"), [each[1:] for each in DAMAGE], ids=[each[0] for each in DAMAGE]
)
def test_what_is_damaged_is_as_it_was(
    mqstore: MqStore, stores: tuple[Path, Path], damage: Callable[[Path], object], count: int
) -> None:
    mine, theirs = stores
    damage(mine)
    assert folder_contents(mine) != folder_contents(theirs)
    assert mqstore("verify", str(mine)).code == 1
    with replica_of(theirs) as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address)
    assert (printed.code, printed.err) == (0, "")
    assert f"{count} damaged places mended, 0 left" in printed.out
    assert folder_contents(mine / "commitlog") == folder_contents(theirs / "commitlog")
    assert mqstore("verify", str(mine)).code == 0
    assert all(report > 0 for report in replica.reports), (
        "0 would ask a Java broker for its last file"
    )
    store = open_store(mine)
    assert len(bodies_of(store, "T", 0)) == 14
    store.close()


def test_what_a_full_disk_takes_in_parts_is_written_to_its_end(
    mqstore: MqStore, stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system call may write less than it was given, and say so."""
    mine, theirs = stores
    overwrite(mine / LOG0, 1024, bytes(1024))
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:100], at))
    with replica_of(theirs) as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address)
    assert "1 damaged places mended, 0 left" in printed.out
    assert folder_contents(mine / "commitlog") == folder_contents(theirs / "commitlog")
    assert mqstore("rebuild", mine, "--to", mine.with_name("copy")).code == 0
    assert folder_contents(mine.with_name("copy") / "commitlog") == folder_contents(
        theirs / "commitlog"
    )


def test_a_store_without_damage_asks_nobody(mqstore: MqStore, stores: tuple[Path, Path]) -> None:
    with replica_of(stores[1]) as replica:
        printed = mqstore("repair", str(stores[0]), "--from", replica.address)
    assert (printed.code, printed.out, replica.reports) == (
        0,
        "no record of the commit log is damaged\n",
        [],
    )


def test_what_the_replica_has_intact_of_a_stretch_is_mended(
    mqstore: MqStore, stores: tuple[Path, Path]
) -> None:
    """Both have lost power, say. What lies between two parts that both have damaged is told by what
    lies beyond them."""
    mine, theirs = stores
    first, second, third, stop = (offset_of(mine, number) for number in (4, 5, 6, 7))
    overwrite(mine / LOG0, first, bytes(stop - first))
    for begin in (first, third):
        flip(theirs / LOG0, begin + 120)
    with replica_of(theirs) as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address)
    assert printed.code == 1
    assert "1 damaged places mended, 2 left" in printed.out
    mended, *left = (f"bytes {begin}..{end - 1}: " for begin, end in (
        (second, third), (first, second), (third, stop)
    ))  # fmt: skip
    assert f"{mended}mended (" in printed.out
    for each in left:
        assert f"{each}not mended: the other replica has it damaged too" in printed.out
    size = third - second
    lost = [(mine / LOG0).read_bytes()[begin : begin + size] for begin in (first, third)]
    assert lost == [bytes(size)] * 2
    assert (mine / LOG0).read_bytes()[second:third] == (theirs / LOG0).read_bytes()[second:third]


def spoilt(at: int) -> Callable[[bytes], bytes]:
    return lambda log: log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]


@pytest.mark.parametrize(
    ("beside", "problem"),
    [
        (0, "the other replica has it damaged too"),
        (-100, "another head or other properties"),  # its number in the queue
        (-200, "its log is another one, or damaged there too"),
    ],
)
def test_what_does_not_prove_itself_is_not_written(
    mqstore: MqStore, stores: tuple[Path, Path], beside: int, problem: str
) -> None:
    mine, theirs = stores
    at = offset_of(mine, 5) + 120
    flip(mine / LOG0, at)
    before = folder_contents(mine)
    with replica_of(theirs, change=spoilt(at + beside)) as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address)
    assert printed.code == 1
    assert problem in printed.out
    assert "0 damaged places mended, 1 left" in printed.out
    assert folder_contents(mine) == before


def test_a_replica_that_is_not_there_or_behind(mqstore: MqStore, stores: tuple[Path, Path]) -> None:
    mine, theirs = stores
    flip(mine / LOG0, offset_of(mine, 5) + 120)
    with replica_of(theirs, change=lambda log: log[:1500]) as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address)
    assert (printed.code, "closes the connection" in printed.out) == (1, True)
    printed = mqstore("repair", str(mine), "--from", replica.address)
    assert (printed.code, "cannot be connected to" in printed.out) == (1, True)
    assert mqstore("repair", str(mine), "--from", "nowhere").code == 2
    assert mqstore("repair", str(mine)).code == 2


def test_a_running_broker_is_left_alone(mqstore: MqStore, stores: tuple[Path, Path]) -> None:
    store = open_store(stores[0])
    printed = mqstore("repair", str(stores[0]), "--from", "127.0.0.1:1")
    assert (printed.code, "is in use by another process" in printed.err) == (2, True)
    store.close()


@pytest.mark.parametrize(
    ("config", "code"),
    [("haSecret=sixteen-letters!\n", 0), ("haSecret=something-else-here\n", 1), ("", 1)],
)
def test_a_replica_that_asks_for_the_secret(
    mqstore: MqStore, stores: tuple[Path, Path], config: str, code: int
) -> None:
    mine, theirs = stores
    flip(mine / LOG0, offset_of(mine, 5) + 120)
    file = mine.parent / "broker.conf"
    file.write_text(config)
    with replica_of(theirs, secret=b"sixteen-letters!") as replica:
        printed = mqstore("repair", str(mine), "--from", replica.address, "--config", str(file))
    assert printed.code == code
    assert (
        mqstore("repair", str(mine), "--from", replica.address, "--config", str(mine / "none")).code
        == 2
    )
