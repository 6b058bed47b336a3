"""The advice what to install works for the Python that runs, and names extras that exist."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

from aiorocketmq.remoting.protocol.extras import install_command

REPOSITORY = Path(__file__).resolve().parents[3]


def test_it_is_the_pip_of_this_python() -> None:
    """Who starts ``.venv/bin/mqbroker`` of a clone has no environment that is active."""
    words = shlex.split(install_command("lz4"))
    assert words == [sys.executable, "-m", "pip", "install", "aiorocketmq[lz4]"]


def test_all_advice_has_that_form_and_its_extra_exists() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    rooms = {*project["tool"]["setuptools"]["package-dir"].values()}
    code = {
        path: path.read_text("utf-8")
        for room in rooms
        for path in (REPOSITORY / room).rglob("*.py")
        if path.name != "extras.py"
    }
    others = [str(path) for path, text in code.items() if re.search(r"pip install '?aio", text)]
    assert others == []
    named = {
        extra for text in code.values() for extra in re.findall(r'install_command\("(\w+)"', text)
    }
    extras = {*project["project"]["optional-dependencies"]}
    assert named | {"console", "otel", "prometheus", "lz4", "zstd"} <= extras
