"""How much memory may be used: that of the machine, and what cgroups leave of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.remoting.transport.usable_memory import give_back, usable_memory

GIB = 1 << 30
V1 = "5:memory:/docker/abc\n4:cpu,cpuacct:/elsewhere\n"
V1_SHARED = "4:cpu,memory:/docker/abc\n"
V2 = "0::/docker/abc\n"
BOTH = "5:memory:/docker/abc\n0::/\n"


@pytest.fixture(autouse=True)
def eight_gibibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "sysconf", {"SC_PHYS_PAGES": 2 * GIB // 1024, "SC_PAGE_SIZE": 4096}.__getitem__
    )


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (None, {}, 8 * GIB),
        (V2, {"docker/abc/memory.max": "max\n"}, 8 * GIB),
        (V2, {"docker/abc/memory.max": f"{GIB}\n"}, GIB),
        (
            V2,
            {"docker/abc/memory.max": f"{4 * GIB}\n", "docker/memory.max": f"{2 * GIB}\n"},
            2 * GIB,
        ),
        (
            V2,
            {"docker/abc/memory.max": f"{4 * GIB}\n", "docker/abc/memory.high": f"{3 * GIB}\n"},
            3 * GIB,
        ),
        (V2, {"memory.max": f"{GIB}\n"}, GIB),  # a container that sees its own group as the root
        (V1, {"memory/docker/abc/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (
            V1,
            {"memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n"},
            8 * GIB,
        ),  # there is none
        (V1, {"memory/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (V1, {"memory/docker/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (V1, {"memory/elsewhere/memory.limit_in_bytes": f"{GIB}\n"}, 8 * GIB),
        (V1_SHARED, {"memory/docker/abc/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (BOTH, {"memory/docker/abc/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        (V2, {"other/memory.max": f"{GIB}\n"}, 8 * GIB),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, GIB),
        (None, {"memory.max": f"{GIB}\n"}, GIB),
        # nothing that could be understood
        ("", {}, 8 * GIB),
        ("what?\n::::\n\n", {"memory.max": "many of them"}, 8 * GIB),
        (V2, {"memory.max": ""}, 8 * GIB),
        (V2, {"memory.max": f"{10**400}"}, 8 * GIB),
        ("0::/docker\0abc\n", {"memory.max": "max"}, 8 * GIB),
        (V2, {"memory.max/is/a/folder": ""}, 8 * GIB),
        (V2, {"docker/abc/memory.max": "0\n"}, 8 * GIB),
        (V2, {"docker/abc/memory.max": "nonsense\n"}, 8 * GIB),
        ("\x00:::\n", {}, 8 * GIB),
    ],
)
def test_the_least_of_all_limits_holds(
    tmp_path: Path, own: str | None, files: dict[str, str], expected: int
) -> None:
    mount, own_groups = tmp_path / "mount", tmp_path / "own"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(text)
    if own is not None:
        own_groups.write_text(own)
    assert usable_memory(own_groups, mount) == expected


def test_giving_back_may_be_tried_everywhere() -> None:
    assert give_back() in (True, False)
