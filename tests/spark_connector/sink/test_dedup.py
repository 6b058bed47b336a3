"""Ids are the same again when the same rows are written again, and differ otherwise."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.spark_connector.sink.dedup import key_ids, scope_of


@pytest.mark.parametrize(
    ("write", "batch_id", "partition", "scope"),
    [
        ("query", "7", 3, "query/7/3/"),
        ("write", None, 0, "write/0/"),
        ("query", "7", None, "query/7/k/"),
    ],
)
def test_what_the_ids_of_a_task_begin_with(
    write: str, batch_id: str | None, partition: int | None, scope: str
) -> None:
    assert scope_of(write, batch_id, partition) == scope


def test_scopes_differ() -> None:
    writes, batches, partitions = ("q", "r"), ("1", "11", None), (1, 11, None)
    scopes = [scope_of(w, b, p) for w in writes for b in batches for p in partitions]
    assert len(set(scopes)) == len(scopes)


COLUMNS = st.lists(
    st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-20, 20)),
    min_size=1,
    max_size=20,
)


@given(COLUMNS, st.randoms(use_true_random=False))
def test_keys_alone_make_the_id(rows: list[tuple[str | None, int | None]], random: object) -> None:
    def ids(some: list[tuple[str | None, int | None]]) -> list[bytes]:
        texts, numbers = zip(*some, strict=True)
        return key_ids([pa.array(texts, pa.string()), pa.array(numbers, pa.int64())]).to_pylist()  # type: ignore[no-any-return]

    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    by_row = dict(zip(rows, ids(rows), strict=True))
    assert ids(mixed) == [by_row[row] for row in mixed]
    assert len(set(by_row.values())) == len(set(rows))


def test_neighbouring_columns_do_not_run_together() -> None:
    first = key_ids(
        [pa.array(["ab", "a", "", "a\x01b", "a"]), pa.array(["c", "bc", "abc", "c", "b\x01c"])]
    ).to_pylist()
    assert len(set(first)) == 5
    assert key_ids([pa.array([b"a"], pa.binary())]) == key_ids([pa.array(["a"])])
