"""Everything is in pyproject.toml but the compiled leaves: built where there is a C compiler, left
out elsewhere."""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("remoting/protocol/leaves")


def leaves() -> list[Extension]:
    if (
        sys.implementation.name != "cpython"
    ):  # PyPy compiles Python itself, and C calls cost it more than they save
        return []
    from Cython.Build import cythonize

    rules = runpy.run_path(str(FOLDER / "sources.py"))
    baked, text = (
        FOLDER / rules["BAKED_INTO"],
        f"#define LEAVES_BUILT_FROM {rules['fingerprint'](FOLDER)}u\n",
    )
    changed = not baked.exists() or baked.read_text() != text
    if changed:  # and newer than what was built before, so that it is built again
        baked.write_text(text)
    flags = ["-O3", "-g0", *os.environ.get("LEAVES_CFLAGS", "").split()]
    module = Extension(
        "aiorocketmq.remoting.protocol.leaves._compiled",
        [str(FOLDER / "_compiled.pyx")],
        include_dirs=[str(FOLDER)],
        depends=[str(path) for path in (*rules["sources"](FOLDER), baked)],
        extra_compile_args=flags,
        extra_link_args=flags,
    )
    (module,) = cythonize([module], build_dir="build/cython", force=changed)
    module.optional = (
        True  # without a compiler the Python twins do the work (cythonize would forget it)
    )
    return [module]


setup(ext_modules=leaves())
