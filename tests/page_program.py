"""Runs the Python blocks of a page one after the other, as ``python -m asyncio`` would, against a
cluster in its process. It imports nothing of the tests: the Python that runs it has a wheel.

    python -P page_program.py FOLDER < list of blocks as JSON
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from aiorocketmq import LocalCluster


async def main(blocks: list[str], folder: Path) -> None:
    names: dict[str, Any] = {"folder": folder}
    async with asyncio.timeout(100), LocalCluster() as cluster:
        for number, code in enumerate(blocks):
            code = code.replace("localhost:9876", cluster.namesrv_address)
            program = compile(code, f"block {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(program, names)
            if inspect.isawaitable(outcome):
                await outcome


if __name__ == "__main__":
    asyncio.run(main(json.load(sys.stdin), Path(sys.argv[1])))
