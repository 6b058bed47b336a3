"""Logs of entries, made without what writes them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.protocol.record.entry import ENTRY_HEAD, entry_blank, entry_head

from ..test_record import fields, sample

START = 1 << 40
HEAD = 48


def entry_of(record: dict[str, Any], index: int, term: int, pos: int) -> bytes:
    """One whose record says that it lies where it does."""
    encoded = encode_record(NewRecord(**record | {"phy_offset": pos + HEAD}))
    return entry_head(index, term, pos, len(encoded)) + encoded


def entries_of(
    bodies: list[bytes], *, index: int = 0, terms: list[int] | None = None, place: int = START
) -> bytes:
    """Side by side, from ``place`` on."""
    log = b""
    for number, body in enumerate(bodies):
        term = terms[number] if terms else 1
        record = sample(phy_offset=place + len(log) + HEAD, body=body)
        log += entry_head(index + number, term, place + len(log), len(record)) + record
    return log


@st.composite
def entry_logs(draw: st.DrawFn) -> bytes:
    """Intact ones, or with damage, cut short, ended by a blank or zeros."""
    log, term = b"", draw(st.integers(0, 3))
    index = draw(st.sampled_from([0, 7]))
    for record in draw(st.lists(fields, max_size=5)):
        log += entry_of(record, index, term, START + len(log))
        term += draw(st.sampled_from([0, 0, 0, 1, -1]))
        index += draw(st.sampled_from([1, 1, 1, 1, 1, 2, 0]))
    for _ in range(draw(st.integers(0, 2)) if log else 0):
        at = draw(st.integers(0, min(len(log) - 1, draw(st.sampled_from([47, 10_000])))))
        zeros = draw(st.sampled_from([0, 1, 8, 512]))
        damage = bytes(min(zeros, len(log) - at)) or bytes([log[at] ^ draw(st.integers(1, 255))])
        log = log[:at] + damage + log[at + len(damage) :]
    log = log[: len(log) - draw(st.integers(0, min(len(log), 60)))]
    return log + draw(st.sampled_from([b"", entry_blank(9) + b"x", bytes(100)]))


def changed_head(entry: bytes, **fields_of_head: int) -> bytes:
    """The same record behind another head."""
    names = (
        "magic",
        "size",
        "index",
        "term",
        "pos",
        "channel",
        "chain_crc",
        "body_crc",
        "body_size",
    )
    values = dict(zip(names, ENTRY_HEAD.unpack_from(entry), strict=True)) | fields_of_head
    return ENTRY_HEAD.pack(*values.values()) + entry[HEAD:]
