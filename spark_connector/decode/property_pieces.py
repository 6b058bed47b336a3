"""Named properties of many records, and all of them as a map: taken from where they lie.

A leaf says where the pairs are (``remoting/protocol/record/property_pairs``); it leaves strings
that are not ASCII to ``decode_properties``, which takes a copy apart.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...remoting.protocol.record.property_pairs import property_edges, property_maps
from .decode_properties import PropertyTable
from .record_arrays import Array, RecordArrays, gather

__all__ = ["Properties"]


class Properties:
    """Those of some records."""

    def __init__(self, records: RecordArrays, names: Sequence[str]) -> None:
        """``names``: of which there is to be a column."""
        self._records: Final = records
        self._strings: Final = records.octets, records.properties_at, records.ends
        edges = property_edges(*self._strings, [name.encode() for name in names])
        columns = None if edges is None else [np.frombuffer(each, np.int32) for each in edges]
        self._edges: dict[str, tuple[Array, Array]] | None = (
            None
            if columns is None
            else dict(zip(names, zip(columns[::2], columns[1::2], strict=True), strict=True))
        )

    @functools.cached_property
    def _table(self) -> PropertyTable:
        return PropertyTable(self._records)

    def column(self, name: str) -> pa.Array:
        """The values of one of the properties, null where a record does not have it."""
        if self._edges is None:
            return self._table.column(name)
        begins, ends = self._edges[name]
        return gather(self._records.octets, begins, ends, pa.string(), missing=begins == 0)

    def maps(self) -> pa.Array:
        """All properties of every record."""
        if self._edges is None or (found := property_maps(*self._strings)) is None:
            return self._table.maps()
        firsts, *parts = map(pa.py_buffer, found)
        count = len(found[1]) - 1
        names, values = (
            pa.Array.from_buffers(pa.string(), count, [None, *parts[side : side + 2]])
            for side in (0, 2)
        )
        offsets = pa.Array.from_buffers(pa.int32(), len(found[0]), [None, firsts])
        return pa.MapArray.from_arrays(offsets, names, values)
