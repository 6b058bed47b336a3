"""Slaves that get to where their master was, and such that do not."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.tools.doctor.seen import Broker, Server
from aiorocketmq.tools.doctor.slaves import END, bytes_behind

from ..sim import ManualClock

PATIENCE_S = 3.0
MASTER, SLAVE = "m:1", "s:1"


class Jumping(ManualClock):
    """Who sleeps is there at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


def broker(number: int, end: int | None, cluster: str = "C", name: str = "a") -> Broker:
    runtime = {} if end is None else {END: str(end)}
    return Broker(cluster, name, number, Server(SLAVE if number else MASTER), runtime)


def behind(
    master: int | None, slave: int | None, *later: int | None, of: str = SLAVE, number: int = 1
) -> tuple[int, float]:
    """And how long it took. ``later``: what is answered afterwards, the last one over and over."""
    clock, answers = Jumping(), list(later)

    async def end_of(address: str) -> int | None:
        assert address == of
        return answers.pop(0) if len(answers) > 1 else answers[0]

    others = [broker(0, 1 << 30, name="b"), broker(0, 1 << 30, cluster="D"), broker(2, 1 << 30)]
    brokers = [*others, broker(0, master)]
    start = clock.monotonic()
    found = asyncio.run(bytes_behind(broker(number, slave), brokers, end_of, clock, PATIENCE_S))
    return found, clock.monotonic() - start


def test_one_that_is_there_is_not_asked_again() -> None:
    assert behind(100, 100) == (0, 0)


def test_one_that_gets_there() -> None:
    lacks, took = behind(100, 90, 95, None, 130)
    assert lacks == 0
    assert took == pytest.approx(0.6)


@pytest.mark.parametrize("later", [95, None])
def test_one_that_does_not(later: int | None) -> None:
    lacks, took = behind(100, 90, later)
    assert lacks == 100 - (later or 90)
    assert PATIENCE_S <= took < PATIENCE_S + 0.3


def test_one_that_is_ahead_because_it_was_looked_at_later() -> None:
    assert behind(100, 110, 120, of=MASTER) == (0, 0)
    assert behind(100, 110, None, of=MASTER) == (0, 0)


def test_one_that_has_more_than_its_master() -> None:
    assert behind(100, 110, 103, of=MASTER) == (-7, 0)


@pytest.mark.parametrize(
    ("master", "slave", "number"), [(None, 90, 1), (100, None, 1), (100, 90, 0)]
)
def test_where_there_is_nothing_to_compare(
    master: int | None, slave: int | None, number: int
) -> None:
    assert behind(master, slave, number=number) == (0, 0)


def test_a_slave_without_a_master() -> None:
    async def never(_address: str) -> int | None:
        raise AssertionError

    slave = broker(1, 90)
    assert asyncio.run(bytes_behind(slave, [slave], never, Jumping(), PATIENCE_S)) == 0
