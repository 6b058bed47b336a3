"""The load generator as a command: ``python -m benchmarks.loadgen PORT SHAPE CONNECTIONS IN_FLIGHT
SECONDS``.

Prints ``started``, and when it is over a line of JSON. For campaigns that want load beside
something else; benchmarks call ``harness.play`` in their own process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from .harness.frames import QUEUES, batches, pulls, sends
from .harness.play import Frames, open_player

_BATCH = _PULL = 32
SHAPES: dict[str, Callable[[], Frames]] = {
    "send": sends,
    "batch": lambda: batches(_BATCH),
    "pull": lambda: pulls([(n % QUEUES, n // QUEUES * _PULL) for n in range(1024)], _PULL),
}


def main() -> None:
    port, shape, connections, in_flight, seconds = sys.argv[1:6]
    with open_player(int(port), int(connections), SHAPES[shape]()) as player:
        print("started", flush=True)
        played = player.play(int(in_flight), float(seconds))
    result = {
        "requests": played.answers,
        "messages": played.messages,
        "errors": played.errors,
        "seconds": played.seconds,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
