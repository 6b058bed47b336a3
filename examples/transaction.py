"""A message that comes if and only if the database has the order: ``python
examples/transaction.py``.

Three orders: one is inserted, one breaks a rule of the database, and at the third the program
"dies" after the insert, before it can tell the broker. The broker asks, and the checker looks into
the database.
"""

import sqlite3

from aiorocketmq import (
    Message,
    MessageExt,
    PullConsumer,
    StartFrom,
    TransactionProducer,
    TransactionState,
    run,
)
from aiorocketmq.local_cluster import LocalCluster

ASK_SOON = {
    "transactionTimeOut": "500",
    "transactionCheckInterval": "500",
}  # not after 6 s, once a minute


async def main() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE TABLE orders (number INTEGER PRIMARY KEY, amount INTEGER CHECK (amount > 0))"
    )

    async def check(message: MessageExt) -> TransactionState:
        found = database.execute(
            "SELECT * FROM orders WHERE number = ?", (int(message.keys[0]),)
        ).fetchone()
        print(f"the broker asks about order {message.keys[0]}")
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK

    async with LocalCluster(properties=ASK_SOON) as cluster:
        async with TransactionProducer(
            "shop", checker=check, namesrv=cluster.namesrv_address
        ) as producer:
            for number, amount in ((1, 25), (2, -3), (3, 40)):
                message = Message("Order", f"order {number}: {amount}".encode(), keys=[str(number)])
                try:
                    async with producer.transaction(message) as transaction:
                        with database:
                            database.execute("INSERT INTO orders VALUES (?, ?)", (number, amount))
                        if number == 3:
                            transaction.leave_unknown()
                except sqlite3.IntegrityError as error:
                    print(f"order {number} is rolled back: {error}")

            consumer = PullConsumer(
                "billing",
                "Order",
                namesrv=cluster.namesrv_address,
                start_from=StartFrom.FIRST,
                suspend=0.5,
            )
            async with consumer:
                received = 0
                async for order in consumer:
                    print(f"received {order.body.decode()}")
                    received += 1
                    if received == 2:
                        break
    database.close()


if __name__ == "__main__":
    run(main())
