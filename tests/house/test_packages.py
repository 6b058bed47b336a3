"""pyproject.toml lists the packages by hand, because the rooms are mapped: hold list and folders
together."""

import tomllib
from pathlib import Path

import pytest

from .names import REPOSITORY, folders_with_code

PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    """Where setuptools looks for a package: the longest mapped name in front of it, then its own
    path."""
    head, tail = package, ""
    while head not in SETUPTOOLS["package-dir"]:
        head, _, last = head.rpartition(".")
        assert head, f"{package} is below no folder of package-dir"
        tail = f"{last}/{tail}"
    folder: str = SETUPTOOLS["package-dir"][head]
    return REPOSITORY / folder / tail


def test_every_folder_is_listed_and_every_listed_folder_is_there() -> None:
    assert {folder_of(name) for name in SETUPTOOLS["packages"]} == folders_with_code()


@pytest.mark.parametrize("package", SETUPTOOLS["packages"])
def test_package_has_an_init_file(package: str) -> None:
    assert (folder_of(package) / "__init__.py").is_file()


def test_no_package_is_listed_twice() -> None:
    assert len(SETUPTOOLS["packages"]) == len(set(SETUPTOOLS["packages"]))


def test_every_entry_point_names_a_file() -> None:
    project = PYPROJECT["project"]
    targets = [*project["scripts"].values(), *project["entry-points"]["pytest11"].values()]
    for target in targets:
        package, _, module = target.partition(":")[0].rpartition(".")
        assert (folder_of(package) / f"{module}.py").is_file(), target


def test_test_folders_are_packages() -> None:
    """A test module of the same name stands in several folders."""
    missing = {
        f.parent
        for f in (REPOSITORY / "tests").rglob("*.py")
        if not (f.parent / "__init__.py").exists()
    }
    assert not missing


def test_typed_marker_is_installed() -> None:
    assert "py.typed" in SETUPTOOLS["package-data"]["aiorocketmq"]
    assert (REPOSITORY / "aiorocketmq" / "py.typed").is_file()


def test_files_of_pages_are_installed_and_what_is_vendored_has_its_licence() -> None:
    folder = REPOSITORY / "console"
    patterns = SETUPTOOLS["package-data"]["aiorocketmq.console"]
    installed = {file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}
    others = {f for f in folder.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")}
    assert installed == others
    for vendored in (each for each in (folder / "static").iterdir() if each.is_dir()):
        licence = vendored / "LICENSE"
        assert licence.is_file()
        assert str(licence.relative_to(REPOSITORY)) in PYPROJECT["project"]["license-files"]
