"""Who may do what: ``python examples/acl.py``. The accounts stand in ``plain_acl.yml`` of the
broker."""

import logging
import tempfile
from pathlib import Path

from aiorocketmq import Credentials, Message, Producer, PullConsumer, SendFailed, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster

ACCOUNTS = """\
accounts:
  - {accessKey: the-shop, secretKey: secret-of-the-shop,
     topicPerms: ["Order=PUB"], groupPerms: ["till=PUB"]}
  - {accessKey: the-billing, secretKey: secret-of-billing,
     topicPerms: ["Order=SUB"], groupPerms: ["billing=SUB"]}
"""
SHOP = Credentials("the-shop", "secret-of-the-shop")


def make_files(home: Path) -> Path:
    """The broker's accounts, and the key file of one of them."""
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    key_file = home / "billing.key"
    key_file.write_text("AccessKey=the-billing\nSecretKey=secret-of-billing\n")
    return key_file


def why(error: SendFailed) -> str:
    """What the last broker said."""
    return str(error.attempts[-1].error).rpartition("AclException: ")[2]


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        key_file = make_files(Path(home))
        async with LocalCluster(properties={"aclEnable": "true", "rocketmqHome": home}) as cluster:
            namesrv = cluster.namesrv_address
            async with Producer("till", namesrv=namesrv, credentials=SHOP) as producer:
                await producer.send(Message("Order", b"a book"))
                try:
                    await producer.send(Message("Salary", b"more"))
                except SendFailed as error:
                    print("shop:", why(error))

            async with Producer("nobody", namesrv=namesrv) as producer:
                try:
                    await producer.send(Message("Order", b"a book"))
                except SendFailed as error:
                    print("nobody:", why(error))

            # credentials: an account, or the file it stands in
            async with PullConsumer(
                "billing",
                "Order",
                namesrv=namesrv,
                credentials=key_file,
                start_from=StartFrom.FIRST,
            ) as consumer:
                async for message in consumer:
                    print(f"billing: received {message.body.decode()}")
                    break


if __name__ == "__main__":
    logging.getLogger("aiorocketmq").setLevel(
        logging.ERROR
    )  # refusals are warnings, and shown above
    run(main())
