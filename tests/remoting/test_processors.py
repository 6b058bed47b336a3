"""How many processors may be used: those of the system, and what quotas leave of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.remoting.processors import usable_processors

V1 = "5:memory:/elsewhere\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"
V2 = "0::/docker/abc\n"
BOTH = "4:cpu:/docker/abc\n0::/\n"


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)


def usable(folder: Path, own: str | None, files: dict[str, str]) -> float:
    """With these files below the mount."""
    mount, own_groups = folder / "mount", folder / "own"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(text)
    if own is not None:
        own_groups.write_text(own)
    return usable_processors(own_groups, mount)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        # version 2
        (V2, {"docker/abc/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"docker/abc/cpu.max": "max 100000\n", "docker/cpu.max": "50000 100000\n"}, 0.5),
        (V2, {"docker/abc/cpu.max": "300000 100000\n", "docker/cpu.max": "200000 50000\n"}, 3),
        (V2, {"docker/abc/cpu.max": "max 100000\n"}, 8),
        (V2, {"docker/abc/cpu.max": "3200000 100000\n"}, 8),
        (V2, {"cpu.max": "100000 100000\n"}, 1),  # its own is the root to it
        ("0::/\n", {"cpu.max": "100000 100000\n"}, 1),
        (V2, {"other/cpu.max": "100000 100000\n"}, 8),
        (None, {"cpu.max": "100000 100000\n"}, 1),
        # version 1
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "150000\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 1.5),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "-1\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 8),
        (V1, {"cpu/docker/cpu.cfs_quota_us": "50000\n", "cpu/docker/cpu.cfs_period_us": "100000\n"}, 0.5),
        (V1, {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        (V1, {"cpu/elsewhere/cpu.cfs_quota_us": "100000\n", "cpu/elsewhere/cpu.cfs_period_us": "100000\n"}, 8),
        (BOTH, {"cpu/docker/abc/cpu.cfs_quota_us": "100000\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 1),
        # nothing that could be understood
        (V2, {}, 8),
        (None, {}, 8),
        ("", {}, 8),
        ("what?\n::::\n\n", {"cpu.max": "many of them"}, 8),
        (V2, {"cpu.max": ""}, 8),
        (V2, {"cpu.max": "100000 0"}, 8),
        (V2, {"cpu.max": f"{10**400} 100000"}, 8),
        ("0::/docker\0abc\n", {"cpu.max": "max 100000"}, 8),
        (V2, {"cpu.max/is/a/folder": ""}, 8),
        (V1, {"cpu/cpu.cfs_quota_us": "100000\n"}, 8),
        (V1, {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "0\n"}, 8),
    ],
)
def test_quotas(tmp_path: Path, own: str | None, files: dict[str, str], expected: float) -> None:
    assert usable(tmp_path, own, files) == expected


@pytest.mark.parametrize("count", [1, 3])
def test_processors_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(count)), raising=False)
    assert usable(tmp_path, None, {}) == count
    assert usable(tmp_path, V2, {"cpu.max": "200000 100000"}) == min(count, 2)


@pytest.mark.parametrize(("count", "expected"), [(3, 3), (None, 1)])
def test_where_a_process_is_not_told_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None, expected: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable(tmp_path, None, {}) == expected


def test_there_is_always_one() -> None:
    assert usable_processors() > 0
