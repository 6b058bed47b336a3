"""Workers are forked from a daemon that has imported what they need, and are as independent as if
each had done so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="the extra [spark] is not installed")


def test_workers_come_from_our_daemon_and_draw_numbers_of_their_own(spark: SparkSession) -> None:
    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        import gc
        import os
        import random
        import sys
        import time
        from pathlib import Path

        imported = {"pandas", "pyarrow", "aiorocketmq.spark_connector.sink.sink"} <= set(
            sys.modules
        )
        import numpy as np
        import pandas as pd

        time.sleep(0.5)  # both tasks run at once, in two processes
        list(batches)
        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")[2].decode()
        yield pd.DataFrame(
            {
                "pid": [os.getpid()],
                "parent": parent,
                "imported": imported and gc.get_freeze_count() > 10_000,
                "theirs": random.random(),
                "numpy": np.random.random(),
            }
        )

    schema = "pid long, parent string, imported boolean, theirs double, numpy double"
    rows = spark.range(0, 2, 1, 2).mapInPandas(tell, schema).collect()
    assert {row.parent for row in rows} == {"aiorocketmq.spark_connector.session.worker_daemon"}
    assert all(row.imported for row in rows)
    assert (
        len({row.pid for row in rows})
        == len({row.theirs for row in rows})
        == len({row.numpy for row in rows})
        == 2
    )
