"""A handler that gets the messages of a queue one after the other, and may stop it: ``python
examples/ordered_handler.py``.

The account 4711 is closed for a moment; its queue waits, the other one goes on, and nothing
overtakes.
"""

import asyncio

from aiorocketmq import (
    LocalCluster,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    StartFrom,
    SuspendQueue,
    run,
)

ACCOUNTS = (4711, 4712)


async def main() -> None:
    balances = dict.fromkeys(ACCOUNTS, 0)
    tried = 0
    finished = asyncio.Event()
    async with LocalCluster() as cluster:
        consumer = PushConsumer(
            "ledger", namesrv=cluster.namesrv_address, ordered=True, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Booking")

        @consumer.on_message
        async def book(message: MessageExt) -> None:
            nonlocal tried
            account, amount = int(message.keys[0]), int(message.body)
            if account == 4711 and (tried := tried + 1) <= 2:
                print(f"account {account} is closed, try {tried}")
                raise SuspendQueue(
                    0.2
                )  # this message again after 0.2 s, and nothing of its queue before
            balances[account] = balances[account] * 2 + amount  # the order matters
            if balances == {4711: 11, 4712: 11}:
                finished.set()

        async with Producer("bank", namesrv=cluster.namesrv_address) as producer:
            for amount in (1, 2, 3):
                for account in ACCOUNTS:
                    await producer.send(
                        Message("Booking", str(amount).encode(), keys=[str(account)]),
                        sharding_key=account,
                    )
        async with consumer:
            await finished.wait()
        print(f"balances: {balances}")

        consumer = PushConsumer(
            "reports", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Booking")
        seen: list[bytes] = []
        all_seen = asyncio.Event()

        @consumer.on_message
        async def report(message: MessageExt) -> None:
            seen.append(message.body)
            if len(seen) == 6:
                all_seen.set()

        consumer.suspend()  # joins the group, but pulls nothing yet
        async with consumer:
            print(f"suspended: {len(seen)} seen")
            consumer.resume()
            await all_seen.wait()
            print(f"resumed: {len(seen)} seen")


if __name__ == "__main__":
    run(main())
