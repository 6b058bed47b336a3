"""Bodies of the DLedger port: what they are on the wire, and what a Java reader must find there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.codec import BodyError
from aiorocketmq.remoting.protocol.bodies.dledger import (
    REQUEST_BODIES,
    RESPONSE_BODIES,
    DledgerBody,
    Entry,
    HeartbeatResponse,
    PushRequest,
    PushResponse,
    VoteRequest,
    VoteResponse,
    VoteResult,
    decode_dledger,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.bodies.stored_entries import encode_entries, encode_push

from ...strategies import records

KINDS = [*REQUEST_BODIES.values(), *RESPONSE_BODIES.values()]
ENTRY = Entry(index=7, term=2, pos=512, body=b"record\xff", size=55, magic=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_a_body_survives_the_wire(kind: type[DledgerBody], data: st.DataObject) -> None:
    body = data.draw(records(kind))
    assert decode_dledger(kind, encode_dledger(body)) == body


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(kind: type[DledgerBody], data: bytes) -> None:
    try:
        decode_dledger(kind, data)
    except BodyError:
        pass


def test_absent_keys_have_the_original_defaults() -> None:
    assert decode_dledger(VoteRequest, b"{}") == VoteRequest(
        term=-1, code=200, ledger_end_index=-1, ledger_end_term=-1
    )
    assert decode_dledger(VoteResponse, b'{"term":3}').vote_result is VoteResult.UNKNOWN
    assert decode_dledger(HeartbeatResponse, b'{"code":416,"more":[1]}').code == 416


def test_what_java_knows_no_default_for_is_written() -> None:
    push = PushRequest(group="G", remote_id="n1", leader_id="n0", term=2, entry=ENTRY)
    written = json.loads(encode_dledger(push))
    assert {"code": 200, "type": "APPEND", "commitIndex": -1}.items() <= written.items()
    assert written["entry"] == {
        "index": 7,
        "term": 2,
        "pos": 512,
        "body": "cmVjb3Jk/w==",
        "size": 55,
        "magic": 1,
    }
    answer = json.loads(encode_dledger(PushResponse(index=7, count=1, term=2)))
    assert answer == {
        "code": 200,
        "term": 2,
        "index": 7,
        "count": 1,
        "beginIndex": 0,
        "endIndex": 0,
    }


def test_entries_that_are_encoded_once_make_the_same_push() -> None:
    push = PushRequest(
        group="G", remote_id="n1", local_id="n0", leader_id="n0", term=2, batch_entry=[ENTRY] * 2
    )
    encoded = encode_push(push, encode_entries(push.batch_entry))
    assert decode_dledger(PushRequest, encoded) == push


@pytest.mark.parametrize("bad", [b"", b"[]", b'{"term":"x"}', b'{"term":9223372036854775808}'])
def test_broken_bodies_say_what_they_are(bad: bytes) -> None:
    with pytest.raises(BodyError, match="VoteRequest"):
        decode_dledger(VoteRequest, bad)
