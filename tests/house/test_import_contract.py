"""Break each import contract of pyproject.toml in a small package of the same rooms: the linter must say so.

That the package itself keeps them is the business of `make check`.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
CONTRACTS = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
NAME_OF = {contract["id"]: contract["name"] for contract in CONTRACTS}
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

ROOMS = [
    "remoting",
    "remoting.protocol",
    "remoting.protocol.commands",
    "namesrv",
    "store",
    "broker",
    "client",
]
ROOMS += ["tools", "spark_connector"]

BREAKS = [
    ("layers", "store", "from ..broker import x"),
    ("layers", "store", "from ..client import x"),
    ("layers", "client", "import aiorocketmq.broker"),
    ("layers", "namesrv", "from ..broker import x"),
    ("layers", "remoting", "from ..store import x"),
    ("layers", "broker", "def f():\n    from ..tools import x"),
    ("layers", "", "# a module of the face that no layer names"),
    ("face", "client", "import aiorocketmq"),
    ("protocol", "remoting.protocol", "from ..server import x"),
    ("store", "store", "from ..remoting.server import x"),
    ("store-requests", "store", "from ..remoting.protocol.commands import x"),
    ("pure", "remoting.protocol", "import time"),
    ("pure", "remoting.protocol.commands", "from asyncio import Lock"),
]


def make_package(folder: Path) -> Path:
    """Rooms that import nothing, with every module that a contract names."""
    package = folder / "aiorocketmq"
    for name in ["", *ROOMS]:
        room = package.joinpath(*name.split("."))
        room.mkdir()
        (room / "__init__.py").write_text("x = 1\n")
    named = {source for contract in CONTRACTS for source in contract.get("source_modules", ())}
    for name in named | {"aiorocketmq.remoting.server"}:
        path = folder.joinpath(*name.split("."))
        if "*" not in name and not path.is_dir():
            path.with_suffix(".py").write_text("x = 1\n")
    return package


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [LINT_IMPORTS, "--config", PYPROJECT, "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_downwards_are_kept(tmp_path: Path) -> None:
    package = make_package(tmp_path)
    (package / "store" / "good.py").write_text("from ..remoting.protocol import x\n")
    (package / "broker" / "good.py").write_text("from ..store import x\nfrom ..client import x as y\n")
    (package / "tools" / "good.py").write_text("import aiorocketmq\nfrom ..broker import x\n")
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("contract", "room", "line"), BREAKS)
def test_a_wrong_import_breaks_its_contract(tmp_path: Path, contract: str, room: str, line: str) -> None:
    package = make_package(tmp_path)
    package.joinpath(*room.split("."), "bad.py").write_text(line + "\n")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{NAME_OF[contract]} BROKEN" in result.stdout


def test_every_contract_is_broken_once() -> None:
    assert {contract for contract, _, _ in BREAKS} == set(NAME_OF)
