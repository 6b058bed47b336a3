"""Key-value configuration: what it answers and how it looks in a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.namesrv.kv_config import (
    ENTRY_BYTES,
    MAX_BYTES,
    ORDER_TOPIC_CONFIG,
    KvConfig,
    KvConfigError,
)

texts = st.text(st.characters(codec="utf-8"), max_size=8)


def test_put_get_delete() -> None:
    config = KvConfig()
    assert config.namespace("N") is None
    config.put("N", "k", "1")
    config.put("N", "k", "2")
    config.put("N", "l", "3")
    assert (config.get("N", "k"), config.get("N", "x"), config.get("M", "k")) == ("2", None, None)
    assert config.namespace("N") == {"k": "2", "l": "3"}
    config.delete("N", "k")
    config.delete("N", "k")
    config.delete("M", "k")
    assert config.namespace("N") == {"l": "3"}
    assert config.namespace("M") is None


def test_an_emptied_namespace_stays() -> None:
    config = KvConfig({"N": {"k": "1"}})
    config.delete("N", "k")
    assert config.namespace("N") == {}


def test_the_file_is_that_of_the_original() -> None:
    text = '{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}'
    config = KvConfig.from_json(text)
    assert config.get(ORDER_TOPIC_CONFIG, "T") == "broker-a:4"
    assert config.to_json() == text


def test_what_the_original_lets_in_is_read() -> None:
    config = KvConfig.from_json('{"configTable":{"N":{"k":null,"n":4,}},"more":1}')
    assert config.namespace("N") == {"n": "4"}
    config = KvConfig.from_json("{'configTable':{7:{8:9}}}")
    assert config.namespace("7") == {"8": "9"}


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "{}", '{"configTable":[]}', '{"configTable":{"N":"k"}}']
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(KvConfigError):
        KvConfig.from_json(text)


def test_a_key_that_is_read_as_something_else_is_refused() -> None:
    config = KvConfig()
    with pytest.raises(KvConfigError, match="cannot be a key"):
        config.put("N", "$ref", "v")
    assert config.namespaces() == []
    config.put("$ref", "k", "$ref")
    assert KvConfig.from_json(config.to_json()).namespace("$ref") == {"k": "$ref"}


@given(
    st.dictionaries(
        texts,
        st.dictionaries(texts.filter(lambda key: key != "$ref"), texts, max_size=3),
        max_size=3,
    )
)
def test_files_round_trip(table: dict[str, dict[str, str]]) -> None:
    text = KvConfig(table).to_json()
    assert "\n" not in text
    again = KvConfig.from_json(text)
    assert {namespace: again.namespace(namespace) for namespace in table} == table


def test_the_table_has_an_end() -> None:
    config = KvConfig({"N": {"k": "1"}})
    half = "v" * (MAX_BYTES // 2 - ENTRY_BYTES)
    config.put("N", "a", half)
    with pytest.raises(KvConfigError, match="does not fit"):
        config.put("M", "b", half)
    assert config.namespace("M") is None
    config.put("N", "a", half[1:])  # what makes it smaller is always possible
    config.delete("N", "a")
    config.put("M", "b", half)
    assert config.get("M", "b") == half


@pytest.mark.parametrize(
    "value", ["", "\1" * 1000, "\U0001f600" * 1000], ids=["nothing", "escaped", "emoji"]
)
def test_a_namespace_fits_into_an_answer_whatever_it_holds(value: str) -> None:
    """Also entries of nothing have an end: each takes its time."""
    config = KvConfig()

    def fill() -> None:
        for number in range(MAX_BYTES // ENTRY_BYTES + 1):
            config.put("N", str(number), value)

    with pytest.raises(KvConfigError, match="does not fit"):
        fill()
    assert len(config.to_json().encode()) <= MAX_BYTES
    for key in list(config.namespace("N") or ()):
        config.delete("N", key)
    config.put("N", "all", "v" * (MAX_BYTES - 2 * ENTRY_BYTES))
