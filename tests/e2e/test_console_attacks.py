"""What somebody does to a console who means it no good."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")

from aiorocketmq import Message, Producer
from aiorocketmq.console import connection, site
from aiorocketmq.console.pages import dead_letters
from aiorocketmq.remoting.protocol.message.message_id import offset_message_id, pack_host

from .cluster import HOST, Cluster, asynchronous, create_topic, until
from .console_client import TOKEN, a_changing_console, a_console, served

BODIES = (
    b"<script>alert(1)</script><img src=x onerror=alert(1)>",
    b"\x1b[31mred\x1b]0;title\x07",
    b"\xff\xfe\x80",
    b"a\x00b",
    rb'{"\ud800": ["\udfff", 1e400, NaN]}',
    "\u202eright to left".encode(),
    b"[" * 5000,
)
ODD = (
    "%", "%25", "a/b", "../..", "'\"", "<b>", "a\r\nx-injected: 1", "\0", "{{98765*43210}}", "😀",
    "٣", "9" * 18, "9" * 30, "-1", "a" * 299, "a" * 20_000,
)  # fmt: skip
ASKED = (
    "/topic?name={}", "/group?name={}", "/topics?q={}&kind={}", "/topics?page={}", "/groups?q={}",
    "/messages?topic={}&way=key&text={}", "/messages?way=id&text={}", "/message?id={}",
    "/messages?topic=T&way=time&begin={}", "/message?topic={}&broker={}&queue=0&offset=0",
    "/message?topic=T&broker=broker-a&queue={}&offset={}", "/dead-letters?group={}",
    "/dead-letters?group=g&begin={}", "/tail?topic={}&filter={}&kind={}", "/sign-in?next={}&why={}",
    "/topic/change?name={}&read_queues=1&write_queues=1&perm=6", "/live/tail?topic=T&kind={}",
    "/topic/change?name=T&read_queues={}&write_queues=1&perm=6", "/{}",
    "/group/reset?name=g&topic=T&time={}",
)  # fmt: skip


@asynchronous
async def test_nothing_that_is_asked_for_breaks_a_page(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in ASKED:
            for odd in ODD:
                answer = await asked.client.get(path.replace("{}", quote(odd, safe="")))
                assert answer.status_code in (200, 303, 400, 404, 502), (path, odd)
                assert "x-injected" not in answer.headers
                assert "<b>" not in answer.text
                assert "'\"" not in answer.text
                assert "4267635650" not in answer.text
        answer = await asked.client.get("/topic", params={"name": "a" * 301})
        assert (answer.status_code, "more than 300 characters" in answer.text) == (400, True)


@asynchronous
async def test_whatever_is_in_a_message_its_page_is_made(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with Producer("p", namesrv=shared.namesrv) as producer:
        ids = [
            (await producer.send(Message(topic, body, tags="<i>", keys=("<u>", "'\"")))).msg_id
            for body in BODIES
        ]
    async with a_console(shared.namesrv) as asked:

        async def listed() -> bool:
            page = await asked.page("/messages", topic=topic, way="time")
            return all(each in page for each in ids)

        await until(listed, "all are on the page")
        for msg_id in ids:

            async def found(msg_id: str = msg_id) -> bool:
                answer = await asked.client.get("/message", params={"topic": topic, "id": msg_id})
                assert answer.status_code in (200, 400, 502), answer.text
                for tag in ("<script>a", "<img", "<i>", "<u>"):
                    assert tag not in answer.text
                return answer.status_code == 200

            await until(found, "it is found by its id")


@asynchronous
async def test_an_id_that_names_another_machine_is_not_followed(
    shared: Cluster, group: str
) -> None:
    """The id of a broker is an address, and a link with it can stand on any page of the web."""
    with socket.create_server((HOST, 0)) as other:
        other.setblocking(False)
        msg_id = offset_message_id(pack_host(HOST, other.getsockname()[1]), 0)
        async with a_changing_console(shared.namesrv) as asked:
            for answer in (
                await asked.client.get("/message", params={"id": msg_id}),
                await asked.client.get("/messages", params={"way": "id", "text": msg_id}),
                await asked.post(
                    "/dead-letters/send-again",
                    csrf=await asked.csrf(), group=group, to="group", id=msg_id,
                ),
            ):  # fmt: skip
                assert "no broker of this cluster" in answer.text
            with pytest.raises(BlockingIOError):
                other.accept()


@asynchronous
async def test_a_broker_that_is_registered_by_name_is_one(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        await asyncio.to_thread(cluster.start_broker, brokerIP1="localhost")
        await create_topic(cluster.namesrv, "T", 1)
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            sent = await producer.send(Message("T", b"x"))
        assert sent.offset_msg_id
        async with a_console(cluster.namesrv) as asked:
            assert sent.msg_id in await asked.page("/message", id=sent.offset_msg_id)


@asynchronous
async def test_files_come_from_their_folder_alone(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in (
            "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py",
            "/static/..%5capp.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/",
            "/static/uplot", "/static/%00",
        ):  # fmt: skip
            answer = await asked.client.get(path)
            assert (answer.status_code, answer.text) == (404, "Not Found"), path


@asynchronous
async def test_too_much_of_a_form(shared: Cluster, topic: str) -> None:
    async with a_changing_console(shared.namesrv) as asked:
        csrf = await asked.csrf()
        answer = await asked.post("/send", csrf=csrf, topic=topic, body="ä" * (1 << 20))
        assert answer.status_code == 413  # before all of it is read
        answer = await asked.post("/send", csrf=csrf, topic=topic, body="a" * ((1 << 20) + 1))
        assert "at most 1,048,576 bytes" in answer.text
        answer = await asked.post("/send", csrf=csrf, id=["x"] * 2000)
        assert answer.status_code == 400
        answer = await asked.client.post(
            "/send", files={"body": b"x"}, headers={"origin": "http://localhost:8199"}
        )
        assert answer.status_code == 400


@asynchronous
async def test_guessing_side_by_side_is_stopped_too(shared: Cluster, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    async with a_console(
        shared.namesrv, token=TOKEN, token_to_read=True, audit_file=str(audit)
    ) as asked:
        answers = await asyncio.gather(*(asked.sign_in(token=f"guess-{n}") for n in range(60)))
        codes = [answer.status_code for answer in answers]
        assert (codes.count(403), codes.count(429)) == (10, 50)
    assert len(audit.read_text().splitlines()) == 10  # who guesses does not fill the disk
    assert "guess-" not in audit.read_text()


@asynchronous
async def test_who_leaves_while_a_change_is_under_way_has_a_line(
    shared: Cluster, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message may be stored or not."""
    begun = asyncio.Event()

    async def under_way(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(dead_letters, "again", under_way)
    audit = tmp_path / "audit.log"
    async with a_changing_console(shared.namesrv, audit_file=str(audit)) as asked:
        form = {"csrf": await asked.csrf(), "group": group, "to": "group", "id": ["x", "y"]}
        leaves = asyncio.create_task(asked.post("/dead-letters/send-again", **form))
        await begun.wait()
        leaves.cancel()
        await asyncio.wait((leaves,))
    _, line = audit.read_text().splitlines()
    assert f"action=send-again subject=x@{group}>group" in line
    assert line.endswith('outcome="not known: it was broken off"')


# --- connections
# --------------------------------------------------------------------------------------------------


@asynchronous
async def test_who_asks_for_nothing_is_sent_away(
    shared: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_S", 0.2)
    async with served(shared.namesrv) as port:
        silent, _silent = await asyncio.open_connection(HOST, port)
        slow, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET / HTTP/1.1\r\nHos")
        live, looking = await asyncio.open_connection(HOST, port)
        looking.write(f"GET /live/overview HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        async with asyncio.timeout(60):
            assert await silent.read() == b""
            assert await slow.read() == b""
            assert b"200 OK" in await live.readuntil(b"\r\n\r\n")
            for _ in range(2):  # longer than anybody is waited for
                await live.readuntil(b"event: part")
                await asyncio.sleep(0.3)
        for each in (_silent, writer, looking):
            each.close()


@asynchronous
async def test_a_form_that_does_not_come(shared: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "FORM_S", 0.2)
    async with served(shared.namesrv) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(
            f"POST /sign-in HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n".encode()
        )
        async with asyncio.timeout(60):
            assert b" 400 " in await reader.readline()
            assert b"the form did not come" in await reader.readuntil(b"</html>")
        writer.close()


@asynchronous
async def test_the_form_of_who_has_not_signed_in_is_not_waited_for(shared: Cluster) -> None:
    async with served(shared.namesrv, allow_changes=True, token=TOKEN) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(
            f"POST /send HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            "Content-Length: 900000\r\n\r\n".encode()
        )
        async with asyncio.timeout(site.FORM_S / 2):
            assert b" 303 " in await reader.readline()
        writer.close()


@asynchronous
async def test_too_much_of_a_sign_in(shared: Cluster) -> None:
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True) as asked:
        answer = await asked.sign_in(token=TOKEN, secret_key="a" * 100_000)
        assert (answer.status_code, "at most 32,768 bytes" in answer.text) == (400, True)
        assert (await asked.sign_in(token=TOKEN)).status_code == 303


@asynchronous
async def test_what_is_no_request_of_a_page(shared: Cluster) -> None:
    async with served(shared.namesrv) as port:
        upgrade = "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
        for text, status in (
            (f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\n{upgrade}", b"200"),  # an ordinary one
            (f"GET http://evil.example/ HTTP/1.1\r\nHost: localhost:{port}\r\n", b"404"),
            (f"GET http://localhost:{port}/ HTTP/1.1\r\nHost: evil.example\r\n", b"403"),
            (f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nX: {'a' * 200_000}\r\n", b"400"),
            ("GET / HTTP/1.0\r\n", b"403"),
            (f"PUT / HTTP/1.1\r\nHost: localhost:{port}\r\n", b"403"),
            (f"OPTIONS / HTTP/1.1\r\nHost: localhost:{port}\r\n", b"403"),
        ):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(f"{text}Connection: close\r\n\r\n".encode())
            async with asyncio.timeout(60):
                line = await reader.readline()
            assert line.split()[1] == status, (text[:60], line)
            writer.close()
