"""Accounts, and the folder of a broker that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiorocketmq.broker.acl.files import AclFiles
from aiorocketmq.broker.acl.permissions import AccessTable, AclFile
from aiorocketmq.remoting.signature import Credentials

from ..sim import ManualClock

ACCOUNTS = """\
globalWhiteRemoteAddresses:
  - 10.9.*.*
accounts:
  - accessKey: producer
    secretKey: 012345678
    whiteRemoteAddress: 10.8.0.1
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - Orders=PUB
      - Bills=SUB
      - Both=PUB|SUB
      - C_REPLY_TOPIC=PUB
      - Shut=DENY
    groupPerms:
      - closed=DENY
      - writer=PUB
  - accessKey: administrator
    secretKey: very-secret
    admin: true
  - accessKey: narrow-admin
    secretKey: very-secret
    admin: true
    defaultTopicPerm: SUB
    topicPerms: [ "Orders=PUB" ]
"""
PRODUCER = Credentials("producer", "012345678")
ADMINISTRATOR = Credentials("administrator", "very-secret")
NARROW = Credentials("narrow-admin", "very-secret")


def home(folder: Path, text: str = ACCOUNTS) -> Path:
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "plain_acl.yml").write_text(text)
    return folder


def files_of(folder: Path) -> AclFiles:
    return AclFiles(folder, "conf/plain_acl.yml", ManualClock())


def table_of(content: dict[str, Any]) -> AccessTable:
    return AccessTable([AclFile("f.yml", content)])


def account(**more: Any) -> dict[str, Any]:
    return {"accounts": [{"accessKey": "someone", "secretKey": "topsecret", **more}]}
