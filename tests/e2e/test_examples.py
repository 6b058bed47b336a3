"""The example programs do what they say, run as their docstrings say, by Python as people have it
after ``pip install .``."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from ..installed import Environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

EXPECTED = {
    "acl.py": (
        r"shop: No default permission for topic:Salary.*\nnobody: No accessKey is configured.*\n"
        r"billing: received a book\n"
    ),
    "batches.py": (
        r"3 rows in one frame: 3 ids\ntoo long: the batch of 10000 messages takes \d+ bytes, the "
        r"limit is 4194304\n"
        r"10000 rows in 3 frames\n1000 sends, each with its own result: 1000 ids\nstored: 11003\n"
    ),
    "broadcast.py": r"ann read first, second\nbob read first, second\n",
    "dead_letters.py": (
        r"try 1: a book\ntry 2: a book\ndead letter of Order: a book\ntry 1: a book to Ann\n"
    ),
    "delayed.py": r"now: after less than 0.9 s\nlater: after more than 0.9 s\n",
    "fastapi_lifespan.py": r"200 Order \d+\n",
    "filter_sql.py": (
        r"matched: 0 1 2 3 7\nrefused: the SQL expression .* is none: position 16: there is no "
        r"operator LIKE\n"
    ),
    "hooks.py": (
        r"to Order: 1 message\(s\), 6 bytes\nSEND_OK in less than 5 s\nrefused: nobody works on "
        r"Sundays\n"
    ),
    "namespaces.py": (
        r"north sent to Order\nsouth sent to Order\n"
        r"north received from Order: an order in the north\nsouth received from Order: an order "
        r"in the south\n"
        r"in the cluster: north%Order south%Order\n"
    ),
    "open_messaging.py": r"polled a book for 12.5\nlistener got a book\n",
    "ordered.py": "".join(
        rf"order {number}: created, paid, packed, sent\n" for number in (1001, 1002, 1003)
    ),
    "ordered_handler.py": (
        r"account 4711 is closed, try 1\naccount 4711 is closed, try 2\nbalances: {4711: 11, "
        r"4712: 11}\n"
        r"suspended: 0 seen\nresumed: 6 seen\n"
    ),
    "otel.py": (
        r"trace (\w{32}): send Order \(producer\)\ntrace \1: checkout \(internal\)\n"
        r"trace \1: pay \(internal\)\ntrace \1: process Order \(consumer\)\n"
    ),
    "protobuf_values.py": r"order 4711: a book\n",
    "pull.py": r"(queue [0-3] offset \d+: \d\d degrees\n){12}(queue [0-3]: committed \d+\n){4}",
    "pytest_fixture.py": r"\.\. +\[100%\]\n2 passed in .*\n",
    "quickstart.py": r"sent (\w{32}) to queue [0-3]\nreceived \1: Hello, world\n",
    "request_reply.py": r"3 \* 4 = 12\n10 / 4 = 2.5\n10 / 0: division by zero\n",
    "transaction.py": (
        r"order 2 is rolled back: CHECK constraint failed: .*\n"
        r"(received order 1: 25\n|the broker asks about order 3\n){2}received order 3: 40\n"
    ),
    "values.py": (
        r"order 4711: 12.5, application/json\nnot an order: topic Note, message \w{32}, 18 bytes: "
        r"no application/json: Expected `int`, got `str` - at `\$.number`\n"
    ),
    "trace.py": "".join(
        rf"order {number}: shop sent {size} bytes, stored: True\n"
        for number, size in ((4711, 6), (4712, 5), (4713, 6))
    ),
    "sync_quickstart.py": r"sent (\w{32}) to queue [0-3]\nreceived \1: Hello, world\n",
}
"""What each prints."""
NEEDS = {
    "fastapi_lifespan.py": "fastapi",
    "otel.py": "opentelemetry.sdk",
    "protobuf_values.py": "google.protobuf",
}
"""Packages that this one does not depend on."""


def test_every_example_is_tested() -> None:
    of_spark = {path.name for path in EXAMPLES.glob("spark_*.py")}  # test_spark_examples.py
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"} - of_spark == set(
        EXPECTED
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda path: path.name)
def test_every_example_says_how_it_is_run(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    assert f"python examples/{path.name}" in " ".join(text.split())


def run(environment: Environment, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment.python, *command], cwd=cwd, env=environment.variables,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, installed: Environment, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name} needs the package {NEEDS[name]}")
    done = run(installed, tmp_path, str(EXAMPLES / name))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(EXPECTED[name], done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [[], ["-m", "pytest", "-q", "-p", "no:cacheprovider"]])
def test_the_example_of_tests_in_the_root_of_the_clone(
    how: list[str], installed: Environment
) -> None:
    """Where pytest finds the clone's settings."""
    done = run(installed, EXAMPLES.parent, *how, "examples/pytest_fixture.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(EXPECTED["pytest_fixture.py"], done.stdout)
