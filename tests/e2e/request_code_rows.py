"""What ``test_request_codes`` asks, and what comes back (``headers.md``): literal rows, names and
values as they stand on the wire. A row that changes something uses names of its own; rows do not
depend on each other.
"""

# ruff: noqa: E501  (rows of a table)

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiorocketmq.remoting.protocol.codes import RequestCode as Code
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch

NOT_SET = "not set any response code"
T, GROUP = "Codes", "g-codes"
MQ = '{"brokerName":"broker-a","queueId":%d,"topic":"Codes"}'
SEND: dict[str, Any] = {
    "producerGroup": "p-codes", "topic": "Sent", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1, "sysFlag": 0,
    "bornTimestamp": 5, "flag": 0, "properties": "UNIQ_KEY\x01U9\x02WAIT\x01true", "reconsumeTimes": 0, "batch": False,
}  # fmt: skip
SEND_V2 = dict(zip("abcdefghijm", SEND.values(), strict=True))
REPLY = {
    **SEND,
    "topic": "DefaultCluster_REPLY_TOPIC",
    "properties": "REPLY_TO_CLIENT\x01member\x02CORRELATION_ID\x01c",
}
REPLY["queueId"] = 0
REPLY_V2 = dict(zip("abcdefghijm", REPLY.values(), strict=True))
PULL: dict[str, Any] = {
    "consumerGroup": GROUP, "topic": T, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
}  # fmt: skip
QUEUE = {"topic": T, "queueId": 0}
NEW_TOPIC = {
    "topic": "Made", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "order": False,
}  # fmt: skip
BACK = {"offset": 0, "group": GROUP, "delayLevel": 0, "originTopic": T, "unitMode": False}
END = {
    "producerGroup": "p-codes", "tranStateTableOffset": "half1 number", "commitLogOffset": "half1 position",
    "commitOrRollback": 8, "fromTransactionCheck": False, "msgId": "any",
}  # fmt: skip
KEY = {"topic": T, "key": "K1", "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 2**62}
SUB = '{"classFilterMode":false,"codeSet":[],"expressionType":"%s","subString":"%s","subVersion":1,"tagsSet":[],"topic":"Codes"}'
SQL_ON = "enablePropertyFilter=true"
TRANSACTION = "UNIQ_KEY\x01U9\x02TRAN_MSG\x01true\x02PGROUP\x01p-codes"
ACCOUNT = {
    "accessKey": "newcomer",
    "secretKey": "new-secret",
    "admin": False,
    "defaultTopicPerm": "PUB",
}
LOCK = ('{"clientId":"member","consumerGroup":"g-codes","mqSet":[' + MQ % 0 + "]}").encode()


class Row(NamedTuple):
    """One request and its answer. ``remark`` and ``answer`` are regular expressions, found in
    remark and body."""

    code: Code
    what: str
    fields: Mapping[str, Any] = {}
    body: bytes = b""
    expected: int = 0
    remark: str | None = None
    answer: str | None = None
    header: str | None = None
    """The names of the header's fields."""
    config: str = ""
    """A property of the broker that is changed while this is asked."""
    at: str = "master"
    """Whom: the master, its slave, or the ``guarded`` broker, where an administrator signs, and
    which is a SYNC_MASTER without slaves."""

    def __str__(self) -> str:
        return f"{self.code.name}-{self.what}"


STORED = "MSG_REGION TRACE_ON msgId queueId queueOffset"
REFUSED = "MSG_REGION TRACE_ON"
PULLED = "maxOffset minOffset nextBeginOffset suggestWhichBrokerId"


def send_rows(
    code: Code, fields: dict[str, Any], names: dict[str, str], body: bytes = b"body"
) -> list[Row]:
    """Of every way to send."""

    def row(what: str, expected: int, remark: str, config: str = "", **change: Any) -> Row:
        changed = fields | {names.get(name, name): value for name, value in change.items()}
        return Row(code, what, changed, body, expected, remark, header=REFUSED, config=config)

    return [
        Row(code, "stored", fields, body, header=STORED),
        Row(
            code,
            "queue-by-broker",
            fields | {names.get("queueId", "queueId"): -1},
            body,
            header=STORED,
        ),
        Row(code, "broker-read-only", fields, body, header=STORED, config="brokerPermission=4"),
        Row(code, "no-slave", fields, body, 11, header=STORED, at="guarded"),
        Row(code, "at-a-slave", fields, body, 14, "slave", at="slave"),
        row(
            "not-yet",
            1,
            "broker unable to service, until",
            config="startAcceptSendRequestTimeStamp=9999999999999",
        ),
        row(
            "ordered-topic-read-only",
            16,
            r"the broker\[127.0.0.1\] sending message is",
            "brokerPermission=4",
            topic="Ordered",
        ),
        row("blank-topic", 1, "The specified topic is blank", topic=" "),
        row("illegal-topic", 1, "contains illegal characters", topic="a b"),
        row("long-topic", 1, "longer than topic max length", topic="t" * 128),
        row(
            "forbidden-topic",
            16,
            r"Sending message to topic\[SELF_TEST_TOPIC\] is forbidden",
            topic="SELF_TEST_TOPIC",
        ),
        row(
            "unknown-topic",
            17,
            r"topic\[Nowhere\] not exist",
            topic="Nowhere",
            defaultTopic="NoSuchTemplate",
        ),
        row("queue-too-high", 1, r"request queueId\[99\] is illegal", queueId=99),
    ]


def single_rows(code: Code, fields: dict[str, Any], names: dict[str, str]) -> list[Row]:
    """Of messages that are sent one by one."""

    def changed(**change: Any) -> dict[str, Any]:
        return fields | {names.get(name, name): value for name, value in change.items()}

    retry = changed(topic="%RETRY%g-codes", queueId=0, reconsumeTimes=99)
    half, broken = changed(properties=TRANSACTION), changed(properties="DELAY\x01soon")
    return [
        Row(
            code,
            "unknown-group",
            changed(topic="%RETRY%nobody", queueId=0),
            b"body",
            26,
            "subscription group not exist",
            header=REFUSED,
        ),
        Row(code, "tried-too-often", retry, b"body", header=STORED),
        Row(code, "half", half, b"body", header=STORED),
        Row(
            code,
            "no-halves",
            half,
            b"body",
            16,
            "sending transaction message is forbidden",
            header=REFUSED,
            config="rejectTransactionMessage=true",
        ),
        Row(
            code,
            "no-delay-level",
            broken,
            b"body",
            1,
            "DELAY is the number of a delay level",
            header=REFUSED,
        ),
        Row(
            code,
            "too-long",
            fields,
            b"x" * (4 << 20 | 1),
            13,
            "msg properties length limit 32KB",
            header=REFUSED,
        ),
    ]


V2_NAMES = dict(zip(SEND, "abcdefghijm", strict=True))
BATCH = encode_batch([BatchItem(0, b"one", b""), BatchItem(0, b"two", b"")])
LONG_BATCH = encode_batch([BatchItem(0, bytes(4 << 20), b"")])
ROWS: list[Row] = [
    *send_rows(Code.SEND_MESSAGE, SEND, {}),
    *single_rows(Code.SEND_MESSAGE, SEND, {}),
    *send_rows(Code.SEND_MESSAGE_V2, SEND_V2, V2_NAMES),
    *single_rows(Code.SEND_MESSAGE_V2, SEND_V2, V2_NAMES),
    *send_rows(Code.SEND_BATCH_MESSAGE, SEND_V2 | {"m": True}, V2_NAMES, BATCH),
    Row(Code.SEND_BATCH_MESSAGE, "too-long", SEND_V2 | {"m": True}, LONG_BATCH, 13, "msg properties length limit 32KB", header=REFUSED),
    Row(Code.SEND_BATCH_MESSAGE, "the-header-says-no-batch", SEND_V2, BATCH, header=STORED),
    Row(Code.SEND_BATCH_MESSAGE, "no-batch", SEND_V2 | {"m": True}, b"xx", 13, "batch", header=REFUSED),
    *(
        row
        for code, fields, names in ((Code.SEND_REPLY_MESSAGE, REPLY, {}), (Code.SEND_REPLY_MESSAGE_V2, REPLY_V2, V2_NAMES))
        for row in (
            Row(code, "pushed-and-stored", fields, b"reply", header=STORED),
            Row(
                code, "nobody-there", fields | {names.get("properties", "properties"): "REPLY_TO_CLIENT\x01x"}, b"reply", 1,
                "channel of <x> not found", header=STORED,
            ),
            Row(
                code, "no-requester", fields | {names.get("properties", "properties"): "A\x01b"}, b"reply", 1,
                r"reply message properties\[REPLY_TO_CLIENT\] is null", header=STORED,
            ),
            Row(
                code, "refused-by-requester", fields | {names.get("properties", "properties"): "REPLY_TO_CLIENT\x01rude"},
                b"reply", 1, "push reply message to rudefail", header=STORED,
            ),
            Row(code, "bad-queue", fields | {names.get("queueId", "queueId"): 9}, b"", 1, "is illegal", header=REFUSED),
        )
    ),
    Row(Code.CONSUMER_SEND_MSG_BACK, "stored", BACK),
    Row(Code.CONSUMER_SEND_MSG_BACK, "unknown-group", BACK | {"group": "nobody"}, b"", 26, "subscription group not exist"),
    Row(Code.CONSUMER_SEND_MSG_BACK, "no-message", BACK | {"offset": 10**9}, b"", 1, "look message by offset failed"),
    Row(Code.CONSUMER_SEND_MSG_BACK, "dropped", BACK | {"group": "g-drop", "offset": 10**9}),
    Row(Code.CONSUMER_SEND_MSG_BACK, "retry-topic-read-only", BACK | {"group": "g-ro"}, b"", 16, "is forbidden"),
    Row(Code.CONSUMER_SEND_MSG_BACK, "broker-read-only", BACK, b"", 16, r"the broker\[127.0.0.1\] sending", config="brokerPermission=4"),
    Row(Code.CONSUMER_SEND_MSG_BACK, "at-a-slave", BACK, b"", 14, "slave", at="slave"),
    # -- pull
    Row(Code.PULL_MESSAGE, "found", PULL, answer="body 0", remark="FOUND", header=PULLED),
    Row(Code.LITE_PULL_MESSAGE, "found", PULL | {"sysFlag": 20}, answer="body 0", remark="FOUND", header=PULLED),
    Row(Code.PULL_MESSAGE, "filtered", PULL | {"subscription": "None"}, b"", 20, "NO_MATCHED_MESSAGE", header=PULLED),
    Row(Code.PULL_MESSAGE, "at-the-end", PULL | {"queueOffset": 2}, b"", 19, "OFFSET_OVERFLOW_ONE", header=PULLED),
    Row(Code.PULL_MESSAGE, "empty-queue", PULL | {"topic": "Other"}, b"", 19, "NO_MESSAGE_IN_QUEUE", header=PULLED),
    Row(Code.PULL_MESSAGE, "behind-the-end", PULL | {"queueOffset": 9}, b"", 21, "OFFSET_OVERFLOW_BADLY", header=PULLED),
    Row(Code.PULL_MESSAGE, "too-small", PULL | {"queueOffset": -1}, b"", 21, "OFFSET_TOO_SMALL", header=PULLED),
    Row(Code.PULL_MESSAGE, "empty-not-0", PULL | {"topic": "Other", "queueOffset": 5}, b"", 21, "NO_MESSAGE", header=PULLED),
    Row(Code.PULL_MESSAGE, "unknown-group", PULL | {"consumerGroup": "nobody"}, b"", 26, "does not exist", header=""),
    Row(Code.PULL_MESSAGE, "group-off", PULL | {"consumerGroup": "g-off"}, b"", 16, "group no permission", header=""),
    Row(Code.PULL_MESSAGE, "unknown-topic", PULL | {"topic": "Nowhere"}, b"", 17, r"topic\[Nowhere\] not exist", header=""),
    Row(Code.PULL_MESSAGE, "unreadable", PULL | {"topic": "WriteOnly"}, b"", 16, "pulling message is forbidden", header=""),
    Row(Code.PULL_MESSAGE, "bad-queue", PULL | {"queueId": 4}, b"", 1, r"queueId\[4\] is illegal, topic:", header=""),
    Row(Code.PULL_MESSAGE, "negative-queue", PULL | {"queueId": -1}, b"", 1, r"queueId\[-1\] is illegal", header=""),
    Row(Code.PULL_MESSAGE, "bad-tags", PULL | {"subscription": "||"}, b"", 23, "parse the consumer's subscr", header=""),
    Row(Code.PULL_MESSAGE, "long-tags", PULL | {"subscription": "t" * 8193}, b"", 23, "the limit is 8192", header=""),
    Row(Code.PULL_MESSAGE, "heartbeat-subscription", PULL | {"sysFlag": 0}, answer="body 0", remark="FOUND"),
    Row(Code.PULL_MESSAGE, "offline", PULL | {"sysFlag": 0, "consumerGroup": "g-none"}, b"", 24, "group info not exist"),
    Row(Code.PULL_MESSAGE, "broadcast-off", PULL | {"sysFlag": 0, "consumerGroup": "g-nobc"}, b"", 16, "broadcast way"),
    Row(Code.PULL_MESSAGE, "not-subscribed", PULL | {"sysFlag": 0, "topic": "Other"}, b"", 24, "subscription not exist"),
    Row(Code.PULL_MESSAGE, "not-latest", PULL | {"sysFlag": 0, "subVersion": 2}, b"", 25, "subscription not latest"),
    Row(Code.PULL_MESSAGE, "broker-write-only", PULL, b"", 16, r"the broker\[127.0.0.1\] pulling", header="", config="brokerPermission=2"),
    Row(Code.PULL_MESSAGE, "sql-off", PULL | {"expressionType": "SQL92", "subscription": "a=1"}, b"", 1, "filter message by SQL92"),
    Row(Code.PULL_MESSAGE, "sql", PULL | {"expressionType": "SQL92", "subscription": "TAGS = 'TagA'"}, answer="body 0", remark="FOUND", config=SQL_ON),
    Row(Code.PULL_MESSAGE, "bad-sql", PULL | {"expressionType": "SQL92", "subscription": "a = "}, b"", 23, "position 5: expected", config=SQL_ON),
    Row(Code.PULL_MESSAGE, "bad-sql-in-heartbeat", PULL | {"sysFlag": 0, "consumerGroup": "g-sql"}, b"", 27, "no expression of the group", config=SQL_ON),
    Row(Code.QUERY_MESSAGE, "found", KEY, answer="body 0", header="indexLastUpdatePhyoffset indexLastUpdateTimestamp"),
    Row(Code.QUERY_MESSAGE, "by-unique-key", KEY | {"key": "U0", "_UNIQUE_KEY_QUERY": True}, answer="body 0"),
    Row(Code.QUERY_MESSAGE, "not-found", KEY | {"key": "K9"}, b"", 22, "can not find message, maybe time range not correct"),
    Row(Code.VIEW_MESSAGE_BY_ID, "found", {"offset": 0}, answer="body 0"),
    Row(Code.VIEW_MESSAGE_BY_ID, "no-record", {"offset": 5}, b"", 1, "can not find message by the offset, 5"),
    # -- offsets
    Row(Code.QUERY_CONSUMER_OFFSET, "committed", QUEUE | {"consumerGroup": GROUP}, header="offset"),
    Row(Code.QUERY_CONSUMER_OFFSET, "young-queue", QUEUE | {"consumerGroup": "new"}, header="offset"),
    Row(
        Code.QUERY_CONSUMER_OFFSET, "none", QUEUE | {"consumerGroup": "new", "setZeroIfNotFound": False}, b"", 22,
        "Not found, V3_0_6_SNAPSHOT", header="",
    ),
    Row(Code.UPDATE_CONSUMER_OFFSET, "any", {"consumerGroup": "x", "topic": "x", "queueId": 77, "commitOffset": 1}, header=""),
    Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, "first", QUEUE | {"timestamp": 0}, header="offset"),
    Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, "unknown", {"topic": "No", "queueId": 7, "timestamp": 0}, header="offset"),
    Row(Code.GET_MAX_OFFSET, "known", QUEUE, header="offset"),
    Row(Code.GET_MAX_OFFSET, "unknown", {"topic": "Nowhere", "queueId": 9}, header="offset"),
    Row(Code.GET_MIN_OFFSET, "known", QUEUE, header="offset"),
    Row(Code.GET_MIN_OFFSET, "unknown", {"topic": "Nowhere", "queueId": 9}, header="offset"),
    Row(Code.GET_EARLIEST_MSG_STORETIME, "known", QUEUE, header="timestamp"),
    Row(Code.GET_EARLIEST_MSG_STORETIME, "unknown", {"topic": "Nowhere", "queueId": 9}, header="timestamp"),
    Row(Code.GET_ALL_CONSUMER_OFFSET, "all", answer=r'"Codes@g-codes":\{'),
    Row(Code.GET_ALL_DELAY_OFFSET, "all", answer=r'"offsetTable":\{'),
    # -- clients
    Row(Code.HEART_BEAT, "producer", body=b'{"clientID":"c","producerDataSet":[{"groupName":"p2"}]}'),
    Row(Code.HEART_BEAT, "no-sets", body=b'{"clientID":"c"}'),
    Row(Code.HEART_BEAT, "no-body", body=b"", expected=1),
    Row(Code.UNREGISTER_CLIENT, "unknown", {"clientID": "c", "producerGroup": "p9", "consumerGroup": "g9"}, header=""),
    Row(Code.GET_CONSUMER_LIST_BY_GROUP, "some", {"consumerGroup": GROUP}, answer='{"consumerIdList":.*"member"', header=""),
    Row(Code.GET_CONSUMER_LIST_BY_GROUP, "none", {"consumerGroup": "x"}, b"", 1, "no consumer for this group, x", header=""),
    Row(Code.CHECK_CLIENT_CONFIG, "tags", body=f'{{"clientId":"c","group":"g","subscriptionData":{SUB % ("TAG", "a")}}}'.encode()),
    Row(
        Code.CHECK_CLIENT_CONFIG, "sql-off", body=f'{{"clientId":"c","group":"g","subscriptionData":{SUB % ("SQL92", "a=1")}}}'
        .encode(), expected=1, remark="The broker does not support consumer to filter message by SQL92",
    ),
    *(
        Row(
            Code.CHECK_CLIENT_CONFIG, what, body=f'{{"clientId":"c","group":"g","subscriptionData":{SUB % ("SQL92", expression)}}}'
            .encode(), expected=expected, remark=remark, config=SQL_ON,
        )
        for what, expression, expected, remark in (("sql", "a > 1", 0, None), ("bad-sql", "a >", 23, "position 4: expected"))
    ),
    Row(Code.LOCK_BATCH_MQ, "locked", body=LOCK, answer=r'\{"lockOKMQSet":\[\{.*"queueId":0'),
    Row(Code.LOCK_BATCH_MQ, "no-body", body=b"", expected=1),
    Row(Code.UNLOCK_BATCH_MQ, "unlocked", body=LOCK),
    Row(Code.UNLOCK_BATCH_MQ, "no-body", body=b"", expected=1),
    Row(Code.GET_CONSUMER_CONNECTION_LIST, "some", {"consumerGroup": GROUP}, answer='"connectionSet":.*"clientId":"member"'),
    Row(Code.GET_CONSUMER_CONNECTION_LIST, "none", {"consumerGroup": "x"}, b"", 206, r"the consumer group\[x\] not online"),
    Row(Code.GET_PRODUCER_CONNECTION_LIST, "some", {"producerGroup": "p-codes"}, answer='"clientId":"member"'),
    Row(Code.GET_PRODUCER_CONNECTION_LIST, "none", {"producerGroup": "x"}, b"", 1, r"the producer group\[x\] not exist"),
    Row(Code.GET_ALL_PRODUCER_INFO, "all", answer=r'\{"data":\{.*"p-codes":\[\{'),
    *(
        row
        for code, more in ((Code.GET_CONSUMER_RUNNING_INFO, {}), (Code.CONSUME_MESSAGE_DIRECTLY, {"msgId": "first"}))
        for row in (
            Row(code, "answered", {"consumerGroup": GROUP, "clientId": "member", **more}, b"", 0, "as it is", f"{int(code)}"),
            Row(code, "offline", {"consumerGroup": GROUP, "clientId": "x", **more}, b"", 1, "The Consumer <g-codes> <x> not"),
            Row(code, "no-group", {"consumerGroup": "x", "clientId": "x", **more}, b"", 1, "The Consumer <x> <x> not online"),
            Row(code, "too-old", {"consumerGroup": "g-old", "clientId": "old", **more}, b"", 1, "too low to finish, please upgrade"),
            Row(code, "not-understood", {"consumerGroup": "g-nobc", "clientId": "rude", **more}, b"", 3, "not supported"),
        )
    ),
    Row(
        Code.CONSUME_MESSAGE_DIRECTLY, "no-message", {"consumerGroup": GROUP, "clientId": "member", "msgId": "last"}, b"", 1,
        "no message",
    ),
    Row(Code.CONSUME_MESSAGE_DIRECTLY, "no-id", {"consumerGroup": GROUP, "clientId": "member", "msgId": "x"}, b"", 1, "msgId|id"),
    Row(
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "answered", {"topic": T, "group": GROUP}, remark=NOT_SET,
        answer=r'\{"consumerTable":\{"member":\{\{"brokerName":"broker-a","queueId":0,"topic":"Codes"\}:5\}\}',
    ),
    Row(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "too-old", {"topic": T, "group": "g-old"}, b"", 1, "does not support this"),
    Row(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "offline", {"topic": T, "group": "x"}, b"", 1, "nobody is online"),
    # -- topics and groups
    Row(Code.UPDATE_AND_CREATE_TOPIC, "made", NEW_TOPIC, remark=NOT_SET),
    Row(Code.UPDATE_AND_CREATE_TOPIC, "bad-name", NEW_TOPIC | {"topic": "a b"}, b"", 1, "illegal characters"),
    Row(Code.UPDATE_AND_CREATE_TOPIC, "system", NEW_TOPIC | {"topic": "TBW102"}, b"", 1, "is conflict with system topic"),
    Row(Code.UPDATE_AND_CREATE_TOPIC, "bad-filter", NEW_TOPIC | {"topicFilterType": "X"}, b"", 1, "topicFilterType"),
    *(
        Row(code, "at-a-slave", fields, body, 1, "Can't modify topic or subscription group from slave broker", at="slave")
        for code, fields, body in (
            (Code.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC, b""),
            (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, b'{"topicConfigList":[{"topicName":"New"}]}'),
            (Code.DELETE_TOPIC_IN_BROKER, {"topic": T}, b""),
            (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"g-new"}'),
            (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, b'{"groupConfigList":[{"groupName":"g-new"}]}'),
            (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP, "removeOffset": True}, b""),
        )
    ),
    Row(Code.UPDATE_AND_CREATE_TOPIC_LIST, "made", body=b'{"topicConfigList":[{"topicName":"Listed","attributes":{}}]}'),
    Row(Code.UPDATE_AND_CREATE_TOPIC_LIST, "bad-name", {}, b'{"topicConfigList":[{"topicName":"a b"}]}', 1, "illegal char"),
    Row(Code.GET_TOPIC_CONFIG, "known", {"topic": T, "lo": True}, answer=r'"topicFilterType":"SINGLE_TAG","topicName":"Codes"'),
    Row(Code.GET_TOPIC_CONFIG, "unknown", {"topic": "Nowhere"}, b"", 17, "No topic in this broker. topic: Nowhere"),
    Row(Code.DELETE_TOPIC_IN_BROKER, "unknown", {"topic": "Unknown"}),
    Row(Code.DELETE_TOPIC_IN_BROKER, "system", {"topic": "TBW102"}, b"", 1, "is conflict with system topic"),
    Row(Code.GET_ALL_TOPIC_CONFIG, "all", answer='"dataVersion":.*"topicConfigTable":.*"Codes":', header=""),
    Row(Code.GET_TOPIC_STATS_INFO, "known", {"topic": T}, answer=r'"offsetTable":\{\{.*"maxOffset":2,"minOffset":0'),
    Row(Code.GET_TOPIC_STATS_INFO, "unknown", {"topic": "Nowhere"}, b"", 17, r"topic\[Nowhere\] not exist"),
    Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, "some", {"topic": T}, answer=r'\{"groupList":\[.*"g-codes"'),
    Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, "none", {"topic": "Nowhere"}, answer=r'\{"groupList":\[\]\}'),
    Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "all", answer=r'\{"topicList":\[.*"TBW102"'),
    Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "made", body=b'{"groupName":"g-new"}'),
    Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "made", body=b'{"groupConfigList":[{"groupName":"g-listed"}]}'),
    Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "no-body", body=b"", expected=1),
    Row(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "all", answer='"dataVersion":.*"subscriptionGroupTable":.*"g-codes":'),
    Row(Code.DELETE_SUBSCRIPTIONGROUP, "unknown", {"groupName": "unknown", "removeOffset": True}),
    Row(Code.GET_CONSUME_STATS, "some", {"consumerGroup": GROUP}, answer=r'"brokerOffset":2,"consumerOffset":1,"lastTimestamp"'),
    Row(Code.GET_CONSUME_STATS, "none", {"consumerGroup": "x"}, answer=r'\{"consumeTps":0.0,"offsetTable":\{\}\}'),
    Row(
        Code.INVOKE_BROKER_TO_RESET_OFFSET, "back", {"topic": T, "group": GROUP, "timestamp": 0, "isForce": True},
        remark=NOT_SET, answer=re.escape(MQ % 0 + ":0"),
    ),
    Row(
        Code.INVOKE_BROKER_TO_RESET_OFFSET, "not-forwards", {"topic": T, "group": GROUP, "timestamp": -1, "isForce": False},
        remark=NOT_SET, answer=re.escape(MQ % 0 + ":1"),
    ),
    Row(Code.INVOKE_BROKER_TO_RESET_OFFSET, "too-old", {"topic": T, "group": "g-old", "timestamp": -1}, b"", 1, "does not support this"),
    Row(Code.INVOKE_BROKER_TO_RESET_OFFSET, "no-topic", {"topic": "No", "group": GROUP, "timestamp": -1}, b"", 1, "no topic in"),
    Row(Code.INVOKE_BROKER_TO_RESET_OFFSET, "no-offset", {"topic": T, "group": "x", "timestamp": -1}, b"", 1, "THe consumer"),
    Row(Code.INVOKE_BROKER_TO_RESET_OFFSET, "offline", {"topic": T, "group": "g-none", "timestamp": -1}, b"", 206, "not online"),
    Row(
        Code.QUERY_CONSUME_TIME_SPAN, "known", {"topic": T, "group": GROUP},
        answer=r'\{"consumeTimeSpanSet":\[\{"consumeTimeStamp":\d+,"consumeTimeStampStr":"\d{4}-\d\d-\d\d#',
    ),
    Row(Code.QUERY_CONSUME_TIME_SPAN, "no-topic", {"topic": "No", "group": GROUP}, b"", 17, r"topic\[No\] not exist"),
    Row(Code.QUERY_CORRECTION_OFFSET, "some", {"topic": T, "compareGroup": GROUP}, answer=r'\{"correctionOffsets":\{0:1'),
    Row(Code.CLONE_GROUP_OFFSET, "done", {"srcGroup": GROUP, "destGroup": "g-clone", "topic": T, "offline": True}),
    Row(Code.QUERY_CONSUME_QUEUE, "some", QUEUE | {"index": 1, "count": 5}, remark=NOT_SET, answer='"maxQueueIndex":2,"minQueue'),
    Row(Code.QUERY_CONSUME_QUEUE, "no-queue", {"topic": "No", "queueId": 0, "index": 0, "count": 1}, b"", 1, "0@No is not exist!"),
    Row(Code.QUERY_CONSUME_QUEUE, "no-index", QUEUE | {"index": 9, "count": 1}, remark="Index 9 of 0@Codes is not exist!"),
    # -- the broker
    Row(Code.UPDATE_BROKER_CONFIG, "changed", body=b"traceOn=true"),
    Row(Code.UPDATE_BROKER_CONFIG, "unknown", body=b"traceOn=true\nnobodyKnowsThis=1", remark="no property nobodyKnowsThis: "),
    Row(Code.UPDATE_BROKER_CONFIG, "no-body"),
    Row(Code.UPDATE_BROKER_CONFIG, "black-list", body=b"rocketmqHome=/x", expected=16, remark="Can not update config in black"),
    Row(Code.UPDATE_BROKER_CONFIG, "bad-value", body=b"brokerPermission=many", expected=1, remark="brokerPermission"),
    Row(Code.GET_BROKER_CONFIG, "all", answer="brokerName=broker-a", header="version"),
    Row(Code.GET_BROKER_RUNTIME_INFO, "all", answer=r'\{"table":\{.*"brokerVersionDesc":"V4_9_8"'),
    # -- transactions, statistics, ACL
    Row(Code.END_TRANSACTION, "wrong-group", END | {"producerGroup": "x"}, b"", 1, "The producer group wrong"),
    Row(Code.END_TRANSACTION, "wrong-number", END | {"tranStateTableOffset": 77}, b"", 1, "The transaction state table offset"),
    Row(Code.END_TRANSACTION, "no-half", END | {"commitLogOffset": 5}, b"", 1, "Find prepared transaction message failed"),
    Row(Code.END_TRANSACTION, "no-decision", END | {"commitOrRollback": 7}, b"", 1, "commitOrRollback field wrong"),
    Row(Code.END_TRANSACTION, "committed", END),
    Row(Code.END_TRANSACTION, "rolled-back", END | {"tranStateTableOffset": "half2 number", "commitLogOffset": "half2 position", "commitOrRollback": 12}),
    Row(Code.END_TRANSACTION, "at-a-slave", END, b"", 11, "slave mode", at="slave"),
    Row(Code.RESUME_CHECK_HALF_MESSAGE, "done", {"msgId": "given up"}, at="guarded"),
    Row(Code.RESUME_CHECK_HALF_MESSAGE, "no-id", {"msgId": "x"}, b"", 1, "msgId is no offset message id"),
    Row(Code.RESUME_CHECK_HALF_MESSAGE, "another-topic", {"msgId": "first"}, b"", 1, "TRANS_CHECK_MAX_TIME_TOPIC"),
    Row(Code.VIEW_BROKER_STATS_DATA, "none", {"statsName": "N", "statsKey": "K"}, b"", 1, "The stats <N> <K> not exist"),
    Row(
        Code.VIEW_BROKER_STATS_DATA, "counted", {"statsName": "TOPIC_PUT_NUMS", "statsKey": T},
        answer=r'\{"statsDay":\{"avgpt":.*"statsMinute":\{"avgpt":\d\.\d,"sum":\d,"tps":\d\.\d\}\}',
    ),
    Row(Code.GET_BROKER_CONSUME_STATS, "all", {"isOrder": False}, answer='"brokerAddr":.*"consumeStatsList":.*"totalDiff":'),
    Row(Code.UPDATE_AND_CREATE_ACL_CONFIG, "done", ACCOUNT, at="guarded"),
    Row(Code.UPDATE_AND_CREATE_ACL_CONFIG, "short-key", ACCOUNT | {"accessKey": "short"}, b"", 209, "longer than 6", at="guarded"),
    Row(Code.UPDATE_AND_CREATE_ACL_CONFIG, "bad-permission", ACCOUNT | {"topicPerms": "T=X"}, b"", 209, "resource permission", at="guarded"),
    Row(Code.DELETE_ACL_CONFIG, "done", {"accessKey": "the-leaver"}, at="guarded"),
    Row(Code.DELETE_ACL_CONFIG, "unknown", {"accessKey": "nobody-here"}, b"", 210, "nobody-here", at="guarded"),
    Row(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "done", {"globalWhiteAddrs": "10.9.8.{7,8}"}, at="guarded"),
    Row(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "no-address", {"globalWhiteAddrs": "10.9.8"}, b"", 211, "is no address", at="guarded"),
    Row(
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "no-file", {"globalWhiteAddrs": "10.9.8.7", "aclFileFullPath": "/etc/x"}, b"", 211,
        "none of the ACL files", at="guarded",
    ),
    Row(
        Code.GET_BROKER_CLUSTER_ACL_INFO, "versions", at="guarded",
        header="allAclFileVersion brokerAddr brokerName clusterName version",
    ),
    Row(Code.UPDATE_AND_CREATE_ACL_CONFIG, "off", {"accessKey": "longer", "secretKey": "longest"}, b"", 209, "ACL is off"),
    Row(Code.DELETE_ACL_CONFIG, "off", {"accessKey": "longer"}, b"", 210, "ACL is off"),
    Row(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "off", {"globalWhiteAddrs": "1.2.3.4"}, b"", 211, "ACL is off"),
    Row(Code.GET_BROKER_CLUSTER_ACL_INFO, "off", expected=1, remark="ACL is off"),
    Row(Code.CLEAN_EXPIRED_CONSUMEQUEUE, "done"),
    Row(Code.CLEAN_UNUSED_TOPIC, "done"),
    Row(Code.DELETE_EXPIRED_COMMITLOG, "done"),
]  # fmt: skip
