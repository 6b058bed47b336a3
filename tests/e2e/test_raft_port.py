"""The members' own port: who may do what there, TLS and a secret between them; and who leads, as
administrators see and change it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from aiorocketmq import Message, Producer
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.dledger import (
    MetadataRequest,
    MetadataResponse,
    VoteRequest,
    decode_dledger,
    encode_dledger,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.frames.serialization import decode_header
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.invocations import encode_request
from aiorocketmq.remoting.transport.tls import TlsConfig, client_context

from .cluster import HOST, asynchronous, create_topic, until
from .raft_group import GROUP, RaftGroup
from .test_mqadmin import Tool

STRANGER = "127.0.0.2"
"""Loopback has many addresses, and members have one of them."""
SECRET = "a secret of sixteen characters"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RaftGroup]:
    with RaftGroup(tmp_path) as started:
        yield started


def ask(port: int, source: str, code: RequestCode, body: bytes) -> tuple[int, str, bytes]:
    """Code, remark and body of the answer."""
    with socket.create_connection((HOST, port), 5, source_address=(source, 0)) as sock:
        sock.sendall(encode_request(0, code, None, body, 1))
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
            more = sock.recv(65536)
            assert more, "closed"
            data += more
    length = int.from_bytes(data[5:8])
    header = decode_header(0, data[8 : 8 + length])
    return header.code, header.remark or "", data[8 + length :]


def test_a_stranger_asks_and_does_nothing(group: RaftGroup) -> None:
    group.start()

    @asynchronous
    async def scenario() -> None:
        leader = await group.complete()
        port = int(dict(each.split("-") for each in group.peers.split(";"))[leader].split(":")[1])
        asked = MetadataRequest(group=GROUP, remote_id=leader)
        code, _, body = await asyncio.to_thread(
            ask, port, STRANGER, RequestCode.DLEDGER_METADATA, encode_dledger(asked)
        )
        before = decode_dledger(MetadataResponse, body)
        assert (code, before.leader_id) == (200, leader)
        voted = VoteRequest(
            group=GROUP,
            remote_id=leader,
            leader_id=next(name for name in group.names if name != leader),
            term=before.term + 100,
            ledger_end_index=1 << 40,
            ledger_end_term=before.term + 100,
        )
        code, remark, body = await asyncio.to_thread(
            ask, port, STRANGER, RequestCode.DLEDGER_VOTE, encode_dledger(voted)
        )
        assert (code, body) == (16, b"")
        assert "dLegerAllowedAddresses" in remark
        assert await group.complete() == leader, "nobody has deposed it"
        assert f"member refused address={STRANGER}" in group.log_of(leader)

    scenario()


def test_members_share_a_secret_and_speak_tls(group: RaftGroup, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert(HOST)
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    secure = {
        "haSecret": SECRET,
        "tls.server.mode": "enforcing",
        "tls.server.certPath": tmp_path / "cert.pem",
        "tls.server.keyPath": tmp_path / "key.pem",
    }
    group.start("n0", "n1", **secure)
    group.start("n2", **{**secure, "haSecret": "another secret of this length"})

    @asynchronous
    async def scenario() -> None:
        async def refused() -> bool:
            return "it does not know the secret" in group.log_of("n2")

        await until(refused, "who has another secret is told so")

        async def led() -> bool:
            return any("member is LEADER" in group.log_of(name) for name in ("n0", "n1"))

        await until(led, "the other two have a leader")
        assert "member is FOLLOWER" not in group.log_of("n2")
        leader = await group.leader()
        follower = "n1" if leader == "n0" else "n0"
        async with RemotingClient(tls=client_context(TlsConfig())) as remoting:
            make = CreateTopicRequest(
                topic="T", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                topic_filter_type="SINGLE_TAG",
            )  # fmt: skip
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            (await remoting.invoke(group.address(leader), code, make, timeout=5)).check()

            async def taken_over() -> bool:
                answer = await remoting.invoke(
                    group.address(follower), RequestCode.GET_ALL_TOPIC_CONFIG, timeout=5
                )
                table = decode_body(TopicConfigTable, answer.check().body)
                return "T" in table.topic_config_table

            await until(taken_over, "the follower has its leader's topics")

    scenario()


def test_administrators_see_who_leads_and_have_another_one_lead(
    group: RaftGroup, tmp_path: Path
) -> None:
    group.start()

    @asynchronous
    async def scenario() -> None:
        mqadmin = Tool(group, tmp_path)
        leader = await group.complete()
        await create_topic(group.namesrv, "T", 1)
        async with Producer("p", namesrv=group.namesrv) as producer:
            await producer.send(Message("T", b"x"))

        def status() -> dict[str, dict[str, object]]:
            printed = mqadmin("raftStatus --json")
            assert (printed.code, printed.err) == (0, "")
            return {row["member"]: row for row in json.loads(printed.out)}

        async def even() -> bool:
            return all(row["lag"] == 0 for row in (await asyncio.to_thread(status)).values())

        await until(even, "the followers have everything")
        rows = await asyncio.to_thread(status)
        assert {name: row["role"] for name, row in rows.items()} == {
            name: "leader" if name == leader else "follower" for name in group.names
        }
        assert {(row["group"], row["leader"], row["votes"]) for row in rows.values()} == {
            (GROUP, leader, "true")
        }
        wanted, asked = (name for name in group.names if name != leader)
        line = f"transferLeader -b {group.address(asked)} -t {wanted}"
        printed = await asyncio.to_thread(mqadmin, line)
        assert printed == (0, f"leadership of {GROUP} goes to {wanted}\n", "")
        assert await group.leader(leader) == wanted
        printed = await asyncio.to_thread(mqadmin, f"{line[:-2]}n9")
        assert (printed.code, printed.out) == (1, "")
        assert "n9 is no other member of the group" in printed.err

    scenario()
