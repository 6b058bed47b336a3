"""Arrow arrays without pandas are the same as with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("numpy", reason="the extra [spark] is not installed")
pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.spark_connector.decode.arrow_arrays import from_numbers, from_texts

from ..stored_records import Stored, joined, properties


@given(
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.booleans()), max_size=40),
    st.sampled_from(["i4", "i8"]),
)
def test_numbers(rows: list[tuple[int, bool]], kind: str) -> None:
    values = np.array([value for value, _ in rows], kind)
    missing = np.array([gone for _, gone in rows], bool)
    for array, expected in (
        (from_numbers(values), pa.array(values)),
        (from_numbers(values[::2]), pa.array(values[::2])),
        (from_numbers(values, missing=missing), pa.array(values, mask=missing)),
    ):
        array.validate(full=True)
        assert array.equals(expected)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=10))
def test_texts(texts: list[str]) -> None:
    array = from_texts(texts)
    array.validate(full=True)
    assert array.equals(pa.array(texts, pa.string()))


READ = """
import sys
from aiorocketmq.spark_connector.decode.decode import DecodeOptions, decode_records
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS
records = bytes.fromhex(sys.argv[1])
options = DecodeOptions(broker_name="b", check_crc=True)
(batch,) = decode_records(records, tuple(SOURCE_COLUMNS), options)
print(batch.num_rows, "pandas" in sys.modules)
"""


def test_the_first_task_of_a_process_imports_no_pandas() -> None:
    pairs = (
        properties(KEYS="k", TAGS="t", UNIQ_KEY="u", own="1"),
        b"",
        properties(own="2", KEYS="l"),
    )
    records = joined(
        *(Stored(queue_offset=place, properties=each) for place, each in enumerate(pairs))
    )
    done = subprocess.run(
        [sys.executable, "-c", READ, records.hex()], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "False"]
