"""The compiled leaves, held against their twins in Python: one row for each target of
``tests/remoting/protocol/leaves/fuzz.py``, which ``make sanitize`` runs as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from aiorocketmq.remoting.protocol.leaves import KIND

from .parsers import Parser, Run

_RECORD: Final = "remoting/protocol/record/"
_LEAVES: Final = "remoting/protocol/leaves/"
_FRAME: Final = (_LEAVES + "pure_frames.py: MAX_FRAME_BYTES",)
FUNCTIONS: Final = {
    "JSON headers": (_LEAVES + "pure_headers.py: Headers.read",),
    "binary headers": (_LEAVES + "pure_binary_headers.py: BinaryHeaders.read",),
    "what is signed, JSON": (_LEAVES + "pure_headers.py: Headers.signed",),
    "what is signed, binary": (_LEAVES + "pure_headers.py: Headers.signed",),
    "frames": (_LEAVES + "pure_frames.py: split_frames",),
    "CRC": (_LEAVES + "pure_checksums.py: crc32",),
    "answers": (_LEAVES + "pure_answers.py: FrameTemplate.fill",),
    "headers with texts": (_LEAVES + "pure_answers.py: FrameTemplate.header",),
    "headers of answers": (_LEAVES + "pure_replies.py: Replies.read",),
    "index entries": (_LEAVES + "pure_index.py: KeyEntries.add",),
    "chains": (_LEAVES + "pure_index.py: chain_items",),
    "units": (_RECORD + "units.py: believed_units",),
    "records": (_RECORD + "scan.py: scan_columns",),
    "entries of a log": (_RECORD + "entries.py: entry_units",),
    "stretches": (_RECORD + "scan.py: stretch_columns",),
    "pairs of properties": (_RECORD + "property_pairs.py: property_columns",),
    "items of a batch": (_RECORD + "batch_items.py: join_items",),
    "pulls": (_RECORD + "pull.py: join_records", _RECORD + "pull.py: _unpacked"),
    "messages": (_RECORD + "decode.py: read_records",),
    "units and entries of records": (_RECORD + "units.py: queue_runs",),
    "properties to store": (_RECORD + "stored_properties.py: stored_properties",),
    "records to write": (_RECORD + "ends.py: put_record",),
    "batches": (_RECORD + "batch_records.py: batch_size",),
}


def _rows() -> tuple[Parser, ...]:
    from ..remoting.protocol.leaves.fuzz import Target, targets

    def seeds_of(target: Target) -> Callable[[], Iterable[bytes]]:
        return lambda: target.seeds

    def run_of(target: Target) -> Run:
        """Where the leaf leaves an input to the general rule, that is its answer."""

        def run(data: bytes) -> object:
            found = target.leaf(data)
            return target.twin(data) if found is None and target.none_is_left_alone else found

        return run

    return tuple(
        Parser(
            "leaf-" + target.name.replace(",", "").replace(" ", "-"),
            FUNCTIONS[target.name],
            _FRAME,
            run_of(target),
            twin=target.twin,
            bytes_per_byte=600,
            seeds=seeds_of(target),
        )
        for target in targets()
    )


PARSERS: Final = _rows() if KIND == "compiled" else ()
"""None where the leaves were not compiled: then there are only the twins."""
