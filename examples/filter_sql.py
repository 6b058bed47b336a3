"""Only the messages that an SQL92 expression is true for: ``python examples/filter_sql.py``.

The broker looks at the properties of the messages; it needs ``enablePropertyFilter=true``
(``mqcluster`` has it).
"""

from aiorocketmq import ConfigError, Message, Producer, PullConsumer, Sql, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        async with Producer("sensors", namesrv=cluster.namesrv_address) as producer:
            for number in range(8):
                site = "north" if number % 2 else "south"
                await producer.send(
                    Message("Reading", b"%d" % number, properties={"a": str(number), "site": site})
                )

        consumer = PullConsumer(
            "alarm", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Reading", Sql("a BETWEEN 0 AND 3 OR (a > 5 AND site IN ('north'))"))
        found: set[int] = set()
        async with consumer:
            while len(found) < 5:
                found |= {int(message.body) for message in await consumer.poll()}
        print("matched:", *sorted(found))

        wrong = PullConsumer("alarm", namesrv=cluster.namesrv_address)
        try:
            wrong.subscribe("Reading", Sql("a > 5 AND site LIKE 'n%'"))
        except ConfigError as error:
            print("refused:", error)


if __name__ == "__main__":
    run(main())
