"""The life of a connection: every state, every event, and that a connection obeys."""

from __future__ import annotations

import asyncio
import itertools
import re

import pytest

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Outcome
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport import connection_state
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.connection_state import (
    ANSWERING,
    ASKING,
    BEGINS,
    ENDS,
    LIVES,
    START,
    Event,
    Hold,
    Life,
    State,
)
from aiorocketmq.remoting.transport.invocations import encode_request

from ...sim import SimOwner, SimTransport

LIFE_EVENTS = [Event.MADE, Event.STOP, Event.CLOSE, Event.CUT, Event.LOST]
TABLES = pytest.mark.parametrize("table", [ANSWERING, ASKING], ids=["answers", "asks"])


def rows(first: str, last: str) -> list[list[str]]:
    """Lines of the tables in the module's docstring."""
    text = connection_state.__doc__ or ""
    lines = [line.split() for line in text.splitlines() if line.startswith("    ")]
    names = [line[0] for line in lines]
    return lines[names.index(first) : names.index(last) + 1]


@pytest.mark.parametrize("row", rows("CONNECTING", "ENDED"), ids=lambda row: row[0])
def test_a_life_is_what_its_row_says(row: list[str]) -> None:
    life = Life[row[0]]
    state = ANSWERING[life, Hold.NONE]
    for event, cell in zip(LIFE_EVENTS, row[1:6], strict=True):
        assert state.after[event].life is (life if cell == "." else Life[cell])
    assert [state.reads, state.serves] == [cell == "yes" for cell in row[6:8]]
    assert state.closed is (life in (Life.ENDING, Life.ENDED))
    assert not (state.closed and row[8] == "yes")


@pytest.mark.parametrize("row", rows("UNREAD", "BUDGET"), ids=lambda row: row[0])
@pytest.mark.parametrize("life", [Life.OPEN, Life.DRAINING])
def test_a_hold_is_what_its_row_says(row: list[str], life: Life) -> None:
    hold, begins, ends = Hold[row[0]], Event[row[1]], Event[row[2]]
    held = ANSWERING[life, Hold.NONE].after[begins]
    assert (held.life, held.holds) == (life, hold)
    assert [held.reads, held.serves] == [cell == "yes" for cell in row[3:5]]
    assert held.after[ends] is ANSWERING[life, Hold.NONE]


def test_the_docstring_names_every_life_hold_and_event() -> None:
    words = set(re.findall(r"[A-Z_]{3,}", connection_state.__doc__ or ""))
    for kind in (Life, Hold, Event):
        assert {each.name for each in kind if each is not Hold.NONE} <= words
    assert set(LIFE_EVENTS) | set(BEGINS) | set(ENDS) == set(Event)
    assert set(LIVES) == set(Life)


@TABLES
def test_every_state_knows_every_event(table: dict[tuple[Life, Hold], State]) -> None:
    everything = set(table.values())
    assert len(everything) == len(Life) * 2 ** len(Hold)
    for state, event in itertools.product(everything, Event):
        after = state.after[event]
        assert after in everything
        assert after.after[event] is after, "the same once more changes nothing"
        assert after.holds == (state.holds | BEGINS.get(event, Hold.NONE)) & ~ENDS.get(
            event, Hold.NONE
        )
        if event not in LIFE_EVENTS:
            assert after.life is state.life
        if state.closed:
            assert after.closed, "nothing opens it again"
        if state.life is Life.ENDED:
            assert after.life is Life.ENDED


@TABLES
def test_what_is_read_is_served_and_what_is_closed_does_neither(
    table: dict[tuple[Life, Hold], State],
) -> None:
    for state in table.values():
        assert not state.reads or state.serves
        assert not state.serves or not (state.closed or state.stalled)
        assert not (state.writable and state.closed)
        assert not state.writable or Hold.UNREAD not in state.holds


def test_every_state_is_reached() -> None:
    reached, new = set[State](), {ANSWERING[START]}
    while new:
        reached |= new
        new = {each for state in new for each in state.after.values()} - reached
    assert reached == set(ANSWERING.values())


def test_who_asks_reads_and_serves_whatever_its_peer_reads() -> None:
    held = ASKING[Life.OPEN, Hold.UNREAD]
    assert held.reads
    assert held.serves
    assert not held.writable


# --- the connection does what the table says


def keep(_request: object, _body: Body, _ctx: Context) -> Outcome:
    return PENDING


REQUEST = encode_request(0, RequestCode.HEART_BEAT, None, b"", 1)


class World:
    """One connection, and an act for each event. ``connection_lost`` leads nowhere else, so it is
    not among them."""

    def __init__(self, *, asks: bool) -> None:
        self.transport = SimTransport()
        self.connection = Connection(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: keep})), pause_reading=not asks
        )
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.state = (ASKING if asks else ANSWERING)[Life.OPEN, Hold.NONE]
        self.queued = 0

    async def act(self, event: Event) -> None:
        connection = self.connection
        if event is Event.QUEUE_FULL:
            while self.queued < 8:
                connection.enqueued(1)
                self.queued += 1
        elif event is Event.QUEUE_FREE:
            while self.queued:
                connection.dequeued(1)
                self.queued -= 1
        else:
            {
                Event.STOP: connection.stop_reading,
                Event.PAUSE_WRITING: connection.pause_writing,
                Event.RESUME_WRITING: connection.resume_writing,
                Event.HOLD_BACK: connection.hold_back,
                Event.GO_ON: connection.go_on,
            }[event]()
        self.state = self.state.after[event]
        await asyncio.sleep(0)


ACTS = [Event.STOP, *BEGINS, *ENDS]


@pytest.mark.parametrize("asks", [False, True], ids=["answers", "asks"])
@pytest.mark.parametrize("acts", list(itertools.permutations(ACTS, 3)), ids=str)
def test_a_connection_reads_and_writes_as_its_state_says(
    acts: tuple[Event, ...], asks: bool
) -> None:
    async def main() -> None:
        world = World(asks=asks)
        for event in acts:
            await world.act(event)
            assert world.transport.reading is world.state.reads, event
            assert world.connection.writable is world.state.writable, event
            assert world.connection.closed is world.state.closed, event

    asyncio.run(main())


@pytest.mark.parametrize("event", list(BEGINS))
@pytest.mark.parametrize("stops", [False, True], ids=["open", "draining"])
def test_frames_wait_where_the_state_is_stalled_and_are_served_afterwards(
    event: Event, stops: bool
) -> None:
    async def main() -> None:
        world = World(asks=False)
        if stops:
            await world.act(Event.STOP)
        await world.act(event)
        # nine in one read: whether it has to wait is asked after every fourth
        world.connection.data_received(REQUEST * 9)
        served = world.connection.in_flight
        assert served == (4 if world.state.stalled else 9)
        end = next(end for end, hold in ENDS.items() if hold is BEGINS[event])
        await world.act(end)
        for _ in range(3):
            await asyncio.sleep(0)
        assert world.connection.in_flight == 9
        assert world.transport.reading is world.state.reads

    asyncio.run(main())


@pytest.mark.parametrize("end", ["close", "cut", "lost"])
def test_a_closed_connection_serves_nothing_more(end: str) -> None:
    async def main() -> None:
        world = World(asks=False)
        await world.act(Event.PAUSE_WRITING)
        world.connection.data_received(REQUEST * 9)
        if end == "lost":
            world.connection.connection_lost(None)
        else:
            getattr(world.connection, end)("enough")
        served = world.connection.in_flight
        await world.act(Event.RESUME_WRITING)
        assert world.connection.in_flight == served
        assert world.connection.closed
        assert not world.connection.writable

    asyncio.run(main())
