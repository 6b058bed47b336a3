"""Asking and answering: ``python examples/request_reply.py``.

A consumer works out what the requests ask for and replies; the requester waits for its reply, at
most as long as it says.
"""

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, StartFrom, run
from aiorocketmq.local_cluster import LocalCluster


async def main() -> None:
    async with LocalCluster() as cluster:
        calculator = PushConsumer(
            "calculator", namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST
        )
        calculator.subscribe("Calculate")

        @calculator.on_message
        async def calculate(message: MessageExt) -> None:
            left, operator, right = message.body.decode().split()
            try:
                result = int(left) * int(right) if operator == "*" else int(left) / int(right)
                reply = f" = {result:g}"
            except ArithmeticError as error:
                reply = f": {error}"
            await calculator.reply(message, reply.encode())

        async with Producer("asker", namesrv=cluster.namesrv_address) as asker, calculator:
            for question in ("3 * 4", "10 / 4", "10 / 0"):
                reply = await asker.request(Message("Calculate", question.encode()), timeout=20)
                print(question + reply.body.decode())


if __name__ == "__main__":
    run(main())
