"""``make spark-zip``: one file for ``spark-submit --py-files``, with this package and those that it
needs, as far as they are Python.

    python .ci/spark_zip.py dist/aiorocketmq-spark.zip

Compiled modules cannot be imported out of a zip. Those of ``msgpack`` and ``crcmod``, and our own,
have twins in Python, which is what goes in; ``msgspec``, ``numpy`` and ``pyarrow`` have to be
installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("msgpack", "crcmod")


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        setup = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q"]
        build = ["egg_info", "--egg-base", folder, "build_py", "--build-lib", str(site)]
        subprocess.run([*setup, *build], cwd=REPOSITORY, check=True, stderr=subprocess.DEVNULL)
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
            for root in (site, *map(folder_of, PACKAGES)):
                add(zipped, root, site if root == site else root.parent)
    print(f"{target}  {target.stat().st_size / 1e6:.1f} MB")


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: make setup")
    return Path(spec.origin).parent


def add(zipped: zipfile.ZipFile, root: Path, base: Path) -> None:
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".typed") and path.name != "test.py":
            zipped.write(path, path.relative_to(base))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
