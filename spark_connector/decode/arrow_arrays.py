"""Arrow arrays straight from memory.

``pyarrow.array``, ``scalar`` and ``to_numpy`` look whether they deal with pandas, and import it for
that: a quarter of a second in the first task of every process. These do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["from_numbers", "from_texts", "struct_type"]


def from_numbers(
    values: np.ndarray[Any, np.dtype[Any]], *, missing: np.ndarray[Any, Any] | None = None
) -> pa.Array:
    """Numbers of numpy, which are not copied; null where they are ``missing``."""
    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(
        kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))]
    )


def from_texts(texts: Sequence[str]) -> pa.Array:
    """A few strings, none of them null."""
    encoded = [text.encode() for text in texts]
    edges = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def struct_type(names: Sequence[str], struct: Struct) -> Any:
    """Of numpy, for rows of a big-endian Struct whose format has one letter for each field."""
    codes = [f">{code}" for code in struct.format[1:]]
    return np.dtype(list(zip(names, codes, strict=True)))
