"""Run with the package ``rocketmq`` 0.4.4 (a C++ client and its ctypes binding) on the path, in a
process of its own::

python foreign_program.py send <namesrv> <topic> <count>        prints a line of JSON per message
python foreign_program.py consume <namesrv> <topic> <count> <group>
"""

import json
import os
import sys
import threading
from typing import Any

LONG = 20_000


def body_of(number: int) -> str:
    """Every third one is long enough to be compressed."""
    return f"{number}:" + ("long" * (LONG // 4) if number % 3 == 0 else "short")


def send(namesrv: str, topic: str, count: int) -> None:
    from rocketmq.client import Message, Producer

    producer = Producer("foreign-producers")
    producer.set_namesrv_addr(namesrv)
    producer.start()
    for number in range(count):
        message = Message(topic)
        message.set_keys(f"key-{number}")
        message.set_tags("odd" if number % 2 else "even")
        message.set_property("number", str(number))
        message.set_body(body_of(number))
        result = producer.send_sync(message)
        print(
            json.dumps(
                {"id": result.msg_id, "status": int(result.status), "offset": result.offset}
            ),
            flush=True,
        )
    producer.shutdown()


def consume(namesrv: str, topic: str, count: int, group: str) -> None:
    from rocketmq.client import PushConsumer

    done, lock, seen = threading.Event(), threading.Lock(), []

    def handle(message: Any) -> None:
        row = {
            "id": message.id,
            "body": message.body.decode(),
            "tags": message.tags.decode(),
            "keys": message.keys.decode(),
        }
        with lock:
            seen.append(row)
            if len({each["id"] for each in seen}) >= count:
                done.set()

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, handle)
    consumer.start()
    done.wait(45)
    with lock:
        for each in seen:
            print(json.dumps(each), flush=True)
    consumer.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        consume(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    sys.stdout.flush()
    os._exit(0)  # its threads may crash while the interpreter goes down
