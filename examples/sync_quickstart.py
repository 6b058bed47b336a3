"""The same without asyncio: ``python examples/sync_quickstart.py``."""

from aiorocketmq.local_cluster import LocalCluster
from aiorocketmq.sync import Message, Producer, PullConsumer, StartFrom


def main() -> None:
    with LocalCluster() as cluster:
        with Producer("greeters", namesrv=cluster.namesrv_address) as producer:
            result = producer.send(Message("Greeting", b"Hello, world", tags="english"))
            print(f"sent {result.msg_id} to queue {result.queue.queue_id}")

        consumer = PullConsumer(
            "listeners", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        consumer.subscribe("Greeting", "english || french")
        with consumer:
            for message in consumer:
                print(f"received {message.msg_id}: {message.body.decode()}")
                break


if __name__ == "__main__":
    main()
