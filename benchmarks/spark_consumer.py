"""The plain consumer beside Spark: ``python -m benchmarks.spark_consumer NAMESRV TOPIC COUNT``.

A new group reads so many messages from the beginning. Prints a line of JSON with the wall time and
the CPU time of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiorocketmq import PullConsumer, StartFrom


async def consume(namesrv: str, topic: str, count: int) -> dict[str, float]:
    group = f"spark-{time.monotonic_ns()}"
    async with PullConsumer(group, topic, namesrv=namesrv, start_from=StartFrom.FIRST) as consumer:
        left = count - len(await consumer.poll(max_messages=512))
        begin, cpu, measured = time.perf_counter(), time.process_time(), left
        while left > 0:
            left -= len(await consumer.poll(max_messages=512))
        return {
            "messages": measured - left,
            "seconds": time.perf_counter() - begin,
            "cpu": time.process_time() - cpu,
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(consume(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
