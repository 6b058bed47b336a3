"""Named properties of many records, and all of them as a map.

A leaf makes the columns (``remoting/protocol/record/property_pairs``); it leaves strings that are
not ASCII to ``decode_properties``, which takes a copy of them apart.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...remoting.protocol.record.property_pairs import property_columns
from .decode_properties import PropertyTable

if TYPE_CHECKING:
    from .record_arrays import RecordArrays

__all__ = ["Properties"]


class Properties:
    """Those of some records."""

    def __init__(
        self, records: RecordArrays, names: Sequence[str], *, with_maps: bool = False
    ) -> None:
        """``names``: of which there is to be a column."""
        self._records: Final = records
        self._found: Final = property_columns(
            records.octets,
            records.properties_at,
            records.ends,
            [name.encode() for name in names],
            with_maps,
        )
        self._places: Final = {name: number for number, name in enumerate(names)}

    @functools.cached_property
    def _table(self) -> PropertyTable:
        return PropertyTable(self._records)

    def column(self, name: str) -> pa.Array:
        """The values of one of the properties, null where a record does not have it."""
        if self._found is None:
            return self._table.column(name)
        return _texts(*self._found[0][self._places[name]])

    def maps(self) -> pa.Array:
        """All properties of every record; if they were asked for."""
        if self._found is None or self._found[1] is None:
            return self._table.maps()
        firsts, name_ends, names, value_ends, values = self._found[1]
        offsets = pa.Array.from_buffers(pa.int32(), len(firsts), [None, pa.py_buffer(firsts)])
        return pa.MapArray.from_arrays(
            offsets, _texts(None, name_ends, names), _texts(None, value_ends, values)
        )


def _texts(there: Any, ends: Any, octets: Any) -> pa.Array:
    buffers = [None if there is None else pa.py_buffer(there), *map(pa.py_buffer, (ends, octets))]
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)
