"""What is damaged is known to the next start as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.store.log.damage_file import NAME, DamageFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole

from ...fault.damage import flip
from ...fault.disks import BrokenDisk
from ...sim import told_of
from ..world import crash, open_store, put_ok


def pulled(store: MessageStore) -> int:
    """How far a consumer comes."""
    offset = 0
    while (found := store.get("T", 0, offset)).count:
        offset = found.next_begin_offset
    return offset


def test_it_says_what_was_saved_last(tmp_path: Path) -> None:
    disk = BrokenDisk()
    file = DamageFile(tmp_path, disk, told_of())
    assert file.load(0, 1 << 40) == {}
    file.save({})
    assert not file.path.exists()
    file.save({700: 80, 100: 90})
    assert file.path.read_text() == "100 90\n700 80\n"
    assert DamageFile(tmp_path, disk, told_of()).load(0, 1 << 40) == {100: 90, 700: 80}
    file.save({})
    assert not file.path.exists()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", {}),
        ("100 90\n7", {100: 90}),
        ("100 90\n\xff\x00 \nx y\n700 80", {100: 90, 700: 80}),
        ("-1 5\n99 1\n990 20\n100 0\n100 -3\n500 5", {500: 5}),
    ],
    ids=["empty", "cut", "garbled", "not in the log"],
)
def test_whatever_stands_in_it(tmp_path: Path, text: str, places: dict[int, int]) -> None:
    (tmp_path / NAME).write_text(text, "latin-1")
    file = DamageFile(tmp_path, BrokenDisk(), told_of())
    assert file.load(100, 1000) == places
    file.save({})
    assert not file.path.exists()


def test_where_it_cannot_be_written_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = BrokenDisk()
    disk.broken = True
    file = DamageFile(tmp_path, disk, told_of())
    file.save({100: 90})
    file.save({100: 90})
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("stops", [1, 2])
def test_a_start_after_the_next_crash_knows_it_too(tmp_path: Path, stops: int) -> None:
    """That one reads from the checkpoint on, behind what is damaged."""
    store = open_store(tmp_path)
    places = [put_ok(store, body=b"x" * 60).phy_offset for _ in range(30)]
    crash(store)
    flip(tmp_path, places[10] + 5)
    for _ in range(stops):
        crash(open_store(tmp_path, broker_role=BrokerRole.SLAVE))
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert store.recovery is not None
    assert store.recovery.start > places[10]
    assert list(store.damage.places) == [places[10]]
    store.damage.mend(places[10])
    store.close()
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert store.damage.places == {}
    store.close()


@pytest.mark.parametrize("role", [BrokerRole.SLAVE, BrokerRole.ASYNC_MASTER])
@pytest.mark.parametrize("at", [0, 7])
def test_what_is_whole_again_keeps_nobody_waiting(
    tmp_path: Path, role: BrokerRole, at: int
) -> None:
    """``mqstore repair`` was there; or the original, which cuts the log, and its records may lie
    otherwise (``at``)."""
    store = open_store(tmp_path)
    places = [put_ok(store, body=b"x" * 60).phy_offset for _ in range(30)]
    store.close()
    size = places[1]
    (tmp_path / NAME).write_text(f"{places[10] + at} {3 * size}\n{places[20] + at} {size}\n")
    store = open_store(tmp_path, broker_role=role)
    assert pulled(store) == 30
    assert not at or len(store.damage.places) == 2, "nothing tells that no record began there"
    assert at or store.damage.places == {}
    store.close()


def test_what_was_mended_before_a_kill_may_not_be_in_its_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    places = [put_ok(store, body=b"x" * 60).phy_offset for _ in range(30)]
    crash(store)
    size = places[1]
    for each in (10, 20):
        flip(tmp_path, places[each] + 5)
    open_store(tmp_path, broker_role=BrokerRole.SLAVE).close()
    flip(tmp_path, places[10] + 5)  # as it was
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert store.damage.places == {places[10]: size, places[20]: size}
    assert pulled(store) == 10
    store.mended(places[10], size)
    assert pulled(store) == 20
    store.close()


def test_what_a_start_finds_shorter_than_before_hides_nothing_behind_it(tmp_path: Path) -> None:
    """The rest was mended, and may have been killed before that got into its queues."""
    store = open_store(tmp_path)
    places = [put_ok(store, body=b"x" * 60).phy_offset for _ in range(30)]
    crash(store)
    size = places[1]
    for each in (10, 11, 20):
        flip(tmp_path, places[each] + 5)
    open_store(tmp_path, broker_role=BrokerRole.SLAVE).close()
    assert (tmp_path / NAME).read_text() == f"{places[10]} {2 * size}\n{places[20]} {size}\n"
    flip(tmp_path, places[11] + 5)
    store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert store.damage.places == {
        places[10]: size, places[11]: size, places[20]: size
    }  # fmt: skip
    store.close()
