"""The body of REGISTER_BROKER: JSON, or a packed form that leaves things out (``headers.md`` §D.1).

Class of the original: RegisterBrokerBody.

The packed form is a zlib stream of::

    4  n       n  DataVersion as JSON
    4  count   count times:  4 n   n "topicName readQueueNums writeQueueNums perm topicFilterType"
    4  n       n  JSON array of filter servers

``topic_sys_flag`` and ``order`` are not in it. Brokers of 5.x add a sixth word to each topic and
more data at the end; both are read over here (the original of 4.9 refuses the sixth word: quirk
``SIX_WORDS_IN_PACKED_TOPIC``).
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from struct import Struct

from msgspec import field

from ..wire import Record
from .codec import BodyError, decode_request_body, encode_body
from .topic_config import DataVersion, TopicConfig, TopicConfigTable, TopicFilterType

MAX_UNPACKED_BYTES = 32 * 1024 * 1024
"""A packed body that grows over this is refused: a frame of 16 MiB could hold 16 GiB of zeros."""
MAX_TOPICS = 200_000
"""A body with more topics is refused, unless somebody sets another limit."""

_INFLATED_AT_ONCE = 1 << 20
_READ_AT_ONCE = 2000
_INT = Struct(">i")


class RegisterBrokerBody(Record, frozen=True, kw_only=True):
    """What a broker has. (Brokers before V3_0_11 send the TopicConfigTable alone.)"""

    topic_config_table: TopicConfigTable = field(
        name="topicConfigSerializeWrapper", default_factory=TopicConfigTable
    )
    filter_server_list: list[str] = field(default_factory=list)


def body_crc32(body: bytes | memoryview) -> int:
    """The ``bodyCrc32`` of a body as it is sent: 31 bits, and 0 would mean "not checked"."""
    return zlib.crc32(body) & 0x7FFFFFFF


def pack_registration(body: RegisterBrokerBody) -> bytes:
    """The packed form, for ``compressed=true``."""
    topics = body.topic_config_table.topic_config_table.values()
    parts = [_sized(encode_body(body.topic_config_table.data_version)), _INT.pack(len(topics))]
    parts += [_sized(_topic_line(topic).encode()) for topic in topics]
    parts.append(_sized(encode_body(body.filter_server_list)))
    return zlib.compress(b"".join(parts), 9)


def unpack_registration(
    data: bytes | memoryview, *, max_bytes: int = MAX_UNPACKED_BYTES, max_topics: int = MAX_TOPICS
) -> Generator[None, None, RegisterBrokerBody]:
    """Read the packed form, in slices of a few milliseconds. Raises ``BodyError`` when it is
    damaged, or larger than ``max_bytes`` or ``max_topics``."""
    reader = _Reader((yield from _inflate(data, max_bytes)))
    version = decode_request_body(DataVersion, reader.sized())
    topics: dict[str, TopicConfig] = {}
    count = reader.count()
    check_topic_count(count, max_topics)
    for number in range(count):
        topic = _topic_from_line(reader.sized().decode("utf-8", "replace"))
        topics[topic.topic_name] = topic
        if number % _READ_AT_ONCE == _READ_AT_ONCE - 1:
            yield
    return RegisterBrokerBody(
        topic_config_table=TopicConfigTable(topic_config_table=topics, data_version=version),
        filter_server_list=decode_request_body(list[str], reader.sized()),
    )


def check_topic_count(count: int, max_topics: int) -> None:
    """Raises ``BodyError``."""
    if count > max_topics:
        raise BodyError(
            f"a registration of {count} topics, the limit of this name server is "
            f"maxTopicsPerRegistration={max_topics}"
        )


def _inflate(data: bytes | memoryview, max_bytes: int) -> Generator[None, None, bytes]:
    inflater = zlib.decompressobj()
    pieces: list[bytes] = []
    size, rest = 0, data
    while True:
        try:
            pieces.append(inflater.decompress(rest, _INFLATED_AT_ONCE))
        except zlib.error as error:
            raise BodyError(f"the packed registration is no zlib stream: {error}") from None
        size += len(pieces[-1])
        if size > max_bytes:
            raise BodyError(
                f"the packed registration is larger than {max_bytes} bytes, the limit of this "
                "name server (maxInflatedBytes)"
            )
        rest = inflater.unconsumed_tail
        if inflater.eof:
            return b"".join(pieces)
        if not pieces[-1]:
            raise BodyError("the packed registration ends too early")
        yield


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _topic_line(topic: TopicConfig) -> str:
    queues = f"{topic.read_queue_nums} {topic.write_queue_nums}"
    return f"{topic.topic_name} {queues} {topic.perm} {topic.topic_filter_type.value}"


def _topic_from_line(line: str) -> TopicConfig:
    words = line.split(" ", 5)
    try:
        name, read, write, perm, filter_type = words[:5]
        return TopicConfig(
            topic_name=name,
            read_queue_nums=_number(read),
            write_queue_nums=_number(write),
            perm=_number(perm),
            topic_filter_type=TopicFilterType(filter_type),
        )
    except ValueError:
        raise BodyError(
            f"cannot read the topic '{line[:200]}' of the packed registration"
        ) from None


def _number(word: str) -> int:
    if len(word) > 11:
        raise ValueError(word)
    number = int(word)
    if not -(2**31) <= number < 2**31:
        raise ValueError(word)
    return number


class _Reader:
    """Takes the unpacked bytes piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def count(self) -> int:
        """A number of things that take at least four bytes each."""
        number = self._int()
        if not 0 <= number <= (len(self._data) - self._position) // 4:
            raise BodyError(f"{number} topics do not fit into the packed registration")
        return number

    def sized(self) -> bytes:
        length = self._int()
        start = self._position
        if not 0 <= length <= len(self._data) - start:
            raise BodyError(f"{length} bytes at {start} are more than the packed registration has")
        self._position = start + length
        return self._data[start : self._position]

    def _int(self) -> int:
        if self._position + 4 > len(self._data):
            raise BodyError("the packed registration ends too early")
        (number,) = _INT.unpack_from(self._data, self._position)
        self._position += 4
        return int(number)
