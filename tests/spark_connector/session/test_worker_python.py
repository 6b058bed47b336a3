"""The Python of Spark's workers imports pyspark as it is installed, not from the zip that Spark
puts in front of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiorocketmq.spark_connector.session.worker_python import quick_python

TELL = "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix, sys.argv, sep='|')"
OWN = ["/o w*n", "/own.zip"]


@pytest.mark.skipif(os.name != "posix", reason="a script of the shell")
def test_what_spark_puts_in_front_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    spark = [
        "/s/python/lib/pyspark.zip",
        "/s/python/lib/py4j-0.10.9.9-src.zip",
        "/s/jars/spark-core_2.13-4.2.0.jar",
    ]
    path = os.pathsep.join([*spark, OWN[0], *spark, OWN[1]])
    command = [quick_python(tmp_path), "-c", TELL, "a b"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    ).stdout
    assert done.strip().split("|") == [os.pathsep.join(OWN), sys.prefix, "['-c', 'a b']"]


@pytest.mark.skipif(os.name != "posix", reason="Spark has no daemon elsewhere")
@pytest.mark.parametrize("module", ["pyspark.worker", "pyspark.sql.worker.lookup_data_sources"])
def test_the_daemon_says_where_it_listens_and_ends_with_its_standard_input(
    module: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    command = [quick_python(tmp_path), "-m", "pyspark.daemon", module]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    assert len(ended.stdout) == 4, ended
    assert ended.stderr == b""


def test_without_an_installed_pyspark_it_is_this_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that Spark brings in its zip, for instance: there nothing can be left out."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert quick_python(tmp_path) == sys.executable
    assert not (tmp_path / "python").exists()


def test_where_nothing_may_be_run_it_is_this_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.X_OK)
    assert quick_python(tmp_path) == sys.executable
