"""The scripts ``examples/spark_*.py`` do what they say. They run one after the other in the session
of all Spark tests: the playground that they ask for is replaced by it.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiorocketmq.spark_connector import local

from .cluster import Cluster
from .spark_writes import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

EXPECTED = {
    "spark_backfill.py": "".join(f"meter {meter}: {40 + 5 * meter} kWh\n" for meter in range(4))
    + "messages in the files: 20\n",
    "spark_join.py": "order 1: book paid with 12.5\norder 2: lamp paid with 25.0\n",
    "spark_sessions.py": (
        "ann: 2 clicks, over after 8 minutes\nbob: 2 clicks, over after 6 minutes\nann: 1 clicks, "
        "over after 5 minutes\n"
    ),
    "spark_to_parquet.py": "night 1: 10 events, 10 different\nnight 2: 20 events, 20 different\n",
    "spark_to_topic.py": (
        r'messages: 4\nParis \{"city":"Paris","amount":10\}\nParis \{"city":"Paris","amount":5\}\n'
    ),
    "spark_word_count.py": r"the: 3\ndog: 2\nand: 1\n",
}
"""What each prints."""


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("spark_*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(
    name: str,
    spark: SparkSession,
    shared: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given = local.Playground(spark, shared.namesrv, shared.store_of("broker-a"))
    monkeypatch.setattr(local, "playground", lambda: given)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(EXAMPLES / name))
    assert re.fullmatch(EXPECTED[name], capfd.readouterr().out)
    assert list(tmp_path.iterdir()) == []


PLAYING = """
import sys
from pathlib import Path
from aiorocketmq import Message
from aiorocketmq.spark_connector import local
from aiorocketmq.sync import Producer

class Session:
    def stop(self):
        print("session stopped")

local.local_session = lambda name: Session()
spark, namesrv, store = local.playground()
assert local.playground().namesrv == namesrv
with Producer("p", namesrv=namesrv) as producer:
    producer.send(Message("T", b"x"))
assert (store / "commitlog").is_dir()
print(store, flush=True)
sys.stdin.read()
"""


def test_a_playground_ends_with_its_process() -> None:
    """Without Spark, whose part in it is to be stopped."""
    done = subprocess.run(
        [sys.executable, "-c", PLAYING],
        input="", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    store, stopped = done.stdout.splitlines()
    assert stopped == "session stopped"
    assert not Path(store).parent.exists()


def test_a_playground_ends_when_its_process_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PLAYING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as playing:
        assert playing.stdout is not None
        store = Path(playing.stdout.readline().strip())
        assert store.exists()
        playing.kill()
    wait_until(lambda: not store.parent.exists())
