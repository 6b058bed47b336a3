"""Which files go when: no disk, no clock."""

from __future__ import annotations

import pytest

from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.errors import StoreConfigError
from aiorocketmq.store.services.retention import DiskUse, Rules, Space, delete_hours

HOUR = 3_600_000
NOW = 1_700_000_000_000


def rules(**changes: object) -> Rules:
    return Rules.of(MessageStoreConfig(**changes))  # type: ignore[arg-type]


def use(commit_log: float, consume_queue: float = 0.5) -> DiskUse:
    return DiskUse(commit_log, consume_queue, 0.5)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("04", {4}), ("4", {4}), ("04;16", {4, 16}), (" 0 ; 23 ;", {0, 23}), ("7;7", {7})],
)
def test_hours(text: str, hours: set[int]) -> None:
    assert delete_hours(text) == hours


@pytest.mark.parametrize("text", ["", ";", "24", "four", "4,16", "-1", "04:00", "²", "4" * 5000])
def test_hours_that_are_none_are_named(text: str) -> None:
    with pytest.raises(StoreConfigError, match=r"deleteWhen=.*expected hours of the day"):
        delete_hours(text)


@pytest.mark.parametrize(
    ("ratio", "space"),
    [
        (-1.0, Space.SCARCE),  # nobody knows
        (0.0, Space.ENOUGH),
        (0.75, Space.ENOUGH),
        (0.76, Space.SCARCE),
        (0.85, Space.SCARCE),
        (0.86, Space.URGENT),
        (0.90, Space.URGENT),
        (0.91, Space.FULL),
        (1.0, Space.FULL),
    ],
)
def test_the_ladder(ratio: float, space: Space) -> None:
    assert rules().space(use(ratio)) is space
    if ratio >= 0:
        assert rules().space(use(0.5, ratio)) is space


def test_the_scarcer_disk_counts() -> None:
    """Queues may have a disk of their own: full, it takes no message whatever the log has."""
    for log in (0.5, 0.80, 0.88):
        assert rules().space(use(log, 0.99)) is rules().space(use(0.99, log)) is Space.FULL
    assert rules().space(use(0.80, 0.88)) is Space.URGENT
    assert rules().space(use(0.88, 0.80)) is Space.URGENT


@pytest.mark.parametrize(
    ("percent", "limit"), [(-5, 0.10), (0, 0.10), (10, 0.10), (50, 0.50), (95, 0.95), (100, 0.95)]
)
def test_disk_max_used_space_ratio_is_kept_between_10_and_95(percent: int, limit: float) -> None:
    assert rules(disk_max_used_space_ratio=percent).scarce == limit


def test_other_limits() -> None:
    own = rules(
        disk_max_used_space_ratio=10,
        disk_space_clean_forcibly_ratio=20,
        disk_space_warning_level_ratio=30,
    )
    assert [own.space(use(ratio, 0.0)) for ratio in (0.1, 0.2, 0.3, 0.31)] == [
        Space.ENOUGH,
        Space.SCARCE,
        Space.URGENT,
        Space.FULL,
    ]
    never = rules(disk_space_warning_level_ratio=100)
    assert never.space(use(1.0)) is Space.URGENT


@pytest.mark.parametrize("hour", range(24))
def test_when(hour: int) -> None:
    own = rules(delete_when="04;16")
    assert own.due(hour, Space.ENOUGH, manual=False) is (hour in (4, 16))
    assert own.due(hour, Space.ENOUGH, manual=True)
    assert own.due(hour, Space.SCARCE, manual=False)


def test_age() -> None:
    own = rules(file_reserved_time=72)
    assert own.expired(NOW - 72 * HOUR, NOW, Space.ENOUGH)
    assert not own.expired(NOW - 72 * HOUR + 1, NOW, Space.ENOUGH)
    assert not own.expired(NOW - 71 * HOUR, NOW, Space.SCARCE)
    assert own.expired(NOW, NOW, Space.URGENT)
    assert own.expired(NOW + HOUR, NOW, Space.FULL)


def test_nothing_goes_before_its_time_when_that_is_switched_off() -> None:
    own = rules(clean_file_forcibly_enable=False)
    assert not own.expired(NOW - HOUR, NOW, Space.FULL)
    assert own.expired(NOW - 72 * HOUR, NOW, Space.FULL)


def test_what_a_sender_reads() -> None:
    assert str(DiskUse(0.91, 0.5, -1.0)) == "CL:  0.91 CQ:  0.50 INDEX: -1.00"
