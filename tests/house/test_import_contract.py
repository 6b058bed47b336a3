"""Break each import contract of pyproject.toml in a small package of the same rooms: the linter
must say so.

That the package itself keeps them is the business of `make check`.
"""

import re
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
    "daemon",
    "namesrv",
    "store",
    "broker",
    "client",
]
ROOMS += ["tools", "console", "spark_connector"]

BREAKS = [
    ("layers", "store", "from ..broker import x"),
    ("layers", "store", "from ..client import x"),
    ("layers", "client", "import aiorocketmq.broker"),
    ("layers", "namesrv", "from ..broker import x"),
    ("layers", "remoting", "from ..store import x"),
    ("layers", "broker", "def f():\n    from ..tools import x"),
    ("layers", "", "# a module of the face that no layer names"),
    ("face", "client", "import aiorocketmq"),
    ("protocol", "remoting.protocol", "from ..transport.server import x"),
    ("store", "store", "from ..remoting.transport.server import x"),
    ("store-requests", "store", "from ..remoting.protocol.commands import x"),
    ("pure", "remoting.protocol", "import time"),
    ("pure", "remoting.protocol.commands", "from asyncio import Lock"),
    ("pure", "remoting.protocol", "from ..impure import x"),
    ("doors", "namesrv", "from . import bad15"),
    (
        "doors",
        "namesrv",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import bad14",
    ),
    ("console", "console", "from ..broker import x"),
    ("console", "console", "from ..store import x"),
]


def make_package(folder: Path) -> Path:
    """Rooms that import nothing, with every module that a contract names."""
    package = folder / "aiorocketmq"
    for name in ["", *ROOMS]:
        room = package.joinpath(*name.split("."))
        room.mkdir()
        (room / "__init__.py").write_text("x = 1\n")
    named = {source for contract in CONTRACTS for source in contract.get("source_modules", ())}
    for name in named | {"aiorocketmq.remoting.transport.server"}:
        path = folder.joinpath(*name.split("."))
        if "*" not in name and not path.is_dir():
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").write_text("x = 1\n")
            path.with_suffix(".py").write_text("x = 1\n")
    (package / "remoting" / "impure.py").write_text("import time\n\nx = 1\n")
    return package


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [LINT_IMPORTS, "--config", PYPROJECT, "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_downwards_are_kept(tmp_path: Path) -> None:
    package = make_package(tmp_path)
    (package / "store" / "good.py").write_text("from ..remoting.protocol import x\n")
    (package / "broker" / "good.py").write_text(
        "from ..store import x\nfrom ..client import x as y\n"
    )
    (package / "tools" / "good.py").write_text("import aiorocketmq\nfrom ..broker import x\n")
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the linter says about a package with all the wrong imports, each in a module
    ``bad<number>``, by contract."""
    folder = tmp_path_factory.mktemp("broken")
    package = make_package(folder)
    for number, (_, room, line) in enumerate(BREAKS):
        package.joinpath(*room.split("."), f"bad{number}.py").write_text(line + "\n")
    result = lint(folder)
    assert result.returncode == 1, result.stdout + result.stderr
    sections = re.split(
        r"^(.*)\n-+\n", result.stdout.partition("Broken contracts\n")[2], flags=re.MULTILINE
    )
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.mark.parametrize("number", range(len(BREAKS)), ids=lambda number: "-".join(BREAKS[number]))
def test_a_wrong_import_breaks_its_contract(complaints: dict[str, str], number: int) -> None:
    contract = BREAKS[number][0]
    assert re.search(rf"\bbad{number}\b", complaints[NAME_OF[contract]])


def test_every_contract_is_broken_once() -> None:
    assert {contract for contract, _, _ in BREAKS} == set(NAME_OF)
