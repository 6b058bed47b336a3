"""Python started in a clone takes the clone's face for the package, whatever is installed: the face
finds the rooms that stand beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..installed import REPOSITORY, Environment, without_package

IMPORTS = (
    "from aiorocketmq import Producer, __version__; import aiorocketmq.client as c, os, sys;"
    "from aiorocketmq.spark_connector.access import wire;"
    "print(__version__, os.path.dirname(c.__path__[0]))"
)


@pytest.fixture(scope="module")
def environments(
    installed: Environment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Environment]:
    return {
        "wheel": installed,
        "nothing": without_package(tmp_path_factory.mktemp("nothing")),
        "editable": Environment(Path(sys.executable).parents[1]),
    }


def python(
    environment: Environment, *arguments: str, cwd: Path, path: str = ""
) -> subprocess.CompletedProcess[str]:
    variables = {**environment.variables, **({"PYTHONPATH": path} if path else {})}
    return subprocess.run(
        [environment.python, *arguments],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def version() -> str:
    import aiorocketmq

    return aiorocketmq.__version__


@pytest.mark.parametrize("kind", ["wheel", "editable", "nothing"])
def test_in_the_root_of_a_clone_the_clone_is_imported(
    environments: dict[str, Environment], kind: str
) -> None:
    done = python(environments[kind], "-c", IMPORTS, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [version(), str(REPOSITORY)]


@pytest.mark.parametrize("kind", ["wheel", "editable", "nothing"])
@pytest.mark.parametrize("program", ["broker", "tools.mqadmin"])
def test_in_the_root_of_a_clone_programs_start(
    environments: dict[str, Environment], kind: str, program: str
) -> None:
    done = python(environments[kind], "-m", f"aiorocketmq.{program}", "--version", cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert f" {version()}, leaves: " in done.stdout


@pytest.mark.parametrize("kind", ["wheel", "nothing"])
def test_in_the_root_of_a_clone_a_cluster_runs(
    environments: dict[str, Environment], kind: str
) -> None:
    code = "import runpy; runpy.run_path('examples/quickstart.py', run_name='__main__')"
    done = python(environments[kind], "-c", code, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "received" in done.stdout


def test_elsewhere_what_is_installed_is_imported(
    environments: dict[str, Environment], tmp_path: Path
) -> None:
    found = {
        kind: python(environment, "-c", IMPORTS, cwd=tmp_path)
        for kind, environment in environments.items()
    }
    (site,) = environments["wheel"].folder.glob("lib/python*/site-packages/aiorocketmq")
    assert found["wheel"].stdout.split() == [version(), str(site)]
    assert found["editable"].stdout.split() == [version(), str(REPOSITORY)]
    assert "No module named 'aiorocketmq'" in found["nothing"].stderr


@pytest.mark.parametrize("kind", ["wheel", "nothing"])
def test_elsewhere_a_clone_on_the_path_comes_first(
    environments: dict[str, Environment], kind: str, tmp_path: Path
) -> None:
    relative = os.path.relpath(REPOSITORY, tmp_path)
    done = python(environments[kind], "-c", IMPORTS, cwd=tmp_path, path=relative)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[1] == str(REPOSITORY)


def test_an_installed_face_looks_nowhere_else(environments: dict[str, Environment]) -> None:
    """A folder of such a name beside it is somebody else's."""
    (site,) = environments["wheel"].folder.glob("lib/python*/site-packages")
    foreign = site / "remoting" / "protocol" / "wire.py"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    try:
        code = "import aiorocketmq; print(*aiorocketmq.__path__)"
        done = python(environments["wheel"], "-c", code, cwd=site)
    finally:
        shutil.rmtree(site / "remoting")
    assert done.stdout.split() == [str(site / "aiorocketmq")]
