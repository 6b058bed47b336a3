from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.processors.pull import wanted_tags
from aiorocketmq.broker.processors.send import without_wait
from aiorocketmq.remoting.protocol.message import tags_code
from aiorocketmq.remoting.protocol.properties import decode_properties

names = st.sampled_from(["WAIT", "AWAIT", "TAGS", "KEYS", "W", "WAITING"])
values = st.text(alphabet="true\x01abWAIT", min_size=1, max_size=8)
pairs = st.lists(st.tuples(names, values), max_size=6)


@given(pairs, st.booleans())
def test_wait_is_taken_out_and_nothing_else(properties: list[tuple[str, str]], trailing: bool) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties) + ("\x02" if trailing else "")
    left = decode_properties(without_wait(text))
    assert left == {name: value for name, value in decode_properties(text).items() if name != "WAIT"}


def test_wanted_tags() -> None:
    assert wanted_tags(None) is wanted_tags("") is wanted_tags("*") is None
    assert wanted_tags(" TagA|| TagB ||") == {tags_code("TagA"), tags_code("TagB")}
