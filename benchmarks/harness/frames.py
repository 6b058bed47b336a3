"""Requests as they go over the wire, made by the codec of the package itself, for the players to
send again and again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.route import GetRouteInfoRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.commands.transaction import (
    EndTransactionRequest,
    TransactionState,
)
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    ONEWAY_FLAG,
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.wire import Record, to_fields
from aiorocketmq.remoting.signature import Credentials, signature

from .draw import Draw
from .play import FIRST_OPAQUE, KEY_HOLE, Frames

TOPIC = "Benchmark"
GROUP = "Benchmark"
QUEUES = 4
PREPARED = 4
"""The bit of a half message in the sysFlag."""
_PULL_OPAQUE, _END_OPAQUE = 99_999, 99_998
_QUEUE_ID, _OFFSET, _OTHER_OFFSET = 1_234_567, 7_654_321, 7_654_322
"""Stand where a number is put in later."""
_COUNT = 256


def request(
    code: RequestCode,
    header: Record,
    body: bytes = b"",
    opaque: int = 0,
    form: SerializeType | None = None,
    draw: Draw | None = None,
    credentials: Credentials | None = None,
) -> bytes:
    """One frame; fields sorted, or in an order that is drawn. Signed with ``credentials``: what is
    signed must not have a hole for a key."""
    kind = SerializeType.JSON if form is None else form
    fields = to_fields(header)
    if credentials is not None:
        fields["AccessKey"] = credentials.access_key
        fields["Signature"] = signature(credentials.secret_key, fields, body)
    names = sorted(fields) if draw is None else draw.order(fields)
    command = RemotingCommand(
        code=code, opaque=opaque, ext_fields={name: fields[name] for name in names}
    )
    return encode_frame(kind, encode_header(command, kind), body)


def properties(*more: str) -> str:
    """Those of a plain producer, with a unique key and a tag."""
    unique = f"UNIQ_KEY\x017F0000010000000000000000{KEY_HOLE}"
    return "\x02".join((unique, "WAIT\x01true", "TAGS\x01TagA", *more))


def send_header(
    topic: str, queue_id: int, text: str, *, batch: bool = False, sys_flag: int = 0
) -> SendMessageRequestV2:
    """As a plain producer sends, with these properties."""
    return SendMessageRequestV2(
        producer_group=GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag, born_timestamp=1_700_000_000_000, flag=0, properties=text,
        reconsume_times=0, batch=batch,
    )  # fmt: skip


def sends(
    size: int = 128,
    *,
    form: SerializeType | None = None,
    queues: Iterable[tuple[str, int]] | None = None,
    draw: Draw | None = None,
    credentials: Credentials | None = None,
) -> Frames:
    """One message a request, over the queues of the topic in turn, or over these (topic, queue
    id)."""
    places = list(queues or ((TOPIC, n % QUEUES) for n in range(_COUNT)))
    places *= max(1, -(-_COUNT // len(places)))
    frames = []
    for number, (topic, queue_id) in enumerate(places):
        body = b"x" * size if draw is None else draw.body(size)
        text = properties() if draw is None else draw.properties()
        if credentials is not None:
            text = text.replace(KEY_HOLE, f"{number:08d}")
        header, opaque = send_header(topic, queue_id, text), FIRST_OPAQUE + number
        frames.append(
            request(RequestCode.SEND_MESSAGE_V2, header, body, opaque, form, draw, credentials)
        )
    return Frames(frames)


def mixture(draw: Draw, topics: list[str], places: list[tuple[int, int]], most: int) -> Frames:
    """70 of 100 requests send to these topics, four of them with a delay and four the first half of
    a transaction; the others pull ``most`` messages from these (queue id, offset) of the
    benchmark's topic. A request counts as one."""
    frames = []
    for number in range(_COUNT):
        opaque, turn = FIRST_OPAQUE + number, number * 37 % 100
        if turn >= 70:
            header: Record = pull_header(*places[number % len(places)], most)
            frames.append(request(RequestCode.PULL_MESSAGE, header, opaque=opaque, draw=draw))
            continue
        more = (
            ["DELAY\x011"]
            if turn < 4
            else ["TRAN_MSG\x01true", f"PGROUP\x01{GROUP}"]
            if turn < 8
            else []
        )
        sys_flag = PREPARED if 4 <= turn < 8 else 0
        header = send_header(
            topics[number % len(topics)], number % QUEUES, draw.properties(*more), sys_flag=sys_flag
        )
        frames.append(
            request(RequestCode.SEND_MESSAGE_V2, header, draw.body(128), opaque, draw=draw)
        )
    return Frames(frames)


def batches(
    count: int,
    size: int = 128,
    *,
    queue_ids: Iterable[int] = range(QUEUES),
    frames: int = 64,
    draw: Draw | None = None,
) -> Frames:
    """Requests with so many messages in each."""
    ids = list(queue_ids)
    made = []
    for number in range(frames):
        items = [_item(size, draw) for _ in range(count)] if draw else [_item(size)] * count
        header = send_header(TOPIC, ids[number % len(ids)], "WAIT\x01true", batch=True)
        made.append(
            request(
                RequestCode.SEND_BATCH_MESSAGE,
                header,
                encode_batch(items),
                FIRST_OPAQUE + number,
                draw=draw,
            )
        )
    return Frames(made, count)


def _item(size: int, draw: Draw | None = None) -> BatchItem:
    if draw is None:
        return BatchItem(flag=0, body=b"x" * size, properties=properties().encode())
    return BatchItem(flag=0, body=draw.body(size), properties=draw.properties().encode())


def pull_header(
    queue_id: int,
    offset: int,
    most: int,
    *,
    topic: str = TOPIC,
    group: str = GROUP,
    hold_ms: int = 0,
    commit: bool = False,
) -> PullMessageRequest:
    """As a push consumer asks, with its subscription."""
    flag = (
        PullSysFlag.SUBSCRIPTION
        | (PullSysFlag.SUSPEND if hold_ms else 0)
        | (PullSysFlag.COMMIT_OFFSET if commit else 0)
    )
    return PullMessageRequest(
        consumer_group=group, topic=topic, queue_id=queue_id, queue_offset=offset,
        max_msg_nums=most, sys_flag=flag,
        commit_offset=offset, suspend_timeout_millis=hold_ms, subscription="*", sub_version=0,
        expression_type="TAG",
    )  # fmt: skip


def pulls(
    places: Iterable[tuple[int, int]],
    most: int,
    groups: list[str] | None = None,
    *,
    topic: str = TOPIC,
) -> Frames:
    """Pulls of ``most`` messages from these (queue id, offset). With groups: each asks in turn, and
    commits."""
    names, commit = (groups, True) if groups else ([GROUP], False)
    headers = (
        pull_header(queue_id, offset, most, topic=topic, group=names[n % len(names)], commit=commit)
        for n, (queue_id, offset) in enumerate(places)
    )
    return Frames(
        [
            request(RequestCode.PULL_MESSAGE, h, opaque=FIRST_OPAQUE + n)
            for n, h in enumerate(headers)
        ],
        messages_each=0,
    )


def pull_format(most: int, hold_ms: int, topic: str = TOPIC) -> str:
    """A header with ``%d`` for the queue id and ``%llu`` for the offset."""
    header = structs.replace(
        pull_header(_QUEUE_ID, _OFFSET, most, topic=topic, hold_ms=hold_ms), commit_offset=0
    )
    text = request(RequestCode.PULL_MESSAGE, header, opaque=_PULL_OPAQUE)[8:].decode()
    return text.replace(str(_QUEUE_ID), "%d").replace(str(_OFFSET), "%llu")


def halves(size: int = 128) -> Frames:
    """Half messages."""
    text = properties("TRAN_MSG\x01true", f"PGROUP\x01{GROUP}")
    headers = (send_header(TOPIC, n % QUEUES, text, sys_flag=PREPARED) for n in range(_COUNT))
    body = b"x" * size
    return Frames(
        [
            request(RequestCode.SEND_MESSAGE_V2, h, body, FIRST_OPAQUE + n)
            for n, h in enumerate(headers)
        ]
    )


def end_format(*, oneway: bool) -> str:
    """The header of a commit with two ``%llu``, commit log offset and queue offset of the half
    message."""
    header = EndTransactionRequest(
        producer_group=GROUP, tran_state_table_offset=_OTHER_OFFSET, commit_log_offset=_OFFSET,
        commit_or_rollback=TransactionState.COMMIT, msg_id="7F000001000000000000000000000000",
    )  # fmt: skip
    fields = dict(sorted(to_fields(header).items()))
    flag = ONEWAY_FLAG if oneway else 0
    command = RemotingCommand(
        code=RequestCode.END_TRANSACTION, opaque=_END_OPAQUE, flag=flag, ext_fields=fields
    )
    return (
        encode_header(command)
        .decode()
        .replace(str(_OFFSET), "%llu")
        .replace(str(_OTHER_OFFSET), "%llu")
    )


def routes(topics: Iterable[str]) -> Frames:
    """Asks a name server for each of them."""
    return Frames(
        [
            request(
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequest(topic=topic),
                opaque=FIRST_OPAQUE + n,
            )
            for n, topic in enumerate(topics)
        ]
    )
