"""Whom the console lets do what: it reads only, unless told otherwise; a change takes a session and
its own form; no other page of a browser gets anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from aiorocketmq.console.sessions import IDLE_S

from .cluster import Cluster, asynchronous, create_topic
from .console_client import CHANGES, ORIGIN, PAGES, STREAMS, TOKEN, a_changing_console, a_console


@asynchronous
async def test_it_only_reads_unless_told_otherwise(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in PAGES:
            page = await asked.page(path)
            assert "read-only" in page
            assert "csrf" not in page or 'value=""' in page
        for path in CHANGES:
            answer = await asked.post(path, csrf="", topic="T", name="T")
            assert answer.status_code == 403
            assert "--allow-changes" in answer.text


@asynchronous
async def test_every_answer_has_the_policy(shared: Cluster) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in (*PAGES, "/static/console.css", "/nowhere", "/sign-in"):
            answer = await asked.client.get(path)
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert " style=" not in answer.text
            assert not re.search(r"<script(?! src=)", answer.text)
            assert not re.search(r"\son\w+=", answer.text)


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"},
                                     {"sec-fetch-site": "same-site"}])  # fmt: skip
@asynchronous
async def test_another_page_of_the_browser_reads_nothing(
    shared: Cluster, headers: dict[str, str]
) -> None:
    async with a_console(shared.namesrv) as asked:
        for path in (*PAGES, *STREAMS, "/static/console.js"):
            answer = await asked.client.get(path, headers=headers)
            assert (answer.status_code, answer.text[:8]) == (403, "Refused:"), path
        for path in CHANGES:
            answer = await asked.client.post(path, headers={"origin": ORIGIN} | headers)
            assert (answer.status_code, answer.text[:8]) == (403, "Refused:"), path


@asynchronous
async def test_a_change_takes_a_session_and_its_own_form(shared: Cluster, topic: str) -> None:
    await create_topic(shared.namesrv, topic, 1)
    async with a_console(shared.namesrv, allow_changes=True, token=TOKEN) as asked:
        answer = await asked.post("/send", csrf="x", topic=topic, body="x")
        assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        assert (await asked.sign_in(token="another")).status_code == 403
        assert not asked.client.cookies
        answer = await asked.sign_in(token=TOKEN, next="/topics")
        assert answer.headers["location"] == "/topics"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        for csrf in ("", "x"):
            answer = await asked.post("/send", csrf=csrf, topic=topic, body="x")
            assert answer.status_code == 403
            assert "not of this session" in answer.text
        assert "SEND_OK" in await asked.change("/send", topic=topic, body="x")
        await asked.post("/sign-out")
        answer = await asked.post("/send", csrf="x", topic=topic, body="x")
        assert answer.status_code == 303


@pytest.mark.parametrize("there", ["//evil.example", "https://evil.example", "/\\evil.example"])
@asynchronous
async def test_signing_in_leads_nowhere_else(shared: Cluster, there: str) -> None:
    async with a_console(shared.namesrv, allow_changes=True, token=TOKEN) as asked:
        answer = await asked.sign_in(token=TOKEN, next=there)
        assert answer.headers["location"] == "/"


@asynchronous
async def test_a_guarded_console_asks_before_it_shows_anything(shared: Cluster) -> None:
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True) as asked:
        for path in PAGES:
            answer = await asked.client.get(path)
            assert (answer.status_code, answer.headers["location"][:8]) == (303, "/sign-in")
        for path in STREAMS:
            assert (await asked.client.get(path)).status_code in (303, 403)
        await asked.sign_in(token=TOKEN)
        await asked.page("/")


@asynchronous
async def test_guessing_is_stopped(shared: Cluster) -> None:
    async with a_console(shared.namesrv, token=TOKEN, token_to_read=True) as asked:
        for _ in range(10):
            await asked.sign_in(token="wrong")
        answer = await asked.sign_in(token=TOKEN)
        assert answer.status_code == 429
        assert "wait a minute" in answer.text


@asynchronous
async def test_sessions_expire(shared: Cluster) -> None:
    async with a_changing_console(shared.namesrv) as asked:
        await asked.csrf()
        (session,) = asked.console.sessions._sessions.values()
        session.used -= IDLE_S + 1
        answer = await asked.client.get("/send")
        assert "csrf" not in answer.text


@asynchronous
async def test_every_change_is_one_line(shared: Cluster, topic: str, tmp_path: Path) -> None:
    await create_topic(shared.namesrv, topic, 1)
    path = tmp_path / "audit.log"
    async with a_changing_console(shared.namesrv, audit_file=str(path)) as asked:
        await asked.change("/send", topic=topic, body="the-body\r\nof two lines", keys="k")
        await asked.change("/send", topic="No-such\ntopic", body="x")
    lines = path.read_text().splitlines()
    assert [re.sub(r"^\S+ ", "", line) for line in lines][:2] == [
        "AUDIT who=token from=127.0.0.1 action=sign-in subject=console outcome=done",
        f'AUDIT who=token from=127.0.0.1 action=send subject="{topic},bytes=21" outcome=done',
    ]
    assert len(lines) == 3
    assert "refused" in lines[2]
    assert "the-body" not in path.read_text()
    assert TOKEN not in path.read_text()
