from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.processors.pull import wanted_tags
from aiorocketmq.remoting.protocol.message.properties import decode_properties, tags_code
from aiorocketmq.remoting.protocol.record.stored_properties import StoredProperties, without_wait

names = st.sampled_from(["WAIT", "AWAIT", "TAGS", "KEYS", "W", "WAITING"])
values = st.text(alphabet="true\x01abWAIT", min_size=1, max_size=8)
pairs = st.lists(st.tuples(names, values), max_size=6)


@given(pairs, st.booleans())
def test_wait_is_taken_out_and_nothing_else(
    properties: list[tuple[str, str]], trailing: bool
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties) + (
        "\x02" if trailing else ""
    )
    left = decode_properties(without_wait(text))
    assert left == {
        name: value for name, value in decode_properties(text).items() if name != "WAIT"
    }


rests = st.lists(
    st.tuples(
        st.sampled_from(["WAIT", "TAGS", "KEYS", "UNIQ_KEY", "a"]), st.text("ab\x01", max_size=2)
    ),
    max_size=5,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["UNIQ_KEY\x01U", "UNIQ_KEY\x01V", "UNIQ_KEY\x01", "k\x01v", ""]), rests
        ),
        min_size=2,
        max_size=6,
    )
)
def test_what_is_remembered_is_what_is_worked_out(
    messages: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    stored = StoredProperties("C")
    for first, rest in messages * 2:
        text = "\x02".join([first, *(f"{name}\x01{value}" for name, value in rest)])
        rewritten = stored.rewrite(text)
        assert rewritten is not None
        properties, code = rewritten
        expected = {
            name: value for name, value in decode_properties(text).items() if name != "WAIT"
        } | {"CLUSTER": "C"}
        assert decode_properties(properties) == expected
        assert code == tags_code(expected.get("TAGS"))


def test_a_usual_message() -> None:
    for _ in range(2):
        stored = StoredProperties("C").rewrite("UNIQ_KEY\x01ABC\x02WAIT\x01true\x02TAGS\x01t")
        assert stored == (b"UNIQ_KEY\x01ABC\x02TAGS\x01t\x02CLUSTER\x01C", tags_code("t"))


def test_wanted_tags() -> None:
    assert wanted_tags(None) is wanted_tags("") is wanted_tags("*") is None
    assert wanted_tags(" TagA|| TagB ||") == frozenset((tags_code("TagA"), tags_code("TagB")))


def test_what_does_not_go_to_its_topic_is_told_apart_every_time() -> None:
    stored = StoredProperties("C")
    for _ in range(2):
        for usual in ("DELAY\x010", "XDELAY\x013", "TRAN_MSG\x01false", "DELAY\x01"):
            assert stored.rewrite(f"UNIQ_KEY\x01U\x02{usual}") is not None
        for unusual in ("DELAY\x013", "DELAY\x01x", "TRAN_MSG\x01TRUE"):
            assert stored.rewrite(f"UNIQ_KEY\x01U\x02{unusual}") is None
