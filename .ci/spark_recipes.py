"""``make spark-recipes``: the ways of ``docs/spark.md`` to ship the package to executors, each run
on executors that are processes of their own: a batch written, a stream read.

    python .ci/spark_recipes.py installed zip archive

``installed``: the wheel in an environment that all nodes have; ``zip``: ``--py-files``;
``archive``: that environment packed with venv-pack (``--archives``), unpacked on the driver, and
gone from where it was made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

REPOSITORY = Path(__file__).resolve().parents[1]
JOB = REPOSITORY / "tests" / "e2e" / "spark_zip_job.py"
MASTER = "local-cluster[2,1,1024]"
NEEDED = ("pyarrow", "numpy", "pandas<3", "msgspec")
RECIPES = ("installed", "zip", "archive")
PIP = ("--disable-pip-version-check", "--quiet")
PATIENCE_S = 300


def main(names: list[str]) -> int:
    """The exit code: how many recipes do not hold."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder, cluster() as namesrv:
        place = Path(folder)
        for name in names:
            began = time.monotonic()
            arguments, python = prepared(name, place)
            problem = run(name, place, namesrv, arguments, python)
            took = f"{time.monotonic() - began:.0f} s"
            print(f"{name}: {problem or 'good'} ({took})", flush=True)
            failed += problem is not None
    return failed


def prepared(name: str, place: Path) -> tuple[list[str], str]:
    """Arguments of spark-submit, and ``PYSPARK_PYTHON``."""
    if name == "zip":
        zipped = place / "aiorocketmq-spark.zip"
        make = [sys.executable, str(REPOSITORY / ".ci" / "spark_zip.py"), str(zipped)]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        bare = environment(place / "bare", *NEEDED)
        return ["--py-files", str(zipped)], str(bare)
    wheels = place / "wheels"
    build = [sys.executable, "-m", "pip", *PIP, "wheel", "--no-deps", "--wheel-dir", str(wheels)]
    subprocess.run([*build, str(REPOSITORY)], check=True)
    [wheel] = wheels.glob("*.whl")
    if name == "installed":
        return [], str(environment(place / "installed", str(wheel), *NEEDED))
    python = environment(place / "made", str(wheel), *NEEDED, "venv-pack")
    packed = place / "env.tar.gz"
    pack = [python.with_name("venv-pack"), "-q", "-p", python.parents[1], "-o", packed]
    subprocess.run(pack, check=True)
    shutil.rmtree(python.parents[1])
    (place / "env").mkdir()
    subprocess.run(["tar", "-xzf", packed, "-C", place / "env"], check=True)
    return ["--archives", f"{packed}#env"], "./env/bin/python"


def environment(folder: Path, *packages: str) -> Path:
    """Its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", *PIP, "install", *packages], check=True)
    return python


@contextmanager
def cluster() -> Iterator[str]:
    """A name server with a broker."""
    command = [sys.executable, "-m", "aiorocketmq.tools.mqcluster"]
    ports = ["--namesrvPort", "0", "--brokerPort", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                name, _, value = line.strip().partition("  ")
                if name == "name server":
                    namesrv = value.strip()
                if name == "data":
                    yield namesrv
                    break
        finally:
            process.terminate()


def run(name: str, place: Path, namesrv: str, arguments: list[str], python: str) -> str | None:
    """What is wrong; None when all came back."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    outside = {"PYTHONPATH", "VIRTUAL_ENV"}
    own = {k: v for k, v in os.environ.items() if k not in outside and "SPARK" not in k}
    done = subprocess.run(
        [submit, "--master", MASTER, *arguments, str(JOB), namesrv, f"Recipe-{name}"],
        cwd=place,
        env={**own, "PYSPARK_PYTHON": python},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    if found and json.loads(found[0].removeprefix("found "))["numbers"] == list(range(20)):
        return None
    return f"NOT GOOD\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(RECIPES)))
