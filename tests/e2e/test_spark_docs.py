"""The blocks of pages that are about Spark, on an installed wheel: all in one session of a process
of its own, those of a page one after the other (test_docs.py has the others)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from aiorocketmq.spark_connector.local import spark_problem

from ..installed import Environment
from ..pages import REPOSITORY, blocks

PROGRAM = REPOSITORY / "tests" / "spark_page_program.py"


@pytest.mark.skipif(spark_problem() is not None, reason="needs Java 17 and the extra [spark]")
def test_blocks(installed: Environment, tmp_path: Path) -> None:
    code = [(block.language, block.code) for block in blocks() if block.of_spark]
    done = subprocess.run(
        [installed.python, "-P", PROGRAM, tmp_path], input=json.dumps(code), cwd=tmp_path,
        env=installed.variables, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
