"""Spark finds the formats in what a wheel installs; whatever is wrong with an installation, their
modules do not raise."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

REPOSITORY = Path(__file__).resolve().parents[2]
FORMATS = {"pyspark_rocketmq": "rocketmq", "pyspark_rocketmq_store": "rocketmq-store"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages in a folder, as a wheel has them."""
    folder = tmp_path_factory.mktemp("wheel")
    setup = [
        sys.executable,
        "-c",
        "import setuptools; setuptools.setup()",
        "-q",
        "egg_info",
        "--egg-base",
        str(folder),
    ]
    subprocess.run(
        [*setup, "build_py", "--build-lib", str(folder / "site")],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    return folder / "site"


def python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_modules_are_where_spark_looks(installed: Path) -> None:
    found = {each.name for each in pkgutil.iter_modules([str(installed)])}
    assert {name for name in found if name.startswith("pyspark_")} == set(FORMATS)


@pytest.mark.parametrize(("module", "name"), FORMATS.items())
def test_the_name_of_the_format(module: str, name: str, installed: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")
    code = f"""
import sys, {module} as module
from pyspark.sql.datasource import DataSource
assert issubclass(module.DefaultSource, DataSource)
assert "aiorocketmq" not in sys.modules
print(module.DefaultSource.name(), module.DefaultSource(options={{}}).name(), module.__file__)
"""
    done = python(code, installed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [name, name, str(installed / module / "__init__.py")]


@pytest.mark.parametrize("module", FORMATS)
@pytest.mark.parametrize(
    "broken", ["pyspark", "pyspark.sql.datasource", "aiorocketmq", "numpy", "pyarrow"]
)
def test_importing_never_raises(module: str, broken: str, installed: Path) -> None:
    """A module that is None in ``sys.modules`` cannot be imported."""
    done = python(f"import sys; sys.modules[{broken!r}] = None; import {module}", installed)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    ["aiorocketmq", "aiorocketmq.spark_connector", "aiorocketmq.testing", "aiorocketmq.sync"],
)
def test_what_everybody_imports_needs_no_spark(module: str) -> None:
    """Every public name of it, too."""
    code = f"""
import sys, importlib
module = importlib.import_module({module!r})
names = getattr(module, "__all__", ())
if {module!r} == "aiorocketmq.spark_connector":
    names = []
for name in names:
    getattr(module, name)
imported = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(imported & {{"pyspark", "pyarrow", "pandas", "py4j"}}))
print("numpy" in sys.modules and {module!r} == "aiorocketmq" and not names)
"""
    done = python(code, REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "\nFalse\n"


@pytest.mark.parametrize(
    "module",
    ["aiorocketmq", "aiorocketmq.spark_connector", "aiorocketmq.spark_connector.session.java"],
)
def test_importing_alone_loads_no_numpy(module: str) -> None:
    done = python(
        f"import sys, {module}; print(*{{'numpy', 'pyarrow', 'pyspark', 'pandas'}} & "
        "set(sys.modules))",
        REPOSITORY,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


class Session:
    """What ``register`` needs of one."""

    def __init__(self, python: str, environment: dict[str, str] | None = None) -> None:
        self.sparkContext = self.dataSource = self
        self.pythonExec = python
        self.environment = environment or {}
        self.registered: list[tuple[str, str | None]] = []

    def register(self, source: type[DataSource]) -> None:
        """By name, with the path that its processes get."""
        self.registered.append((source.name(), self.environment.get("PYTHONPATH")))


def registered(session: Session) -> list[tuple[str, str | None]]:
    pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")
    register(cast("SparkSession", session))
    return session.registered


@pytest.fixture
def other_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ``python3`` on the PATH is another one; it knows the package when the file ``knows`` is
    there."""
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\n[ -e {tmp_path}/knows ]\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    return tmp_path / "knows"


def test_another_python_without_the_package_is_told(other_python: Path) -> None:
    with pytest.raises(ConfigError, match=r"PYSPARK_PYTHON .* before the session is made") as told:
        registered(Session("python3"))
    assert str(other_python.with_name("python3")) in str(told.value)
    assert sys.executable in str(told.value)
    other_python.touch()
    assert len(registered(Session("python3"))) == 2


@pytest.mark.usefixtures("other_python")
def test_a_python_that_was_chosen_is_not_asked() -> None:
    """It may be one that only executors have."""
    assert len(registered(Session("./env/bin/python"))) == 2


def test_what_spark_finds_is_left_as_it_is() -> None:
    session = Session(sys.executable, {"PYTHONPATH": "/before"})
    assert registered(session) == [("rocketmq", "/before"), ("rocketmq-store", "/before")]


@pytest.mark.parametrize("before", [None, "/before"])
def test_a_zip_goes_along(before: str | None, installed: Path, tmp_path: Path) -> None:
    zipped = Path(shutil.make_archive(str(tmp_path / "ours"), "zip", installed))
    code = f"""
import sys
sys.path.insert(0, {str(zipped)!r})
import aiorocketmq.spark_connector.registration as registration
environment = {{"PYTHONPATH": {before!r}}} if {before!r} else {{}}
with registration._with_our_zip(environment):
    print(environment["PYTHONPATH"])
print(environment.get("PYTHONPATH"))
"""
    done = python(code)
    assert done.stderr == ""
    along = f"{zipped}:/before" if before else str(zipped)
    assert done.stdout.split() == [along, str(before)]
