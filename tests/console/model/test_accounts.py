"""Who may what, from files of accounts."""

from __future__ import annotations

import pytest

from aiorocketmq.console.model.accounts import parse_accounts


@pytest.mark.parametrize(
    ("lists", "may"),
    [
        ("admin: true", True),
        ("admin: false", False),
        ('admin: true, topicPerms: ["Orders=SUB"]', False),
        ('admin: true, groupPerms: ["readers=SUB"]', False),
    ],
)
def test_an_administrator_may_everything_but_what_lists_say(lists: str, may: bool) -> None:
    """As ``broker/acl`` decides, and the original."""
    text = f"accounts:\n  - {{accessKey: someone, secretKey: secret-of-someone, {lists}}}\n"
    (account,) = parse_accounts("x.yml", text).accounts
    assert account.may_everything is may
    assert "secret-of" not in repr(account)
