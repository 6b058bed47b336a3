"""Histories that ``test_store_machine`` has found: what was wrong once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.stored import StoreDirectory

from .test_store_machine import LOG_FILE, CheckedStoreMachine


@pytest.fixture
def state() -> Iterator[CheckedStoreMachine]:
    machine = CheckedStoreMachine()
    machine.start()
    yield machine
    machine.teardown()


def test_a_full_file_stays_until_something_of_the_next_one_is_on_the_disk(
    state: CheckedStoreMachine,
) -> None:
    """Its name could be lost otherwise, and the log with it would begin at 0 again."""
    state.put(queue=("T", 0), size=833, keys=0)
    state.put(queue=("T", 1), size=0, keys=2)
    state.fill_the_file(queue=("T", 0), left=42)
    state.clean_restart()
    state.put(queue=("T", 0), size=0, keys=0)
    state.power_failure_while_it_recovers(seed=870662, syncs=0)
    state.part_of_a_transaction(sys_flag=4)
    state.expire(files=1)
    state.power_failure_while_it_recovers(seed=1, syncs=0)
    assert state.store.max_phy_offset >= LOG_FILE - 50


def test_an_index_item_that_was_torn_is_made_again(state: CheckedStoreMachine) -> None:
    """What was left of its physical offset was a number in front of what was safe."""
    state.put(keys=0, queue=("T", 0), size=0)
    state.batch(count=14, queue=("T", 0))
    for _ in range(9):
        state.clean_restart()
    state.put(keys=1, queue=("T", 0), size=187)
    state.put(keys=0, queue=("T", 1), size=645)
    state.fill_the_file(left=50, queue=("T", 0))
    state.delete_topic(topic="U")
    state.part_of_a_transaction(sys_flag=4)
    state.power_failure_while_something_is_synced(seed=77, syncs=0, what="sync")


def test_a_queue_file_that_a_clean_start_makes_again_is_synced_with_its_name(
    state: CheckedStoreMachine,
) -> None:
    state.batch(count=2, queue=("T", 0))
    state.delete_topic(topic="T")
    state.clean_restart()
    for _ in range(4):
        state.build_the_index()
    state.part_of_a_transaction(sys_flag=8)
    state.time_goes_by(minutes=65)
    state.batch(count=15, queue=("T", 1))
    state.build_the_index()
    state.clean_restart()
    state.power_failure(seed=21627)


@pytest.mark.parametrize("byte", [0, 12, 20], ids=["size", "queue", "number"])
def test_of_a_topic_made_again_the_first_message_is_damaged(
    state: CheckedStoreMachine, byte: int
) -> None:
    """The messages of its predecessor do not take the place of the others."""
    state.batch(count=2, queue=("T", 0))
    state.delete_topic(topic="T")
    state.batch(count=2, queue=("T", 0))
    state.clean_restart()
    victim = list(StoreDirectory(state.root).records())[2]
    assert (victim.queue_offset, victim.commit_log_offset) == (0, 214)
    state.a_bit_flips(data=Drawn(record=victim, byte=byte, bit=0), how="crash")
    state.kill()
    assert state.found(("T", 0))[1].body == b"4:"


def test_a_torn_unit_that_points_to_a_damaged_record_is_not_believed(
    state: CheckedStoreMachine,
) -> None:
    state.batch(count=1, queue=("T", 0))
    (victim,) = StoreDirectory(state.root).records()
    state.a_bit_flips(data=Drawn(record=victim, byte=0, bit=0), how="stop")
    state.batch(count=1, queue=("U", 0))
    state.power_failure_while_it_recovers(seed=0, syncs=0)
    state.delete_topic(topic="U")
    state.group_commit()
    state.batch(count=11, queue=("U", 0))
    state.group_commit()
    state.power_failure_while_it_recovers(seed=0, syncs=0)


def test_of_a_topic_made_again_the_first_unit_is_torn_and_its_message_damaged(
    state: CheckedStoreMachine,
) -> None:
    """The unit that is behind it tells that the messages in front of it are those of its
    predecessor."""
    state.batch(count=2, queue=("T", 0))
    state.delete_topic(topic="T")
    state.batch(count=1, queue=("T", 0))
    state.batch(count=1, queue=("T", 0))
    state.clean_restart()
    victim = list(StoreDirectory(state.root).records())[2]
    state.a_bit_flips(data=Drawn(record=victim, byte=0, bit=0), how="crash")
    state.power_failure_while_it_recovers(seed=1, syncs=0)
    assert state.found(("T", 0))[1].body == b"4:"


def test_the_first_file_of_a_queue_is_lost_and_the_message_in_front_of_the_second(
    state: CheckedStoreMachine,
) -> None:
    """It was the one that told the loss of a file from messages of a topic that was deleted."""
    state.batch(count=1, queue=("T", 0))
    state.batch(count=11, queue=("T", 1))
    state.batch(count=5, queue=("U", 0))
    state.power_failure_while_it_recovers(seed=443, syncs=0)
    state.batch(count=7, queue=("T", 1))
    state.batch(count=15, queue=("T", 1))
    state.power_failure(seed=54339793)
    state.power_failure(seed=163)
    state.power_failure(seed=0)
    state.batch(count=2, queue=("T", 0))
    state.batch(count=4, queue=("T", 1))
    state.group_commit()
    state.power_failure_while_it_recovers(seed=93920, syncs=0)
    state.power_failure(seed=1329)
    assert sorted(state.found(("T", 1))) == [*range(9), *range(15, 22)]


class Drawn:
    """In the place of what hypothesis would choose."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def draw(self, _strategy: object, label: str) -> Any:
        return self._values[label]


def test_a_topic_made_again_has_its_own_numbers_though_its_deletion_was_not_on_the_disk(
    state: CheckedStoreMachine,
) -> None:
    """``queueends`` told of 8 messages, the power failure took what was appended to it."""
    state.batch(count=8, queue=("T", 1))
    state.build_the_index()
    state.power_failure_while_something_is_synced(seed=0, syncs=0, what="sync")
    state.delete_topic(topic="T")
    state.put(keys=1, queue=("T", 1), size=0)
    state.batch(count=3, queue=("T", 0))
    state.build_the_index()
    state.fill_the_file(left=0, queue=("T", 1))
    state.power_failure(seed=794)
