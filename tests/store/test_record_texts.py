"""Texts of one length are read as texts of any lengths are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.index_keys import only_key
from aiorocketmq.remoting.protocol.properties import tags_code_of
from aiorocketmq.store.record_texts import KEY_SIZE, Rows, Spans, Tags, TagsReader, distinct, first_false

numpy: Any = pytest.importorskip("numpy")

KEYS = st.sampled_from([b"0" * KEY_SIZE, b"7F0000010000" + b"A" * 20, b"\x02" + b"b" * 31, b"c" * 31 + b"\x02"])
ENDS = st.sampled_from(
    [b"", b"\x02TAGS\x01TagA", b"\x02TAGS\x01TagB", b"\x02KEYS\x01abcd", b"xTA\x02TAGS\x01T", b"\x02TAGS\x01T\x02A\x01"]
)
USUAL = st.tuples(st.just(b"UNIQ_KEY\x01"), KEYS, ENDS).map(b"".join)


def of_one_length(texts: list[bytes]) -> list[bytes]:
    return [text for text in texts if len(text) == len(texts[0])]


LISTS = st.lists(st.one_of(USUAL, USUAL, st.binary(max_size=12)), min_size=1, max_size=60).map(of_one_length)
FEW_TEXTS = st.lists(st.sampled_from([b"", b"a", b"b", b"abcdefgh", b"abcdefgi", b"topic-one", b"topic-two"]), min_size=1)
MANY_TEXTS = st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=60)


def laid_out(texts: list[bytes], gap: int = 7) -> tuple[Spans, list[Rows]]:
    """The same texts three ways: wherever they are, at equal distances, and gathered."""
    distance = len(texts[0]) + gap
    data = b"".join(bytes(gap) + text for text in texts) + bytes(50)
    begins = gap + numpy.arange(len(texts)) * distance
    spans = Spans(data, begins, begins + len(texts[0]))
    rows = Rows(data, gap, distance, len(texts), len(texts[0]))
    return spans, [rows, Rows.gathered(data, begins, len(texts[0]))] if texts[0] else [rows]


@given(st.one_of(LISTS, FEW_TEXTS.map(of_one_length), MANY_TEXTS))
def test_each_text_is_found_once(texts: list[bytes]) -> None:
    spans, rows = laid_out(texts)
    for given_ in (spans, *rows):
        numbers, different = distinct(given_)
        assert [different[number] for number in numbers.tolist()] == texts == given_.all()
        assert len(set(different)) == len(different)
        assert given_.text(-1) == texts[-1]
        assert given_.first(1).all() == texts[:1]
        assert given_.of(numpy.arange(len(texts))[::-1]).all() == texts[::-1]


@given(st.one_of(LISTS, FEW_TEXTS.map(of_one_length), MANY_TEXTS), st.integers(0, 12))
def test_texts_that_begin_alike_are_known_to(texts: list[bytes], length: int) -> None:
    length = min(length, len(texts[0]))
    for rows in laid_out(texts)[1]:
        known = rows.alike(length)
        assert (known is not None) == (len({text[:length] for text in texts}) == 1)
        if known is not None:
            assert known.part(1, len(texts[0])).known == max(0, length - 1)
            for part in (known, known.part(0, length)):
                numbers, different = distinct(part)
                assert [different[number] for number in numbers.tolist()] == part.all()
            assert TagsReader().read(known).codes.tolist() == [tags_code_of(text) for text in texts]


@given(LISTS)
def test_tags_and_keys_are_those_of_each_text(texts: list[bytes]) -> None:
    spans, rows = laid_out(texts)
    for given_ in (spans, *rows):
        tags: Tags = TagsReader().read(given_)
        assert tags.codes.tolist() == [tags_code_of(text) for text in texts]
        for text, only, key in zip(texts, tags.has_only_key.tolist(), tags.keys, strict=True):
            if only:
                assert bytes(key) == only_key(text)


def test_usual_texts_have_only_keys() -> None:
    texts = [b"UNIQ_KEY\x01%032d\x02TAGS\x01TagA" % number for number in range(40)]
    for rows in laid_out(texts)[1]:
        tags = TagsReader().read(rows)
        assert tags.has_only_key.all()
        assert [bytes(key) for key in tags.keys] == [b"%032d" % number for number in range(40)]


@given(st.lists(st.booleans()))
def test_how_many_are_true_in_front(flags: list[bool]) -> None:
    assert first_false(numpy.array(flags, numpy.bool_)) == [*flags, False].index(False)
