"""What clients asked a broker of the original, asked of ours: the same requests, in the same order,
get the same answers.

A fresh broker with the captured configuration hears every frame that was sent to the master, at the
time it was sent (the clock belongs to the test). Offsets and ids that the original's broker had
issued are replaced by what ours issued. Each of its answers and pushes has to come from ours too,
with the same code, remark, header and body, but for what ``EXCLUDED`` lists: addresses, ids, times,
and what follows from them.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.assembly.ports import NOT_ON_VIP
from aiorocketmq.broker.config.config import (
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
)
from aiorocketmq.broker.config.settings import BrokerSettings
from aiorocketmq.broker.daemon import BROKER
from aiorocketmq.daemon.launch import Settings
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.fastjson import reader as fastjson
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.java_properties import Property, parse_properties
from aiorocketmq.remoting.protocol.message.message_id import pack_host, parse_offset_message_id
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig
from tests.stored import decode_messages

from ..golden_files import golden_bytes, golden_lines, needs_whole_set
from ..sim import ManualClock, SimOwner, SimTransport, connect, turns

RUNS = {
    "json-wire": "golden-json-master.conf",
    "rocketmq-wire": "golden-json-master.conf",
    "v6-wire": "golden-v6-master.conf",
}
STEP_S = 0.1
"""Time goes on in steps of at most this."""
QUICK_TURNS = 200
PATIENCE_S = 60.0
"""For what is written to the disk before it is answered."""
LONG_S = 1.0
AHEAD_MS = 20
NEVER = 2**62
BROKER_PORTS = ("broker", "broker-vip")


class Excluded(NamedTuple):
    """What may differ: ``where`` is a regular expression for ``CODE.place`` or
    ``RUN:OPAQUE.place``, the place a path into header or body."""

    where: str
    reason: str


_TIME = "the time of our answer, or of our store, some milliseconds later or earlier"
_ADDRESS = "the address of the peer"
_FIGURE = "a figure that depends on the machine, or counts by the second"
_PATH = "a folder of the machine"
EXCLUDED = [
    Excluded(
        r"json-wire:360\.header\.msgId",
        "a delayed message is delivered at its time; the original looks every 100 ms",
    ),
    Excluded(r"12\.header\.indexLastUpdateTimestamp", _TIME),
    Excluded(r"(21|201)\.body\.dataVersion\.timestamp", _TIME),
    Excluded(r"26\.header\.version\.timestamp", _TIME),
    Excluded(r"32\.header\.timestamp", _TIME),
    Excluded(r"(208|317)\.body\..*\.?lastTimestamp", _TIME),
    Excluded(r"202\.body\..*\.lastUpdateTimestamp", _TIME),
    Excluded(r"326\.header\.(storeTimestamp|properties\.PUSH_REPLY_TIME)", _TIME),
    Excluded(r"20[34]\.body\.connectionSet\.\d+\.clientAddr", _ADDRESS),
    Excluded(r"326\.header\.bornHost", _ADDRESS),
    Excluded(r"28\.body\.table\.[A-Za-z0-9]+", _FIGURE),
    Excluded(r"28\.body\.table\.commitLogDiskRatio_.* is (missing|new)", _PATH),
    Excluded(r"(208|317)\.body\.(.*\.)?consumeTps", _FIGURE),
    Excluded(r"315\.body\.[A-Za-z.]+", _FIGURE),
    Excluded(r"26\.body\.(storePathCommitLog|storePathRootDir|rocketmqHome)", _PATH),
    Excluded(
        r"43\.body\.offsetTable\.RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS\.0",
        "how far the broker's own checks have read; ours may keep an older position until the "
        "next round",
    ),
    Excluded(r"26\.body\..* is new", "a property of our own"),
    Excluded(r"28\.body\.table\.leaves is new", "a key of our own"),
    Excluded(r"26\.body\.namesrvAddr", "there is no name server in this test"),
    Excluded(
        r"26\.body\.flushDelayOffsetInterval",
        "the captured file was written after a later step had changed it",
    ),
    Excluded(r"307\.header", "the signature of an administrator is not passed on (differences.md)"),
]
"""Everything that may differ."""
_OVERTAKEN = (
    "in the original's threads the pull was faster than its heartbeat: 25; here a connection "
    "keeps its order: held"
)
OTHER_ANSWERS = {("rocketmq-wire", 587): _OVERTAKEN}
"""Single answers that are others here, by run and opaque."""


class Line(NamedTuple):
    """One captured frame between the master and somebody else."""

    time_ms: int
    step: str
    conn: int
    port: str
    to_broker: bool
    kind: str
    code: int
    """Of the request, also for an answer."""
    command: RemotingCommand
    body: bytes
    serialize_type: int

    def __str__(self) -> str:
        return (
            f"{self.step}: {RequestCode(self.code).name} {self.kind} conn={self.conn} "
            f"opaque={self.command.opaque}"
        )


def captured(run: str) -> Iterator[Line]:
    for entry in golden_lines(run):
        is_order = (
            entry["peer"] == "namesrv" and entry.get("reqCode") == RequestCode.REGISTER_BROKER
        )
        if entry["peer"] not in BROKER_PORTS and not (is_order and entry["bodyLen"]):
            continue
        ((serialize_type, header, body),) = FrameDecoder().feed(bytes.fromhex(entry["hex"]))
        yield Line(
            round(entry["t"] * 1000),
            entry["step"],
            entry["conn"],
            entry["peer"],
            entry["dir"] == "c2s",
            entry["kind"],
            entry["reqCode"] if entry["kind"] == "resp" else entry["code"],
            decode_header(serialize_type, header),
            bytes(body),
            serialize_type,
        )


class Client:
    """One captured connection, now to our broker."""

    def __init__(self, owner: SimOwner, peer: tuple[str, int]) -> None:
        self.connection: Connection
        self.transport: SimTransport
        self.connection, self.transport = connect(owner, peer)
        self._decoder = FrameDecoder()
        self._read = 0
        self.answers: dict[int, tuple[RemotingCommand, bytes]] = {}
        self.pushes: deque[tuple[RemotingCommand, bytes]] = deque()
        self.opaques: dict[int, int] = {}
        """Captured to ours, of pushes that have to be answered."""

    def send(self, command: RemotingCommand, body: bytes, serialize_type: int) -> None:
        self.connection.data_received(
            encode_frame(serialize_type, encode_header(command, serialize_type), body)
        )

    def read(self) -> None:
        written = bytes(self.transport.written[self._read :])
        self._read += len(written)
        for serialize_type, header, body in self._decoder.feed(written):
            command = decode_header(serialize_type, header)
            if command.flag & 1:
                self.answers[command.opaque] = command, bytes(body)
            else:
                self.pushes.append((command, bytes(body)))


def host_of(run: str) -> str:
    return "::1" if run.startswith("v6") else "127.0.0.1"


class Replay:
    def __init__(self, run: str, broker: Broker, clock: ManualClock, first_check_ms: int) -> None:
        self._run = run
        self._host = host_of(run)
        self._broker = broker
        self._next_check_ms = first_check_ms
        """Our checks of transactions come just before theirs did."""
        self._clock = clock
        table = broker.table
        vip = {code: handler for code, handler in table.items() if code not in NOT_ON_VIP}
        self._owners = {
            "broker": SimOwner(Dispatcher(table), clock=clock),
            "broker-vip": SimOwner(Dispatcher(vip), clock=clock),
        }
        for owner in self._owners.values():
            owner.disconnected = broker.clients.watch.on_disconnect  # type: ignore[method-assign]
        self._clients: dict[int, Client] = {}
        self._phy_offsets: dict[int, int] = {}
        self._half_offsets: dict[int, int] = {}
        """Captured physical offset of a half message to its number in our half queue."""
        self.differences: list[str] = []
        self.compared = 0
        self.excluded: set[Excluded] = set()

    async def play(self, lines: list[Line]) -> None:
        last = {line.conn: number for number, line in enumerate(lines)}
        for number, line in enumerate(lines):
            await self._go_on_to(line.time_ms)
            if line.port == "namesrv":
                self._broker.state.topics.set_order_topics(set(fastjson.loads(line.body)["table"]))
                continue
            client = self._clients.get(line.conn)
            if client is None:
                client = self._clients[line.conn] = Client(
                    self._owners[line.port], (self._host, 40_000 + line.conn)
                )
            if line.to_broker:
                self._ask(client, line)
            elif (self._run, line.command.opaque) in OTHER_ANSWERS:
                self.compared += 1
            elif line.kind == "resp":
                await self._expect_answer(client, line)
            else:
                await self._expect_push(client, line)
            if last[line.conn] == number:
                client.transport.close()

    async def _go_on_to(self, time_ms: int) -> None:
        while (left := time_ms / 1000 - self._clock.time_ms() / 1000) > 0:
            self._tick(min(left, STEP_S))
            if self._clock.time_ms() >= self._next_check_ms:
                self._next_check_ms += self._broker.settings.broker.transaction_check_interval
                await self._broker.storage.transaction_check.check()
            await turns(20)

    def _tick(self, seconds: float = STEP_S) -> None:
        self._clock.advance(seconds)
        self._broker.reads.pull._deadline()

    # --- sending
    # ----------------------------------------------------------------------------------------------

    def _ask(self, client: Client, line: Line) -> None:
        command = line.command
        if line.kind == "resp":
            command = msgspec.structs.replace(
                command, opaque=client.opaques.get(command.opaque, -1)
            )
        elif command.ext_fields:
            command = msgspec.structs.replace(
                command, ext_fields=self._rewritten(line.code, command.ext_fields)
            )
        client.send(command, line.body, line.serialize_type)

    def _rewritten(self, code: int, fields: dict[str, str]) -> dict[str, str]:
        """With what our broker issued in place of what the captured one did."""
        fields = dict(fields)
        if code == RequestCode.END_TRANSACTION:
            fields["tranStateTableOffset"] = str(
                self._half_offsets.get(int(fields["commitLogOffset"]), -1)
            )
        for name in ("offset", "commitLogOffset") if code in (33, 36, 37) else ():
            if name in fields:
                phy_offset = int(fields[name])
                fields[name] = str(self._phy_offsets.get(phy_offset, phy_offset))
        return fields

    # --- expecting
    # ----------------------------------------------------------------------------------------------

    async def _expect_answer(self, client: Client, line: Line) -> None:
        opaque = line.command.opaque
        async for _ in waiting(self._tick):
            client.read()
            if opaque in client.answers:
                break
        else:
            self._differs(line, "answer", "there is none", "one")
            return
        ours, body = client.answers.pop(opaque)
        if ours.code != line.command.code:
            self._differs(line, "code", f"{ours.code} {ours.remark}", line.command.code)
            return
        self._compare(line, ours, body)

    async def _expect_push(self, client: Client, line: Line) -> None:
        async for _ in waiting(self._tick):
            client.read()
            found = next((push for push in client.pushes if self._is_meant(line, push[0])), None)
            if found is not None:
                break
        else:
            self._differs(line, "push", [push[0].code for push in client.pushes], "one")
            return
        client.pushes.remove(found)
        client.opaques[line.command.opaque] = found[0].opaque
        self._compare(line, *found)

    def _is_meant(self, line: Line, command: RemotingCommand) -> bool:
        """Several checks of transactions may come in any order."""
        if command.code != line.code:
            return False
        theirs, ours = line.command.ext_fields or {}, command.ext_fields or {}
        return line.code != RequestCode.CHECK_TRANSACTION_STATE or theirs["msgId"] == ours["msgId"]

    # --- comparing
    # ----------------------------------------------------------------------------------------------

    def _compare(self, line: Line, ours: RemotingCommand, body: bytes) -> None:
        self.compared += 1
        theirs = line.command
        self._same(line, "remark", ours.remark, theirs.remark)
        self._same(line, "header", sorted(ours.ext_fields or {}), sorted(theirs.ext_fields or {}))
        for name, value in (theirs.ext_fields or {}).items():
            if name in (ours.ext_fields or {}):
                self._same_value(line, f"header.{name}", (ours.ext_fields or {})[name], value)
        self._learn(line, ours)
        if line.body.startswith(b"{") and body.startswith(b"{"):
            self._same_json(line, "body", fastjson.loads(body), fastjson.loads(line.body))
        elif line.code in (11, 12, 33, 39):
            self._same_records(line, body)
        elif b"=" in line.body and line.kind == "resp":
            self._same_json(line, "body", _pairs(body), _pairs(line.body))
        else:
            self._same(line, "body", body, line.body)

    def _learn(self, line: Line, ours: RemotingCommand) -> None:
        theirs, fields = line.command.ext_fields or {}, ours.ext_fields or {}
        if "msgId" in theirs and line.kind == "resp":
            for their_id, our_id in zip(
                theirs["msgId"].split(","), fields["msgId"].split(","), strict=False
            ):
                their_offset = parse_offset_message_id(their_id).phy_offset
                self._phy_offsets[their_offset] = parse_offset_message_id(our_id).phy_offset
                self._half_offsets[their_offset] = int(fields["queueOffset"])
        if line.code == RequestCode.CHECK_TRANSACTION_STATE:
            their_offset = int(theirs["commitLogOffset"])
            self._phy_offsets[their_offset] = int(fields["commitLogOffset"])
            self._half_offsets[their_offset] = int(fields["tranStateTableOffset"])

    def _same_value(self, line: Line, place: str, ours: str, theirs: str) -> None:
        """JSON in a header, and pairs of properties, part by part."""
        if "\x01" in theirs:
            pairs_of_ours, pairs_of_theirs = (
                dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)
                for text in (ours, theirs)
            )
            self._same_json(line, place, pairs_of_ours, pairs_of_theirs)
        elif theirs.startswith("{"):
            self._same_json(
                line, place, fastjson.loads(ours.encode()), fastjson.loads(theirs.encode())
            )
        else:
            self._same(line, place, ours, theirs)

    def _same_json(self, line: Line, place: str, ours: Any, theirs: Any) -> None:
        if isinstance(ours, dict) and isinstance(theirs, dict):
            ours, theirs = _by_text(ours), _by_text(theirs)
            for name in ours.keys() & theirs.keys():
                self._same_json(line, f"{place}.{name}", ours[name], theirs[name])
            for name in theirs.keys() - ours.keys():
                self._differs(line, f"{place}.{name} is missing", None, theirs[name])
            for name in ours.keys() - theirs.keys():
                self._differs(line, f"{place}.{name} is new", ours[name], None)
        elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
            for number, (our, their) in enumerate(zip(_sorted(ours), _sorted(theirs), strict=True)):
                self._same_json(line, f"{place}.{number}", our, their)
        else:
            self._same(line, place, ours, theirs)

    def _same_records(self, line: Line, body: bytes) -> None:
        ours, theirs = decode_messages(body, "b"), decode_messages(line.body, "b")
        self._same(
            line, "records", [m.queue_offset for m in ours], [m.queue_offset for m in theirs]
        )
        for our, their in zip(ours, theirs, strict=False):
            self._phy_offsets[their.commit_log_offset] = our.commit_log_offset
            self._same_json(line, "record", _described(our), _described(their))

    def _same(self, line: Line, place: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            self._differs(line, place, ours, theirs)

    def _differs(self, line: Line, place: str, ours: object, theirs: object) -> None:
        where = f"{line.code}.{place}"
        names = where, f"{self._run}:{line.command.opaque}.{place}"
        reasons = [
            each for each in EXCLUDED if any(re.fullmatch(each.where, name) for name in names)
        ]
        self.excluded.update(reasons)
        if not reasons:
            self.differences.append(
                f"{where}  [{line}]\n    ours   {ours!r:.300}\n    theirs {theirs!r:.300}"
            )


def _described(message: MessageExt) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "reconsumeTimes": message.reconsume_times,
        "body": message.stored_body,
        "properties": message.properties,
    }


def _pairs(text: bytes) -> dict[str, str]:
    return {p.name: p.value for p in parse_properties(text.decode())}


def _by_text(table: dict[Any, Any]) -> dict[str, Any]:
    """Keys may be objects."""
    return {_text(key): value for key, value in table.items()}


def _sorted(items: list[Any]) -> list[Any]:
    """Sets come in any order."""
    return sorted(items, key=_text)


def _text(item: Any) -> str:
    if isinstance(item, dict):
        return (
            f"{{{','.join(sorted(f'{_text(key)}:{_text(value)}' for key, value in item.items()))}}}"
        )
    return f"[{','.join(map(_text, item))}]" if isinstance(item, list) else str(item)


async def waiting(tick: Callable[[], None]) -> AsyncIterator[None]:
    """Look, again and again, as long as it makes sense. Time goes on (``tick``) when a disk takes
    long: what came while it wrote may rest a little before it is written as well."""
    begin = time.monotonic()
    ticks = 0
    for turn in itertools.count():
        yield
        passed = time.monotonic() - begin
        if passed > PATIENCE_S:
            return
        if passed > LONG_S * (ticks + 1):
            ticks += 1
            tick()
        await asyncio.sleep(0 if turn < QUICK_TURNS else 0.001)


def settings_of(run: str, folder: Path) -> BrokerSettings:
    """The captured configuration, with folders of the test and without name servers."""
    properties = parse_properties(golden_bytes(f"conf/{RUNS[run]}").decode())
    replaced = {
        "storePathRootDir": str(folder),
        "storePathCommitLog": str(folder / "commitlog"),
        "namesrvAddr": "",
        "rocketmqHome": str(folder),
    }
    if run == "rocketmq-wire":
        replaced["compressedRegister"] = "true"
    properties = [Property(p.name, replaced.get(p.name, p.value), p.source) for p in properties]
    settings = Settings(BROKER.records, properties, aliases=BROKER.aliases)
    return BrokerSettings(
        settings[BrokerConfig],
        settings[BrokerServerConfig],
        settings[BrokerClientConfig],
        settings[MessageStoreConfig],
        later=settings[LaterStoreConfig],
        unknown_properties={found.name: found.value for found in settings.unknown},
    )


async def replay(run: str, folder: Path) -> Replay:
    lines = list(captured(run))
    settings = settings_of(run, folder)
    clock = ManualClock(lines[0].time_ms - 1)
    checks = [line.time_ms for line in lines if line.code == RequestCode.CHECK_TRANSACTION_STATE]
    address = (host_of(run), settings.server.listen_port)
    store = MessageStore.open(settings.store, clock, store_host=pack_host(*address))
    try:
        broker = Broker(settings, store, address, clock)
        services = (
            broker.tables.files,
            store,
            broker.storage.schedule,
            broker.monitoring.sampler,
            broker.monitoring.windows,
        )
        tasks = [asyncio.create_task(service.run()) for service in services]
        try:
            await broker.storage.transaction_check.load()
            if checks:
                broker.storage.transactions.half_topic()
            first_check = (
                checks[0] - AHEAD_MS - broker.settings.broker.transaction_check_interval
                if checks
                else NEVER
            )
            replayed = Replay(run, broker, clock, first_check)
            await replayed.play(lines)
            failed = [task.exception() for task in tasks if task.done()]
            assert not failed, failed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        store.close()
    return replayed


@functools.cache
def replayed(run: str) -> Replay:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(replay(run, Path(folder)))


@pytest.mark.parametrize("run", RUNS)
def test_the_answers_are_those_of_the_original(run: str) -> None:
    found = replayed(run)
    assert found.differences == [], "\n".join(found.differences)
    assert found.compared == sum(
        not line.to_broker and line.port != "namesrv" for line in captured(run)
    )


def test_nothing_is_excluded_that_does_not_differ() -> None:
    needs_whole_set()
    used = set().union(*(replayed(run).excluded for run in RUNS))
    assert [excluded for excluded in EXCLUDED if excluded not in used] == []
