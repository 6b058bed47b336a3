"""What a page of the console reads: bodies of messages, which anybody may have sent, and times that
are typed into it."""

from __future__ import annotations

from aiorocketmq.console.model.accounts import parse_accounts
from aiorocketmq.console.model.bodies import look_at
from aiorocketmq.console.model.texts import parse_moment

from .parsers import Parser, same, text_of


def _body(data: bytes) -> object:
    body = look_at(data)
    if body.text is not None:
        same(body.text.encode(), data, "the text of a body")
    return body.size


def _accounts(data: bytes) -> object:
    file = parse_accounts("accounts.yml", text_of(data))
    return len(file.accounts)


def _moment(data: bytes) -> object:
    return parse_moment(text_of(data))


PARSERS = (
    Parser(
        "bodies-of-pages",
        ("console/model/bodies.py: look_at",),
        (
            "console/model/bodies.py: MOST_BYTES",
            "console/model/bodies.py: MOST_DEPTH",
            "console/model/bodies.py: MOST_NODES",
        ),
        _body,
        bytes_per_byte=400,
        seeds=lambda: [b'{"a":[1,2.5e3,{"b":null}],"c":"\\u00e4"}', b"plain \xc3\xa4", b"\xff\x00"],
    ),
    Parser(
        "accounts-of-pages",
        ("console/model/accounts.py: parse_accounts",),
        (
            "console/model/accounts.py: MOST_FILE_BYTES",
            "console/model/accounts.py: MOST_ACCOUNTS",
        ),
        _accounts,
        bytes_per_byte=3000,
        base_bytes=1 << 20,
        seeds=lambda: [
            b"accounts:\n- {accessKey: me, secretKey: hidden99, admin: true, topicPerms: [T=PUB]}\n"
        ],
    ),
    Parser(
        "times-of-pages",
        ("console/model/texts.py: parse_moment",),
        (),
        _moment,
        (ValueError,),
        bounded_by="a field of a form",
        seeds=lambda: [b"2026-11-21 13:14:15", b"2026-11-21T13:14+01:00", b"1700000000000"],
    ),
)
