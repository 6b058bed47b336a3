"""The C of the leaves builds with every CPython: what fails there leaves the twins, without a word
but their slowness."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.leaves.sources import sources

from .both import SOURCES

COMPILER = shutil.which("cc")
PYTHON_H = Path(sysconfig.get_path("include"))


def test_nothing_private_of_python_is_used() -> None:
    """It comes and goes with versions: an undeclared function is an error for newer compilers."""
    private = {path.name: re.findall(r"\b_Py\w+", path.read_text()) for path in sources(SOURCES)}
    assert not {name: found for name, found in private.items() if found}


@pytest.mark.skipif(
    not COMPILER or not (PYTHON_H / "internal/pycore_code.h").exists(),
    reason="no C compiler or no Python.h",
)
def test_no_name_is_taken_by_python_itself(tmp_path: Path) -> None:
    """What Cython makes includes internal headers behind ours, in 3.12 and later those with
    ``read_u16`` and the like."""
    cython = "".join(path.read_text() for path in sources(SOURCES) if path.suffix != ".h")
    ours = "".join(
        f'#include "{name}"\n' for name in re.findall(r'cdef extern from "(\w+\.h)"', cython)
    )
    internal = (
        '#define Py_BUILD_CORE 1\n#include "internal/pycore_code.h"\n#include '
        '"internal/pycore_frame.h"\n'
    )
    (tmp_path / "all.c").write_text(ours + internal)
    flags = [
        "-fsyntax-only",
        "-Werror=implicit-function-declaration",
        f"-I{SOURCES}",
        f"-I{PYTHON_H}",
    ]
    done = subprocess.run(
        [str(COMPILER), *flags, "all.c"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
