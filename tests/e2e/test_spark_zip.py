"""The zip of ``make spark-zip``: a driver and an executor whose Python does not have the package.

With TEST_SIZE=nightly the executor is a process of its own, which starts another JVM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

import msgspec
import pyspark

from aiorocketmq.spark_connector.local import local_settings, spark_problem

from .cluster import Cluster
from .spark_session import REPOSITORY

MASTER = "local-cluster[1,1,512]" if os.environ.get("TEST_SIZE") == "nightly" else "local[2]"
INSTALLED = (
    "dateutil", "msgspec", "numpy", "numpy.libs", "pandas", "py4j", "pyarrow", "pyarrow.libs",
    "pyspark", "pytz", "six.py", "tzdata",
)  # fmt: skip
"""What such a Python has."""


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter with Spark, numpy, pyarrow and msgspec, and nothing of ours."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    # with another version of Spark (.ci/spark_versions.py) the rest lies elsewhere
    sites = [Path(str(each.__file__)).parents[1] for each in (pyspark, msgspec)]
    there = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    for name in INSTALLED:
        for found in [site / name for site in sites if (site / name).exists()][:1]:
            (Path(there) / name).symlink_to(found)
    return folder / "bin" / "python"


def test_a_cluster_without_the_package_gets_it_in_a_zip(
    shared: Cluster, topic: str, bare_python: Path, tmp_path: Path
) -> None:
    if (problem := spark_problem()) is not None:
        pytest.skip(problem)
    zipped = tmp_path / "aiorocketmq-spark.zip"
    make = [sys.executable, str(REPOSITORY / ".ci" / "spark_zip.py"), str(zipped)]
    subprocess.run(make, check=True, capture_output=True)
    settings = {**local_settings(), "spark.executor.memory": "512m"}
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master", MASTER,
        "--py-files", str(zipped),
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        str(Path(__file__).with_name("spark_zip_job.py")), shared.namesrv, topic,
    ]  # fmt: skip
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and "SPARK" not in name
    }
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**environment, "PYSPARK_PYTHON": str(bare_python)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert lines, done.stdout + done.stderr
    found = json.loads(lines[0].removeprefix("found "))
    assert f"/{zipped.name}/" in found["package"]
    assert found["numbers"] == list(range(20))
