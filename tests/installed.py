"""The package as a user has it: a wheel in an environment of its own, not the editable clone.

The environment borrows what this one has of other packages, which may lie in several folders (a
``.pth`` that names one does not run what stands in that folder's own ``.pth`` files, so that our
editable installation is not seen).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol import leaves

REPOSITORY = Path(__file__).resolve().parents[1]
_LEAVES = Path("remoting/protocol/leaves")


@dataclass(frozen=True)
class Environment:
    """A virtual environment, with or without the package in it."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.programs / "python")

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def variables(self) -> dict[str, str]:
        """As after ``. bin/activate``, in a home of its own and without what was set for us."""
        ours = ("PYTHON", "PYTEST", "COVERAGE", "VIRTUAL_ENV", "NAMESRV_ADDR", "ROCKETMQ")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            "HOME": str(self.folder),
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(self.folder),
        }


def shared(factory: pytest.TempPathFactory) -> Environment:
    """The one environment with a wheel of this run; whichever process of it comes first makes
    it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    folder.mkdir(exist_ok=True)
    made = folder / "made"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with_wheel(folder)
            made.touch()
    return Environment(folder / "environment")


def without_package(folder: Path) -> Environment:
    """An environment that has what the package needs, and not the package."""
    made = Environment(folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = [each for each in sys.path if Path(each).name == "site-packages"]
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return made


def with_wheel(folder: Path) -> Environment:
    """``folder / "environment"``, into which a wheel of this clone was installed, without the clone
    noticing.

    The leaves are not compiled once more: those of this environment are put where pip puts them.
    """
    made = without_package(folder / "environment")
    where = str(folder)
    setup = ["-c", "import setuptools; setuptools.setup()", "-q", "egg_info", "--egg-base", where]
    build = ["build", "--build-base", f"{where}/build", "bdist_wheel", "--dist-dir", where]
    _run(*setup, *build, "--bdist-dir", f"{where}/wheel")
    (wheel,) = folder.glob("*.whl")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    _run("-m", "pip", "--disable-pip-version-check", "--python", made.python, *install)
    (package,) = made.folder.glob("lib/python*/site-packages/aiorocketmq")
    for module in Path(leaves.__file__).parent.glob("_compiled*.so"):
        shutil.copy(module, package / _LEAVES)
    return made


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
