"""Looking at every attempt to send, and forbidding some: ``python examples/hooks.py``."""

from aiorocketmq import Message, Producer, SendContext, run
from aiorocketmq.local_cluster import LocalCluster


class Ledger:
    """A hook: any object with these two methods."""

    def before_send(self, context: SendContext) -> None:
        print(
            f"to {context.queue.topic}: {len(context.messages)} message(s), {context.body_size} "
            "bytes"
        )

    def after_send(self, context: SendContext) -> None:
        if context.result is not None:
            print(
                f"{context.result.status.name} in {'less' if context.seconds < 5 else 'more'} "
                "than 5 s"
            )


class TooLateError(Exception):
    pass


def only_on_weekdays(context: SendContext) -> None:
    """A check: what it raises comes out of ``send``."""
    if context.messages[0].tags == "sunday":
        raise TooLateError("nobody works on Sundays")


async def main() -> None:
    async with (
        LocalCluster() as cluster,
        Producer(
            "shop", namesrv=cluster.namesrv_address, hooks=[Ledger()], checks=[only_on_weekdays]
        ) as producer,
    ):
        await producer.send(Message("Order", b"a book", tags="monday"))
        try:
            await producer.send(Message("Order", b"a book", tags="sunday"))
        except TooLateError as error:
            print("refused:", error)


if __name__ == "__main__":
    run(main())
