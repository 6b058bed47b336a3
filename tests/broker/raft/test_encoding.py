"""In which form pushes leave."""

from __future__ import annotations

from aiorocketmq.broker.raft.encoding import PushEncoder
from aiorocketmq.remoting.protocol.bodies.dledger import HeartbeatRequest, PushRequest, PushType
from aiorocketmq.remoting.protocol.bodies.stored_entries import StoredEntries, decode_push

from ...remoting.protocol.record.entry_logs import START, entries_of

STORED = StoredEntries(entries_of([b"a", b"b"]), 2, 0, START)


def test_entries_are_bytes_for_those_who_take_them() -> None:
    encoder = PushEncoder()
    pushes = [PushRequest(remote_id=peer, batch_entry=STORED) for peer in ("n1", "n2")]
    one, other = encoder.encode(pushes[0], True), encoder.encode(pushes[1], False)
    assert one[1] == STORED.data, "not a copy"
    assert (one[0][0], other[0][0]) == (0, ord("{"))
    assert [decode_push(b"".join(each)) for each in (one, other)] == pushes


def test_what_has_no_such_entries_is_json() -> None:
    encoder = PushEncoder()
    for request in (
        HeartbeatRequest(term=1),
        PushRequest(type=PushType.COMMIT),
        PushRequest(type=PushType.COMPARE, entry=STORED[0]),
        PushRequest(batch_entry=list(STORED)),
    ):
        body, behind = encoder.encode(request, True)
        assert (body, behind) == encoder.encode(request, False)
        assert (body[:1], behind) == (b"{", b"")
