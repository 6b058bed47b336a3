"""``python -m benchmarks.smoke`` with few messages: the way it goes, and that it would see what is
wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.smoke import Arrivals

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_messages_all_arrive() -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.smoke",
        "--messages",
        "3001",
        "--producers",
        "2",
        "--queues",
        "3",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"^sent +3,002 in ", done.stdout, re.MULTILINE)
    assert re.search(r"^received +3,002 in ", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\nall received, every queue in order, no error\n")


@pytest.mark.parametrize(
    ("came", "counts"),
    [
        ([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 2, 1)], (4, 0, 0)),
        ([(0, 1, 0), (0, 0, 1), (1, 0, 0)], (3, 0, 0)),
        ([(0, 1, 0), (0, 0, 0)], (2, 0, 1)),
        ([(0, 0, 0), (0, 1, 0), (0, 0, 0)], (2, 1, 0)),
    ],
)
def test_duplicates_and_disorder_within_a_queue_are_counted(
    came: list[tuple[int, int, int]], counts: tuple[int, int, int]
) -> None:
    arrivals = Arrivals(producers=2, messages=3)
    for producer, number, queue_id in came:
        arrivals.add(producer, number, queue_id)
    assert (arrivals.count, arrivals.duplicated, arrivals.out_of_order) == counts
