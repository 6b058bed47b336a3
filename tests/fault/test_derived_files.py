"""Whatever is derived from the commit log may be gone, cut, zeroed or garbled: the next start makes
it again.

Every file of the consume queues and of the index, the checkpoint and ``queueends``, one by one and
in pairs, after a clean stop and after kills with and without a checkpoint. Messages are counted by
pulling, and the next one gets the next number.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.tools.mqstore.rebuild import RebuildSettings, rebuild
from aiorocketmq.tools.mqstore.verify import verify

from ..store.world import NOW, bodies_of, crash, open_store, put_ok
from .damage import assert_consistent
from .disks import BadSectorDisk

QUEUES = [("T", 0), ("T", 1), ("U", 0)]
MESSAGES = 75
STOPS = ["clean stop", "kill", "kill without a checkpoint"]

Sent = dict[tuple[str, int], list[bytes]]


def filled(root: Path, stop: str) -> Sent:
    """Several files of everything."""
    store = open_store(root, mapped_file_size_commit_log=4096, max_index_num=20)
    sent: Sent = {queue: [] for queue in QUEUES}
    for number in range(MESSAGES):
        queue = QUEUES[number % len(QUEUES)]
        body = b"%d" % number
        put_ok(
            store,
            *queue,
            body=body,
            store_timestamp=NOW + number,
            properties={"KEYS": f"k{number}", "TAGS": "t"},
        )
        sent[queue].append(body)
        if number == MESSAGES - 10 and stop == "kill":
            asyncio.run(store.sync())
    if stop == "clean stop":
        store.close()
    else:
        store._indexing.build_all()
        crash(store)
    return sent


def reopened(root: Path, disk: Disk | None = None) -> MessageStore:
    return open_store(root, disk, mapped_file_size_commit_log=4096, max_index_num=20)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Sent]]]:
    made = {}
    for stop in STOPS:
        root = tmp_path_factory.mktemp("store")
        made[stop] = root, filled(root, stop)
    yield made
    for root, _ in made.values():
        shutil.rmtree(root)


def derived_files(root: Path) -> list[Path]:
    folders = [root / "consumequeue", root / "index"]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        *files,
        *(path for name in ("checkpoint", "queueends") if (path := root / name).is_file()),
    ]


def remove(path: Path, _chance: random.Random) -> None:
    path.unlink()


def cut(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def empty(path: Path, _chance: random.Random) -> None:
    path.write_bytes(b"")


def zero(path: Path, _chance: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def zero_tail(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: (at := chance.randrange(len(data)))] + bytes(len(data) - at))


def garble(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def garble_a_part(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    part = data[at : at + 32]
    data[at : at + 32] = chance.randbytes(len(part))
    path.write_bytes(data)


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    remove,
    cut,
    empty,
    zero,
    zero_tail,
    garble,
    garble_a_part,
]


def check(root: Path, sent: Sent, what: str, disk: Disk | None = None) -> None:
    """Everything is there, nothing twice, and numbers go on."""
    store = reopened(root, disk)
    try:
        for queue, bodies in sent.items():
            assert bodies_of(store, *queue) == bodies, (what, queue)
            assert put_ok(store, *queue, body=b"next").queue_offset == len(bodies), (what, queue)
    finally:
        store.close()


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_one_file(
    tmp_path: Path,
    stores: dict[str, tuple[Path, Sent]],
    damage: Callable[[Path, random.Random], None],
    stop: str,
) -> None:
    whole, sent = stores[stop]
    for number, victim in enumerate(derived_files(whole)):
        root = tmp_path / "store"
        shutil.copytree(whole, root)
        name = victim.relative_to(whole)
        damage(root / name, random.Random(number))
        check(root, sent, f"{damage.__name__} {name} after {stop}")
        assert_consistent(root)
        shutil.rmtree(root)


@pytest.mark.parametrize("stop", STOPS)
def test_a_bad_sector_in_one_file(
    tmp_path: Path, stores: dict[str, tuple[Path, Sent]], stop: str
) -> None:
    """It cannot be read any more."""
    whole, sent = stores[stop]
    for victim in derived_files(whole):
        root = tmp_path / "store"
        shutil.copytree(whole, root)
        name = str(victim.relative_to(whole))
        disk = BadSectorDisk()
        disk.bad = {f"/{name}": 0}
        check(root, sent, f"{name} cannot be read after {stop}", disk)
        assert_consistent(root)
        shutil.rmtree(root)


@pytest.mark.parametrize("stop", STOPS)
def test_two_files(tmp_path: Path, stores: dict[str, tuple[Path, Sent]], stop: str) -> None:
    whole, sent = stores[stop]
    chance = random.Random(4)
    for pair in itertools.combinations(derived_files(whole), 2):
        root = tmp_path / "store"
        shutil.copytree(whole, root)
        done = []
        for victim in pair:
            damage = chance.choice(DAMAGES)
            damage(root / victim.relative_to(whole), chance)
            done.append(f"{damage.__name__} {victim.relative_to(whole)}")
        check(root, sent, " and ".join(done) + f" after {stop}")
        shutil.rmtree(root)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "lost",
    ["consumequeue", "consumequeue/T", "consumequeue/T/1", "consumequeue/U/0", "index"],
    ids=lambda lost: str(lost),
)
def test_a_folder(
    tmp_path: Path, stores: dict[str, tuple[Path, Sent]], lost: str, stop: str
) -> None:
    whole, sent = stores[stop]
    for keep in (False, True):  # an empty folder in its place
        for also in ("", "checkpoint", "queueends"):
            root = tmp_path / "store"
            shutil.copytree(whole, root)
            shutil.rmtree(root / lost)
            if also:
                (root / also).unlink(missing_ok=True)
            if keep:
                (root / lost).mkdir()
            check(root, sent, f"{lost} after {stop}, without {also}")
            shutil.rmtree(root)


@pytest.mark.parametrize(
    "lost", ["consumequeue/T", "consumequeue/T/1", *(damage.__name__ for damage in DAMAGES)]
)
def test_mqstore_finds_it_and_mends_it(
    tmp_path: Path, stores: dict[str, tuple[Path, Sent]], lost: str
) -> None:
    whole, sent = stores["clean stop"]
    for name in ("consumequeue/T/1/" + "0" * 20, f"consumequeue/T/1/{400:020d}"):
        root = tmp_path / "store"
        shutil.copytree(whole, root)
        damage = next((damage for damage in DAMAGES if damage.__name__ == lost), None)
        shutil.rmtree(root / lost) if damage is None else damage(root / name, random.Random(2))
        told: list[str] = []
        assert verify(root, told.append, slots=10).findings, (lost, name)
        assert any("consumequeue/T/" in line for line in told)
        rebuild(root, RebuildSettings(slots=10, items=20, queue_file_size=200))
        assert verify(root, told.append, slots=10).findings == 0, told
        check(root, sent, f"{lost} {name}, rebuilt")
        shutil.rmtree(root)


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
def test_queues_with_extensions_light_queues_and_delays(tmp_path: Path, stop: str) -> None:
    whole = tmp_path / "whole"
    settings: dict[str, Any] = {
        "enable_consume_queue_ext": True,
        "mapped_file_size_consume_queue_ext": 400,
        "enable_multi_dispatch": True,
    }
    settings |= {"enable_lmq": True, "mapped_file_size_commit_log": 4096}
    store = open_store(whole, **settings)
    sent: Sent = {}
    for number in range(60):
        queue, body = [("T", 0), ("T", 1), ("SCHEDULE_TOPIC_XXXX", 2)][number % 3], b"%d" % number
        more = {"INNER_MULTI_DISPATCH": "%LMQ%a,V"} if queue[0] == "T" else {"DELAY": "3"}
        put_ok(
            store, *queue, body=body, store_timestamp=NOW + number, properties={"TAGS": "t", **more}
        )
        for each in (queue, *([("%LMQ%a", 0), ("V", queue[1])] if queue[0] == "T" else [])):
            sent.setdefault(each, []).append(body)
        if number == 50 and stop == "kill":
            asyncio.run(store.sync())
    store.close() if stop == "clean stop" else crash(store)
    files = [path for path in sorted(whole.rglob("consumequeue*/*/*/*")) if path.is_file()]
    for number, victim in enumerate(files):
        root, chance = tmp_path / "store", random.Random(number)
        shutil.copytree(whole, root)
        damage = chance.choice(DAMAGES)
        damage(root / victim.relative_to(whole), chance)
        store = open_store(root, **settings)
        found = {queue: bodies_of(store, *queue) for queue in sent}
        store.close()
        assert found == sent, (damage.__name__, victim.relative_to(whole))
        shutil.rmtree(root)
