"""Items of a batch body (``batch.py``) out of columns, without an object for each.

A column of texts is what Arrow has: 32-bit numbers, where the first one begins and each one ends,
and the bytes.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from ..leaves import leaf
from .layout import BATCH_ITEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    Piece = bytes | range | tuple[bytes, Buffer, Buffer]

__all__ = ["join_items"]

_MOST_PIECES: Final = 16
_MOST_OF_DATA: Final = 2**31 - 1


@leaf
def join_items(
    body_ends: Buffer, bodies: Buffer, flags: Buffer | None, pieces: Sequence[Piece], /
) -> tuple[array[int], array[int], int]:
    """An item for each body: where the first one begins and each one ends, the bytes, and how long
    the longest property string is (it is cut to 16 bits where its length is written).

    A property string is made of pieces: what is the same in all of them, the decimal digits of a
    number that counts up, or a text behind a prefix, nothing where the text is empty. ``flags`` are
    32-bit numbers, of each message. Raises ValueError where columns are not as long as others,
    texts do not lie in their bytes, there are more than 16 pieces or all is longer than 2 GiB.
    """
    texts = _texts(body_ends, bodies)
    count = len(texts)
    numbers = bytes(4 * count) if flags is None else memoryview(flags).cast("B")
    if len(pieces) > _MOST_PIECES:
        raise ValueError(f"{len(pieces)} pieces are more than {_MOST_PIECES}")
    columns = [_column(piece, count) for piece in pieces]
    if len(numbers) != 4 * count or any(len(column) != count for column in columns):
        raise ValueError(f"not all columns have {count} rows")
    items, longest = [], 0
    for text, flag, *some in zip(texts, memoryview(numbers).cast("i"), *columns, strict=True):
        properties = b"".join(some)
        longest, size = max(longest, len(properties)), len(properties)
        head = BATCH_ITEM.pack(BATCH_ITEM.size + 2 + len(text) + size, 0, 0, flag, len(text))
        items.append(b"".join((head, text, (size & 0xFFFF).to_bytes(2, "big"), properties)))
    if sum(map(len, items)) > _MOST_OF_DATA:
        raise ValueError("these items take more than 2 GiB")
    return array("i", accumulate(map(len, items), initial=0)), array("B", b"".join(items)), longest


def _column(piece: Piece, count: int) -> list[bytes]:
    if isinstance(piece, bytes):
        return [piece] * count
    if isinstance(piece, range):
        if piece.start < 0 or piece.step != 1:
            raise ValueError(f"{piece} does not count up from 0 or more")
        return [b"%d" % number for number in piece]
    prefix, ends, data = piece
    return [prefix + text if text else b"" for text in _texts(ends, data)]


def _texts(ends: Buffer, data: Buffer) -> list[bytes]:
    view = memoryview(data).cast("B")
    edges = memoryview(ends).cast("B").cast("i").tolist()
    if not edges:
        raise ValueError("where the first text begins is not told")
    for row, (begin, end) in enumerate(pairwise(edges)):
        if not 0 <= begin <= end <= len(view):
            raise ValueError(f"text {row} is not in {len(view)} bytes")
    return [bytes(view[begin:end]) for begin, end in pairwise(edges)]
