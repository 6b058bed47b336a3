"""Each deliberate oddity of the original that shows on the wire: what it does, and whether we do
the same.

Data for the documentation and for code to point at by name. ``REPRODUCED``: we do as the original
does, because a peer relies on it or files must match. ``DEVIATION``: we do something else, and
every peer of the original can live with it. Facts: the reference files named with each class.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Stance(StrEnum):
    REPRODUCED = "as the original"
    DEVIATION = "differs from the original"


class Quirk(NamedTuple):
    """One oddity. ``source`` is the class of the original that it comes from."""

    name: str
    source: str
    stance: Stance
    original: str
    ours: str


_REPRODUCED, _DEVIATION = Stance.REPRODUCED, Stance.DEVIATION

# --- requests and answers
# -------------------------------------------------------------------------------------------

UNKNOWN_CODE_ANSWERED = Quirk(
    "UNKNOWN_CODE_ANSWERED",
    "DefaultRequestProcessor",
    _DEVIATION,
    "The name server returns nothing for a request code that it does not know; the caller runs "
    "into its timeout.",
    "Name server and broker answer code 3, as 5.x does.",
)
CHECKED_FIELDS = Quirk(
    "CHECKED_FIELDS",
    "RemotingCommand",
    _DEVIATION,
    "A required field that is absent or is no number is logged and left null; the handler then "
    "usually dies and the remark "
    "is the text of a NullPointerException, or the null is taken as a name.",
    "Code 1, and the remark names the command, the field and what was expected.",
)
INTEGRAL_DECIMALS = Quirk(
    "INTEGRAL_DECIMALS",
    "RemotingCommand",
    _DEVIATION,
    "'2.0' and '1e3' are no whole numbers.",
    "They are read as 2 and 1000: the price of decoding numbers in C. A number that is not whole "
    "is refused.",
)
MISLEADING_REMARK = Quirk(
    "MISLEADING_REMARK",
    "RemotingCommand",
    _REPRODUCED,
    "A fresh response has code 1 and the remark 'not set any response code'; handlers of 17, 222, "
    "223, 307 and 321 set only "
    "the code, so the remark stays on replies that went well.",
    "The same remark on the same replies; no client of ours takes a remark for a failure.",
)
SERVER_DEFAULT_FORM = Quirk(
    "SERVER_DEFAULT_FORM",
    "NettyRemotingAbstract, PullMessageProcessor, QueryMessageProcessor",
    _DEVIATION,
    "Errors of the remoting layer, held pulls that are woken, and the replies to 12 and 33 come "
    "in the server's default "
    "form (JSON) whatever form the request had.",
    "Every reply comes in the form of its request. Both ends look at byte 4 of each frame and "
    "take any form.",
)
RESPONSE_TO_ONEWAY = Quirk(
    "RESPONSE_TO_ONEWAY",
    "NettyRemotingAbstract, BrokerFastFailure",
    _DEVIATION,
    "Code 3 and some of the busy answers are written for oneway requests too.",
    "A oneway request is never answered; an answer with an opaque that nobody waits for is "
    "ignored.",
)
EMPTY_EXT_FIELDS = Quirk(
    "EMPTY_EXT_FIELDS",
    "RemotingCommand",
    _REPRODUCED,
    'Replies whose header class has nothing set say "extFields":{}, replies without a header '
    "class have no such key.",
    "The same, per command: EmptyFields and NoFields in the table.",
)
SHARED_LITE_PULL = Quirk(
    "SHARED_LITE_PULL",
    "PullMessageProcessor",
    _DEVIATION,
    "Brokers of 4.9 do not know code 361, so lite pull consumers of 5.x cannot pull from them.",
    "361 is served as 11.",
)
CLEAN_OFFSET = Quirk(
    "CLEAN_OFFSET",
    "DeleteSubscriptionGroupRequestHeader",
    _DEVIATION,
    "5.x renamed removeOffset to cleanOffset: deleting a group with its mqadmin never removes "
    "offsets of a 4.9 broker.",
    "Both names are read.",
)
CLIENT_ADDR_IS_AN_ID = Quirk(
    "CLIENT_ADDR_IS_AN_ID",
    "GetConsumerStatusRequestHeader",
    _REPRODUCED,
    "clientAddr of 221 and 223 holds a client id.",
    "The same.",
)
MISSPELT_NAMES = Quirk(
    "MISSPELT_NAMES",
    "ProcessQueueInfo, ConsumeMessageDirectlyResult",
    _REPRODUCED,
    "'droped', 'spentTimeMills' and others.",
    "The same on the wire; 'droped' is called dropped in Python.",
)

# --- filters
# --------------------------------------------------------------------------------------------------

TRAILING_GARBAGE = Quirk(
    "TRAILING_GARBAGE",
    "SelectorParser",
    _DEVIATION,
    "What follows a complete SQL92 expression is ignored: 'a > 1 garbage' is 'a > 1', 'a LIKE "
    "'x%'' is 'a', 'a = 010' is "
    "'a = 0'.",
    "It is refused, with position and reason.",
)
BAD_EXPRESSION_MATCHES_ALL = Quirk(
    "BAD_EXPRESSION_MATCHES_ALL",
    "PullMessageProcessor, ConsumerFilterManager",
    _DEVIATION,
    "A pull that brings an SQL92 expression which does not parse is served as if it had none: it "
    "gets every message.",
    "Code 23, with position and reason.",
)
NOT_BINDS_TIGHT = Quirk(
    "NOT_BINDS_TIGHT",
    "SelectorParser, UnaryExpression",
    _REPRODUCED,
    "NOT binds tighter than '=': 'NOT a = 1' is '(NOT a) = 1'. A property as truth value is "
    "false, even 'true'; so 'NOT a' "
    "is true for every message that has a.",
    "The same.",
)
TEXT_AS_THE_LITERAL = Quirk(
    "TEXT_AS_THE_LITERAL",
    "ComparisonExpression",
    _REPRODUCED,
    "A property is read as the type of the literal beside it: 'a = 5', 'a <> 5' and 'NOT (a = 5)' "
    "do not match 5.5 nor "
    "3000000000, whatever else the expression says. 'TRUE = a' never matches a message with a, 'a "
    "= TRUE' may.",
    "The same.",
)
NULL_ON_THE_RIGHT = Quirk(
    "NULL_ON_THE_RIGHT",
    "ComparisonExpression",
    _REPRODUCED,
    "A missing property on the left of '=' is NULL, on the right false: '5 <> a' matches messages "
    "without a. Two missing "
    "ones are equal.",
    "The same.",
)

# --- header forms
# --------------------------------------------------------------------------------------------------

DUPLICATE_KEYS = Quirk(
    "DUPLICATE_KEYS",
    "RocketMQSerializable, FastCodesHeader",
    _DEVIATION,
    "A binary header whose class writes itself fast (11, 310 and their replies) holds each field "
    "twice when a hook such as "
    "the ACL signer has copied it to extFields before. The last one wins.",
    "Read the same way, written once. In the captured rocketmq run these are the frames in "
    "DUPLICATE_KEY_FRAMES.",
)
DUPLICATE_KEY_FRAMES = {
    (11, 1176): "mqadmin queryMsgByOffset: a signed PULL_MESSAGE",
    (310, 1346): "mqadmin sendMessage: a signed SEND_MESSAGE_V2",
}
"""Code and opaque of the captured frames that carry duplicate keys, and where they come from."""
EMPTY_TEXT_IS_NULL = Quirk(
    "EMPTY_TEXT_IS_NULL",
    "RocketMQSerializable",
    _REPRODUCED,
    "In a binary header a length of 0 is null, so an empty value arrives as absent; JSON keeps it.",
    "The same.",
)
MSGPACK_FORM = Quirk(
    "MSGPACK_FORM",
    "SerializeType",
    _DEVIATION,
    "Two header forms, 0 and 1; any other byte closes the connection.",
    "A third form, 0x4D, between peers that both are ours. It is never sent unless asked for.",
)
SIGNED_UNIQUE_KEY_QUERY = Quirk(
    "SIGNED_UNIQUE_KEY_QUERY",
    "AclClientRPCHook, PlainAccessValidator",
    _DEVIATION,
    "The client signs _UNIQUE_KEY_QUERY, the broker leaves it out when it checks, so a signed "
    "QUERY_MESSAGE never passes.",
    "Our client leaves it out when it signs.",
)

# --- bodies
# --------------------------------------------------------------------------------------------------

UNQUOTED_NUMERIC_KEYS = Quirk(
    "UNQUOTED_NUMERIC_KEYS",
    "RemotingSerializable, MapSerializer (fastjson)",
    _REPRODUCED,
    'Maps with numbers as keys are written {0:"..."}; some clients can read nothing else.',
    "The same, except in routes for those who ask for standard JSON.",
)
OBJECT_KEYS = Quirk(
    "OBJECT_KEYS",
    "RemotingSerializable, MapSerializer (fastjson)",
    _REPRODUCED,
    'Maps with queues as keys are written {{"brokerName":"b","queueId":0,"topic":"T"}:5}.',
    "The same; objects as text are read too.",
)
REFERENCES = Quirk(
    "REFERENCES",
    "SerializerFeature (fastjson)",
    _DEVIATION,
    'An object that occurs twice is written {"$ref":"$.path"} the second time.',
    "References are read, never written.",
)
ROUTE_BY_VERSION = Quirk(
    "ROUTE_BY_VERSION",
    "DefaultRequestProcessor",
    _REPRODUCED,
    "The reply to 105 is standard JSON for peers from V4_9_4 on or with acceptStandardJsonOnly, "
    "else it has unquoted keys. "
    "Cluster info (106) always has unquoted keys.",
    "The same.",
)
LOST_IN_PACKED_TOPIC = Quirk(
    "LOST_IN_PACKED_TOPIC",
    "TopicConfig, RegisterBrokerBody",
    _REPRODUCED,
    "The packed registration carries neither topicSysFlag nor order.",
    "The same.",
)
SIX_WORDS_IN_PACKED_TOPIC = Quirk(
    "SIX_WORDS_IN_PACKED_TOPIC",
    "TopicConfig, RegisterBrokerBody",
    _DEVIATION,
    "A packed topic must have five words; 5.x sends a sixth, and its whole registration is "
    "refused.",
    "What follows the fifth word is ignored.",
)
CRC_OF_31_BITS = Quirk(
    "CRC_OF_31_BITS",
    "UtilAll",
    _REPRODUCED,
    "bodyCrc32 is the CRC-32 without its highest bit, and 0 means that it is not checked.",
    "The same.",
)
STATE_VERSION_KEPT = Quirk(
    "STATE_VERSION_KEPT",
    "DataVersion",
    _DEVIATION,
    "Name servers of 4.9 drop the stateVersion that brokers of 5.x send, and these then see a "
    "change every time.",
    "It is kept, compared and given back.",
)

QUIRKS = tuple(value for value in list(globals().values()) if isinstance(value, Quirk))
"""All of them, in the order of this file."""
