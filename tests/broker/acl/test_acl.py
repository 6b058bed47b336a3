"""Accounts and permissions, and the files they stand in."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiorocketmq.broker.acl.files import AclFiles, open_acl, read_acl_file
from aiorocketmq.broker.acl.permissions import AccessTable, AclError, AclFile, Permission
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.daemon.persist import replace_file
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.signed import signed_content
from aiorocketmq.remoting.signature import Credentials, Signer, signature, signed

from ...sim import ManualClock
from ..accounts import account, files_of, home, table_of


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (account(accessKey="123456"), "length should longer than 6"),
        (account(secretKey="123456"), "length should longer than 6"),
        (account(secretKey=None), "cannot be null"),
        (account(topicPerms=["Orders"]), "'Res=Perm'"),
        (account(groupPerms="g=SUB"), "groupPerms must be a list"),
        (account(whiteRemoteAddress="10.0.0"), "no address"),
        ({"accounts": "none"}, "accounts must be a list"),
        ({"globalWhiteRemoteAddresses": ["1.2.3.4.5"]}, "no address"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_name(
    content: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AclError) as refused:
        table_of(content)
    assert reason in refused.value.text
    assert "f.yml" in refused.value.text
    assert "topsecret" not in str(refused.value)


def test_of_two_accounts_with_one_key_the_first_counts() -> None:
    table = AccessTable(
        [
            AclFile("a.yml", account(admin="true")),
            AclFile("b.yml", account(secretKey="another one")),
        ]
    )
    assert table.accounts["someone"].admin
    assert table.accounts["someone"].file == "a.yml"


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    ],
)
def test_messages_of_all_topics_are_not_what_a_default_is_for(topic: str) -> None:
    """They are on their way to others, of which some may be denied."""
    denied = table_of(account(defaultTopicPerm="PUB|SUB", topicPerms=["Shut=DENY"]))
    listed = table_of(account(topicPerms=[f"{topic}=SUB"]))
    reads = ((topic, Permission.SUB),)
    listed.accounts["someone"].check(reads)
    table_of(account(admin="true")).accounts["someone"].check(reads)
    with pytest.raises(AclError, match=f"No default permission for topic:{topic}"):
        denied.accounts["someone"].check(reads)


def test_no_secret_is_shown() -> None:
    assert "topsecret" not in repr(table_of(account()).accounts)


def test_the_signature_of_a_query_counts_with_and_without_the_field_that_java_signs() -> None:
    table = table_of(account())
    fields = {"topic": "T", "_UNIQUE_KEY_QUERY": "true", "AccessKey": "someone"}
    for unsigned in (("Signature", "_UNIQUE_KEY_QUERY"), ("Signature",)):
        signed = Signer("topsecret").sign(signed_content(fields, unsigned), b"")
        sent = fields | {"Signature": signed.decode()}
        assert table.account_of(sent, b"", "10.0.0.1") is not None
    with pytest.raises(AclError):
        table.account_of(fields | {"Signature": signature("wrong", fields, b"")}, b"", "10.0.0.1")


def test_a_signature_says_nothing_of_the_request_nor_of_the_names_of_its_fields() -> None:
    """It is over values alone, as the original has it. So whoever reads it along can make other
    requests of it: a deletion (215) of a look at a topic (202), with the same ``topic``."""
    table, credentials = table_of(account()), Credentials("someone", "topsecret")
    looked_at = signed(credentials, {"topic": "Orders"}, b"")  # no code stands in what is signed
    assert table.account_of(looked_at, b"", "10.0.0.1") is not None
    connections = signed(credentials, {"consumerGroup": "cg"}, b"")  # 38
    assert sorted(connections) == ["AccessKey", "Signature", "consumerGroup"]
    deletion = {  # 207
        "AccessKey": "someone",
        "Signature": connections["Signature"],
        "groupName": "cg",
    }
    assert table.account_of(deletion, b"", "10.0.0.1") is not None


def test_a_signature_covers_every_field_and_the_body() -> None:
    table = table_of(account())
    sent = signed(Credentials("someone", "topsecret"), {"topic": "T", "queueId": "1"}, b"body")
    assert table.account_of(sent, b"body", "10.0.0.1") is not None
    for fields, body in (
        (sent | {"topic": "U"}, b"body"),
        (sent | {"more": "x"}, b"body"),
        (sent, b"bodY"),
    ):
        with pytest.raises(AclError, match="Check signature failed for accessKey=someone"):
            table.account_of(fields, body, "10.0.0.1")


# -- files


def test_a_missing_file_is_made_and_nobody_may_do_anything(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    assert (tmp_path / "conf" / "plain_acl.yml").stat().st_mode & 0o077 == 0
    with pytest.raises(AclError, match="No accessKey is configured"):
        files.table.account_of({}, b"", "127.0.0.1")


def test_all_files_of_the_folder_count_but_the_credentials_of_the_tools(tmp_path: Path) -> None:
    folder = home(tmp_path) / "conf" / "acl" / "deep"
    folder.mkdir(parents=True)
    (folder / "more.yaml").write_text("accounts: [{accessKey: another, secretKey: one-more}]")
    (folder / "tools.yml").write_text("accessKey: tool\nsecretKey: secret")
    files = files_of(tmp_path)
    assert set(files.table.accounts) == {"producer", "administrator", "narrow-admin", "another"}


def test_a_broker_does_not_start_with_a_file_it_cannot_read(tmp_path: Path) -> None:
    home(tmp_path, "accounts:\n  - accessKey: [unfinished\n    secretKey: my-secret-1\n")
    config = BrokerConfig(acl_enable=True, rocketmq_home=str(tmp_path))
    with pytest.raises(RocketMQError) as refused:
        open_acl(config, ManualClock())
    assert "plain_acl.yml: no YAML at line" in str(refused.value)
    assert "my-secret" not in str(refused.value)
    assert open_acl(BrokerConfig(rocketmq_home=str(tmp_path)), ManualClock()) is None


def touch(path: Path, text: str) -> None:
    """Written, and surely with another modification time."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_a_changed_file_counts_after_the_next_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        files = files_of(home(tmp_path))
        assert not await files.refresh()
        touch(files.default, "accounts: [{accessKey: newcomer, secretKey: my-secret}]")
        assert await files.refresh()
        assert set(files.table.accounts) == {"newcomer"}
        touch(files.default, "accounts: [{accessKey: newcomer, secretKey: short}]")
        with caplog.at_level(logging.ERROR):
            assert not await files.refresh()
            assert not await files.refresh()
        assert set(files.table.accounts) == {"newcomer"}
        assert len(caplog.records) == 1
        added = tmp_path / "conf" / "acl" / "x.yml"
        added.parent.mkdir()
        added.write_text("accounts: [{accessKey: one-more, secretKey: my-secret}]")
        touch(files.default, "")
        assert await files.refresh()
        assert set(files.table.accounts) == {"one-more"}

    asyncio.run(run())


def test_what_could_not_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a descriptor nobody can look; and nothing that can be seen of a file changes with its
    owner."""

    async def run() -> None:
        clock = ManualClock()
        files = AclFiles(home(tmp_path), "conf/plain_acl.yml", clock)
        touch(files.default, "accounts: [{accessKey: newcomer, secretKey: my-secret}]")
        for name, number in (("is_dir", errno.EMFILE), ("read_bytes", errno.EACCES)):
            with monkeypatch.context() as failing:
                failing.setattr(Path, name, partial(_fails, number))
                assert not await files.refresh()
            assert "producer" in files.table.accounts
        clock.advance(59)
        assert not await files.refresh()
        clock.advance(1)
        assert await files.refresh()
        assert set(files.table.accounts) == {"newcomer"}

    asyncio.run(run())
    assert os.strerror(errno.EMFILE) in caplog.text


def _fails(number: int, *_args: object) -> None:
    raise OSError(number, os.strerror(number))


def test_a_file_that_is_gone_leaves_the_accounts_as_they_are(tmp_path: Path) -> None:
    async def run() -> None:
        files = files_of(home(tmp_path))
        files.default.unlink()
        assert not await files.refresh()
        assert "producer" in files.table.accounts
        files.default.write_text("")
        assert await files.refresh()
        assert not files.table.accounts

    asyncio.run(run())


def test_the_watch_looks_every_five_seconds(tmp_path: Path) -> None:
    async def run() -> None:
        clock = ManualClock()
        files = AclFiles(home(tmp_path), "conf/plain_acl.yml", clock)
        watch = asyncio.create_task(files.run())
        await asyncio.sleep(0)
        touch(files.default, "accounts: [{accessKey: newcomer, secretKey: my-secret}]")
        clock.advance(4.9)
        await asyncio.sleep(0)
        assert "newcomer" not in files.table.accounts
        clock.advance(0.1)
        async with asyncio.timeout(10):
            while "newcomer" not in files.table.accounts:
                await asyncio.sleep(0.001)  # a thread reads
        watch.cancel()

    asyncio.run(run())


def test_what_is_written_keeps_the_rest_and_the_version_grows(tmp_path: Path) -> None:
    async def run() -> None:
        files = files_of(home(tmp_path))
        files.default.chmod(0o640)
        await files.set_account(
            {
                "accessKey": "producer",
                "secretKey": "another-secret",
                "admin": False,
                "topicPerms": ["Orders=SUB"],
            }
        )
        await files.set_account(
            {"accessKey": "newcomer", "secretKey": "my-secret", "admin": True, "groupPerms": None}
        )
        written = yaml.safe_load(files.default.read_text())
        by_key = {each["accessKey"]: each for each in written["accounts"]}
        assert list(by_key) == ["administrator", "narrow-admin", "producer", "newcomer"]
        assert by_key["producer"]["secretKey"] == "another-secret"
        assert by_key["producer"]["topicPerms"] == ["Orders=SUB"]
        assert by_key["producer"]["groupPerms"] == ["closed=DENY", "writer=PUB"]
        assert (by_key["producer"]["admin"], by_key["newcomer"]["admin"]) == (False, True)
        assert written["globalWhiteRemoteAddresses"] == ["10.9.*.*"]
        assert written["dataVersion"] == [{"counter": 2, "timestamp": ManualClock().time_ms()}]
        assert read_acl_file(files.default).version.counter == 2
        backup = files.default.with_name("plain_acl.yml.bak")
        assert "newcomer" not in backup.read_text()
        assert {path.stat().st_mode & 0o777 for path in (files.default, backup)} == {0o640}
        assert files.table.accounts["newcomer"].admin
        assert not await files.refresh()

    asyncio.run(run())


def test_a_text_that_looks_like_a_number_stays_a_text_when_it_is_written(tmp_path: Path) -> None:
    async def run() -> None:
        files = files_of(home(tmp_path))
        await files.set_global_white(["10.1.*.*"], None)
        assert files.table.accounts["producer"].secret_key == "012345678"
        assert read_acl_file(files.default).content["accounts"][0]["secretKey"] == "012345678"

    asyncio.run(run())


def test_an_account_is_changed_in_the_file_it_stands_in(tmp_path: Path) -> None:
    async def run() -> None:
        other = home(tmp_path) / "conf" / "acl" / "other.yml"
        other.parent.mkdir()
        other.write_text("accounts: [{accessKey: another, secretKey: my-secret}]")
        files = files_of(tmp_path)
        await files.set_account({"accessKey": "another", "secretKey": "changed-it", "admin": False})
        assert "changed-it" in other.read_text()
        assert "changed-it" not in files.default.read_text()
        assert await files.delete_account("another")
        assert read_acl_file(other).content["accounts"] == []
        assert not await files.delete_account("another")
        with pytest.raises(AclError, match="none of the ACL files"):
            await files.set_global_white([], str(tmp_path / "elsewhere"))

    asyncio.run(run())


def test_an_account_that_is_deleted_is_in_no_file_any_more(tmp_path: Path) -> None:
    """Or that of the next file would count from then on, perhaps with the secret of before."""

    async def run() -> None:
        folder = home(tmp_path).joinpath("conf", "acl")
        folder.mkdir()
        other = "accounts:\n- {accessKey: producer, secretKey: an-old-secret, admin: true}\n"
        (folder / "old.yml").write_text(other)
        files = files_of(tmp_path)
        assert await files.delete_account("producer")
        assert "producer" not in files.table.accounts
        assert not await files.delete_account("producer")

    asyncio.run(run())


@pytest.mark.parametrize("when", ["new", "known"])
def test_an_account_is_revoked_while_another_file_cannot_be_used(tmp_path: Path, when: str) -> None:
    async def run() -> None:
        team = home(tmp_path) / "conf" / "acl" / "team.yml"
        team.parent.mkdir()
        if when == "known":
            team.write_text("accounts: [{accessKey: another, secretKey: my-secret}]")
        files = files_of(tmp_path)
        team.write_text("accounts: [")
        assert not await files.refresh()
        assert await files.delete_account("producer")
        assert "producer" not in files.table.accounts
        assert "producer" not in files.default.read_text()
        assert ("another" in files.table.accounts) == (when == "known")
        team.write_text("accounts: [{accessKey: somebody, secretKey: my-secret}]")
        assert await files.refresh()
        assert "somebody" in files.table.accounts
        assert "producer" not in files.table.accounts

    asyncio.run(run())


def test_what_somebody_writes_behind_a_change_counts_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that saved at that moment revokes an account."""
    by_hand = "accounts: [{accessKey: another, secretKey: my-secret}]"

    def and_somebody(path: Path, text: str) -> None:
        replace_file(path, text)
        path.write_text(by_hand)

    async def run() -> None:
        files = files_of(home(tmp_path))
        with monkeypatch.context() as patched:
            patched.setattr("aiorocketmq.broker.acl.files.replace_file", and_somebody)
            await files.set_account({"accessKey": "newcomer", "secretKey": "my-secret"})
        assert "newcomer" in files.table.accounts
        assert await files.refresh()
        assert set(files.table.accounts) == {"another"}

    asyncio.run(run())
