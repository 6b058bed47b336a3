"""The example programs do what they say, in processes of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

EXPECTED = {
    "ordered.py": "".join(rf"order {number}: created, paid, packed, sent\n" for number in (1001, 1002, 1003)),
    "pull.py": r"(queue [0-3] offset \d+: \d\d degrees\n){12}(queue [0-3]: committed \d+\n){4}",
    "quickstart.py": r"sent (\w{32}) to queue [0-3]\nreceived \1: Hello, world\n",
    "sync_quickstart.py": r"sent (\w{32}) to queue [0-3]\nreceived \1: Hello, world\n",
}
"""What each prints."""


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(EXPECTED[name], done.stdout)
    assert list(tmp_path.iterdir()) == []
