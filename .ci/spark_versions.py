"""``make spark-versions``: the tests of the Spark connector with other versions of Spark, each in
an environment of its own (``.venv/spark/4.1``), which has that Spark in front of what ``.venv``
has.

    python .ci/spark_versions.py 4.0 4.1 4.2
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
READS_STREAMS = (4, 2)
WRITES_STREAMS = (4, 1)
STREAM_WRITER = "tests/spark_connector/sink/test_stream_sink.py"
EVERYTHING = ["tests/spark_connector", *sorted(map(str, Path("tests/e2e").glob("test_spark_*.py")))]
WITHOUT_STREAMS = [
    "tests/spark_connector/session/test_spark_version.py",
    "tests/spark_connector/sink",
    *(
        f"tests/e2e/test_spark_{name}.py"
        for name in ("payload", "registration", "sink", "sql", "store", "versions", "waiting")
    ),
]
# Older ones leave sockets to the garbage collector.
WARNINGS = [
    "-W",
    "ignore::ResourceWarning",
    "-W",
    "ignore::pytest.PytestUnraisableExceptionWarning",
]


def main(versions: list[str]) -> int:
    """The exit code: how many of them failed."""
    results = {version: run(version) for version in versions}
    for version, code in results.items():
        print(f"Spark {version}: {'good' if code == 0 else 'NOT GOOD'}")
    return sum(code != 0 for code in results.values())


def run(version: str) -> int:
    """The exit code of the tests."""
    python = environment(version)
    major, minor = map(int, version.split(".")[:2])
    tests = EVERYTHING if (major, minor) >= READS_STREAMS else WITHOUT_STREAMS
    if (major, minor) < WRITES_STREAMS:
        tests = [*tests, f"--ignore={STREAM_WRITER}"]
    print(f"Spark {version}", flush=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *WARNINGS, *tests]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


def environment(version: str) -> Path:
    """Its interpreter; made when it is not there yet."""
    folder = REPOSITORY / ".venv" / "spark" / version
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True
        )
        install = [
            "--python",
            str(python),
            "install",
            "--ignore-installed",
            f"pyspark=={version}.*",
        ]
        subprocess.run([*pip, *install], check=True)
        site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
        behind = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (Path(site) / "behind.pth").write_text(behind, encoding="utf-8")
        (folder / "done").touch()
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
