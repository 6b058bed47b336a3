"""How many connections the descriptors of a process allow."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.daemon import descriptors
from aiorocketmq.daemon.descriptors import allowed_connections, most_connections

INFINITE = -1


class Limits:
    """``resource``, as far as it is asked."""

    RLIMIT_NOFILE = 7
    RLIM_INFINITY = INFINITE

    def __init__(self, soft: int, hard: int, largest: int = 1 << 30) -> None:
        self.soft = soft
        self.hard = hard
        self.largest = largest

    def getrlimit(self, _which: int) -> tuple[int, int]:
        return self.soft, self.hard

    def setrlimit(self, _which: int, limits: tuple[int, int]) -> None:
        if not 0 <= limits[0] <= self.largest or limits[1] != self.hard:
            raise ValueError("not allowed")
        self.soft = limits[0]


@pytest.mark.parametrize(
    ("files", "connections"),
    [(1, 1), (256, 128), (512, 256), (1024, 768), (2048, 1792), (65_536, 57_344), (22_858, 20_001)],
)
def test_an_eighth_and_at_least_256_stay_for_files(files: int, connections: int) -> None:
    assert most_connections(files) == connections


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        (Limits(1024, 4096), 4096),
        (Limits(4096, 4096), 4096),
        (Limits(1024, INFINITE), 1 << 20),
        (Limits(256, INFINITE, largest=10_240), 10_240),
        (Limits(256, INFINITE, largest=300), 256),
        (Limits(INFINITE, INFINITE), INFINITE),
        (Limits(2 << 20, INFINITE), 2 << 20),
    ],
)
def test_the_limit_is_raised_as_far_as_possible_and_never_lowered(
    limits: Limits, raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "resource", limits)
    descriptors.raise_limit()
    assert limits.soft == raised


def test_what_does_not_fit_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for soft in (INFINITE, 22_858):
        monkeypatch.setattr(descriptors, "resource", Limits(soft, soft))
        assert allowed_connections(20_000) == 20_000
    monkeypatch.setattr(descriptors, "resource", None)  # not a POSIX system
    assert allowed_connections(20_000) == 20_000
    assert not caplog.records
    monkeypatch.setattr(descriptors, "resource", Limits(1024, 1024))
    with caplog.at_level(logging.DEBUG):
        assert allowed_connections(20_000, told=False) == allowed_connections(20_000) == 768
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]
    assert (
        "768 connections at most, the other 256 files are kept for the store; allow 22858 files"
        in caplog.text
    )
