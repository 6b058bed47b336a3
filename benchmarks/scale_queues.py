"""What a message costs while more and more queues are written to: topics of eight queues each, all
of them in turn."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from .harness.frames import sends
from .harness.rows import Rows
from .harness.scale import Step, play_once, scaled
from .harness.servers import broker, floor, has_floor, work_folder

SIZES = (8, 100, 1_000, 5_000, 20_000)
EACH = 8
FILE_SIZE = 6_000_000
"""mappedFileSizeConsumeQueue"""


def run(rows: Rows) -> None:
    """All topics are there from the start; every queue that takes part has had a message before it
    is measured."""
    sizes = (8, 40) if rows.options.small else SIZES
    places = [(f"Topic-{n // EACH}", n % EACH) for n in range(sizes[-1])]
    with work_folder(rows.options.directory) as folder, rows.attempt("queues"):
        store = folder / "broker" / "store"
        write_topics(store / "config", sorted({topic for topic, _ in places}))
        make_files(store / "consumequeue", places)
        with broker(folder) as server, floor(folder) as least:
            steps, before = [], 0
            for size in sizes:
                frames = sends(queues=places[:size])
                prepare = partial(play_once, server.port, sends(queues=places[before:size]).frames)
                steps.append(Step(size, frames, 8, 16, prepare))
                before = size
            name = "CPU time of a send against queues that are written to, 8x16"
            rows.add(
                scaled(name, "queues", steps, server, least if has_floor() else None, rows.options)
            )


def make_files(folder: Path, places: list[tuple[str, int]]) -> None:
    """Empty queues: a broker makes sure of every new name on the disk, which is not what is
    measured here."""
    for topic, queue_id in places:
        path = folder / topic / str(queue_id) / f"{0:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(FILE_SIZE)


def write_topics(folder: Path, names: list[str]) -> None:
    """``topics.json`` as a broker leaves it behind."""
    folder.mkdir(parents=True)
    table = {
        name: {
            "order": False, "perm": 6, "readQueueNums": EACH, "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0, "writeQueueNums": EACH,
        }
        for name in names
    }  # fmt: skip
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    (folder / "topics.json").write_text(
        json.dumps({"dataVersion": version, "topicConfigTable": table})
    )
