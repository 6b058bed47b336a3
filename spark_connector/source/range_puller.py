"""Pulls one range of a queue to its end: from which replica, what an answer means, and what to do
when there is none (spark.md §5.5; class PullAPIWrapper of the original chooses replicas in the same
way).

One file: what an answer means depends on which replica gave it, and which ones were asked before.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from ...client.namespaces import with_namespace
from ...remoting.errors import BrokerError, ConnectError, RemotingError
from ...remoting.protocol.bodies.route import MASTER_ID
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.system_clock import BLOCKING_CLOCK, BlockingClock
from ..access.errors import DamagedMessageError, DataLossError, RangeTimeoutError
from ..access.frame_buffer import Stretch
from ..access.options import SourceOptions
from ..access.wire import BYTES_PER_PULL, PullAnswer, PullHeader, PullRequests, Wire, read_answer
from .gaps import Gaps, first_offset
from .planner import QueueRange
from .pull_windows import Brought, Window, Windows

__all__ = ["Cluster", "RangePuller"]

log: Final = logging.getLogger(__name__)

ANSWER_TIMEOUT_S: Final = 15.0
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
_OUTAGE_S: Final = 30.0
_DELETION_S: Final = 10.0
"""A round of deletion: ten files with 0.1 s between them, then all queues. As long as the pause
until the next one (``cleanResourceInterval``)."""
_PULLS_PER_WINDOW: Final = 8
_FIRST_PULL: Final = 128
"""Messages, of which nobody knows how long they are."""
_FULL_BYTES: Final = BYTES_PER_PULL * 7 // 8
"""What pulls are to bring: messages differ in length, and one that did not fit costs a pull."""
_LEAST_PER_PULL: Final = 32
"""What a pull brings of short messages, whatever the broker."""
_OFFSETS_PER_FILTERED_WINDOW: Final = 2048
_NOTHING_THERE: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_BUSY: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL)


class Cluster(Protocol):
    """Where brokers are, and how to reach them."""

    def replicas(self, queue: MessageQueue) -> Mapping[int, str]:
        """Addresses by broker id, asked for anew. Raises ``RemotingError``, ``BrokerError``."""
        ...

    def connect(self, address: str) -> Wire:
        """Raises ``ConnectError``."""
        ...

    def give_back(self, wire: Wire) -> None: ...


class RangePuller:
    """Pulls one range to its end.

    The replica that is asked changes when it cannot be reached or brings nothing, and when the
    broker suggests another one (it does for what is not in its memory any more). ``hints`` are
    addresses by broker id as the planner knew them.
    """

    def __init__(
        self,
        whole: QueueRange,
        hints: Mapping[int, str],
        options: SourceOptions,
        cluster: Cluster,
        clock: BlockingClock = BLOCKING_CLOCK,
        outages: dict[str, float] | None = None,
    ) -> None:
        """``outages`` is shared by the ranges of a task: addresses that failed, and until when they
        are no first choice."""
        self._range = whole
        self._options = options
        self._answer_timeout_s = min(ANSWER_TIMEOUT_S, options.poll_timeout_ms / 1000)
        self._cluster = cluster
        self._clock = clock
        self._addresses = dict(hints)
        self._outages = {} if outages is None else outages
        self._broker_id = self._suggested = min(
            filter(self._may_serve, self._addresses), default=MASTER_ID
        )
        self._wire: Wire | None = None
        self._wire_address = ""
        self._under_way: dict[int, tuple[Window, int]] = {}
        self._opaques = itertools.count(1)
        connection = options.connection
        self._requests = PullRequests(
            whole.queue,
            with_namespace(whole.topic, connection.namespace),
            with_namespace(options.group, connection.namespace),
            options.sql or options.tags,
            is_sql=options.sql is not None,
            credentials=connection.credentials,
        )
        self._is_filtered = is_filtered = options.sql is not None or options.tags != "*"
        self._gaps = Gaps()
        least = _OFFSETS_PER_FILTERED_WINDOW if is_filtered else _PULLS_PER_WINDOW * _LEAST_PER_PULL
        size = max(min(options.pull_batch_size, _FIRST_PULL), least)
        self._windows = Windows(
            whole.from_offset,
            whole.until_offset,
            count=options.pulls_in_flight,
            pull=size if is_filtered else min(options.pull_batch_size, _FIRST_PULL),
            most=size if is_filtered else options.pull_batch_size,
            full_bytes=_FULL_BYTES,
            size=size,
            max_ahead_bytes=options.pull_max_bytes,
        )
        self._pause_s = _FIRST_PAUSE_S
        self._progressed_at = clock.now()
        self._asked_for: dict[int, set[int]] = {}
        """Offsets at which something is damaged, and the replicas that were asked for it."""
        self._in_vain = 0
        self._give_up: Callable[[], None] | None = None
        """What to do when asking again did not help ``fetchOffset.numRetries`` times."""
        self._why = "no broker was asked yet"

    def __iter__(self) -> Iterator[list[Brought]]:
        """Bodies in the order of the queue. Raises ``DataLossError``, ``DamagedMessageError``,
        ``RangeTimeoutError``, ``BrokerError``.
        """
        finished = False
        try:
            while not self._windows.done:
                if bodies := self._exchange():
                    yield bodies
                    self._progressed_at = (
                        self._clock.now()
                    )  # that may have taken long: it was not the broker
            self._look_at_gaps()
            finished = True
        finally:
            if self._wire is not None:
                if finished and not self._under_way:
                    self._cluster.give_back(self._wire)
                else:
                    self._wire.close()

    # --- one turn
    # ----------------------------------------------------------------------------------------------

    def _exchange(self) -> list[Brought]:
        """Take the answers that are there, and send what is due then: the broker is to work while
        they are decoded."""
        bodies: list[Brought] = []
        try:
            wire = self._connected()
            if not self._under_way:
                self._send(wire)
            if self._under_way:
                self._receive(wire)
            else:
                self._hold_on()
            bodies = self._windows.take()
            self._send(wire)
        except RemotingError as error:
            self._broken(error)
        return bodies

    def _receive(self, wire: Wire) -> None:
        has_advanced = False
        for form, header, body in wire.receive(self._answer_timeout_s):
            if (answer := read_answer(form, header)) is not None:
                has_advanced |= self._take(answer, body)
        if has_advanced:
            self._progressed()

    def _connected(self) -> Wire:
        if not self._under_way and self._is_to_leave():
            self._leave()
            self._broker_id = self._suggested
        if self._wire is not None:
            return self._wire
        address = self._addresses.get(self._broker_id)
        if address is None:
            raise ConnectError(
                f"the broker {self._range.broker_name} is not known to the name server at present"
            )
        return self._connected_to(address)

    def _connected_to(self, address: str) -> Wire:
        """Whatever number that replica has by now."""
        if self._wire is None or self._wire_address != address:
            self._leave()
            self._wire, self._wire_address = self._cluster.connect(address), address
        return self._wire

    def _is_to_leave(self) -> bool:
        """Another replica is to be asked, or this one somewhere else."""
        if self._suggested != self._broker_id:
            return True
        return self._wire is not None and self._addresses.get(self._broker_id) != self._wire_address

    def _send(self, wire: Wire) -> None:
        if self._is_to_leave():  # first what is under way
            return
        frames = []
        for window in self._windows.to_pull():
            opaque = next(self._opaques)
            self._under_way[opaque] = (window, window.next_offset)
            count = min(self._options.pull_batch_size, window.until - window.next_offset)
            frames.append(self._requests.frame(opaque, window.next_offset, count))
        if frames:
            wire.send(b"".join(frames), self._answer_timeout_s)

    def _take(self, answer: PullAnswer, body: Stretch) -> bool:
        """Whether it leads on."""
        window, offset = self._under_way.pop(answer.opaque, (None, 0))
        if window is None:
            return False
        code, next_offset = answer.code, answer.header.next_begin_offset
        if window.next_offset != offset:  # skipped meanwhile
            self._windows.ignore(window)
            return False
        if self._gaps:
            self._check_gaps(answer.header)
        if next_offset > offset and (
            code == ResponseCode.SUCCESS or code == ResponseCode.PULL_RETRY_IMMEDIATELY
        ):
            if not self._is_filtered and self._is_after_a_gap(window, answer, body):
                self._windows.ignore(window)
                return False
            if answer.header.damaged_msg_nums and self._is_intact_elsewhere(offset, answer.header):
                self._windows.ignore(window)
                return False
            self._asked_for.pop(offset, None)
            self._windows.advance(
                window, next_offset, body if code == ResponseCode.SUCCESS else None
            )
            self._follow(answer.header.suggest_which_broker_id)
            return True
        if code in _NOTHING_THERE:
            self._nothing_at(window, offset, answer.header)
        else:
            self._refused(window, answer)
        return False

    def _follow(self, suggested: int) -> None:
        """Ask the replica that was suggested, unless this one is still to say what it has."""
        if self._asked_for or self._gaps:
            return
        if suggested != self._broker_id and self._may_serve(suggested):
            self._suggested = suggested

    def _is_intact_elsewhere(self, offset: int, header: PullHeader) -> bool:
        """Whether another replica may have what is damaged here; it is asked then. Raises
        ``DamagedMessageError`` when there is none, unless messages may be left out.
        """
        asked = self._asked_for.setdefault(offset, {self._broker_id})
        others = [each for each in self._addresses if each not in asked]
        if others:
            self._suggested = others[0]
            asked.add(others[0])
            return True
        where = f"from {offset} to before {header.next_begin_offset}"
        what = (
            f"{self._range}: {header.damaged_msg_nums} of the messages {where} are damaged at "
            "every replica that can be asked"
        )
        if self._options.fail_on_damage:
            raise DamagedMessageError(what)
        log.warning("%s, and left out (failOnDamage=false)", what)
        return False

    def _is_after_a_gap(self, window: Window, answer: PullAnswer, body: Stretch) -> bool:
        """Whether messages are missing in front of what a slave brought, which deletes on its own;
        its master is asked then. What the master does not have is looked at later. Who was the
        master when the batch was planned may be a slave by now."""
        offset, header = window.next_offset, answer.header
        came = first_offset(body) if answer.code == ResponseCode.SUCCESS else None
        end = min(header.next_begin_offset if came is None else came, window.until)
        if end <= offset or header.damaged_msg_nums:
            return False
        asked = self._asked_for.setdefault(offset, {self._broker_id})
        if MASTER_ID not in asked and self._may_serve(MASTER_ID):
            self._suggested = MASTER_ID
            asked.add(MASTER_ID)
            return True
        # One look-up for all gaps of a replica: a topic may have many.
        is_first = self._wire_address not in self._gaps
        if is_first and self._broker_id == MASTER_ID and not self._is_still_there():
            self._why = "nothing came of it, and no name server says who is the master now"
            self._windows.wait(window)
            return True
        self._gaps.add(self._wire_address, offset, end)
        return False

    def _may_serve(self, broker_id: int) -> bool:
        """There is such a replica, and it has not failed lately. (A slave suggests the master, dead
        or not.)"""
        address = self._addresses.get(broker_id)
        return address is not None and self._outages.get(address, 0.0) <= self._clock.now()

    def _progressed(self) -> None:
        self._progressed_at = self._clock.now()
        self._pause_s = _FIRST_PAUSE_S
        self._in_vain = 0
        self._give_up = None

    # --- what was gone already
    # ----------------------------------------------------------------------------------------------

    def _look_at_gaps(self) -> None:
        """At the end of the range: each replica that had gaps tells whether it has deleted what
        lies in them, which no other one knows. Raises ``DataLossError`` where it cannot be asked,
        unless that is allowed."""
        if self._gaps and self._under_way:
            self._leave()  # answers to what was skipped tell nothing
        for owner in self._gaps.owners():
            if self._tells_of_gaps(owner):
                continue
            what = (
                f"{self._range}: nothing came of {self._gaps.count(owner)} offsets, and the "
                f"replica at {owner} cannot be asked whether they were deleted ({self._why})"
            )
            if self._options.fail_on_data_loss:
                raise DataLossError(what)
            log.warning("%s: they are left out (failOnDataLoss=false)", what)

    def _tells_of_gaps(self, owner: str) -> bool:
        """Whether it answers, asked for what lies in front of its first gap, or as often as may be
        worth it. Where that message is kept, nothing behind it is deleted. Where it is not the
        queue may have to be corrected yet: that is waited for."""
        has_told, attempt, until = False, 0, self._clock.now() + _DELETION_S
        while (begin := self._gaps.first(owner)) is not None:
            is_over = not has_told or self._clock.now() >= until
            if is_over and attempt >= max(1, self._options.retries):
                break
            if attempt:
                self._clock.sleep(self._pause_s)
                self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
            attempt += 1
            try:
                for answer, body in self._pulled_once(owner, max(begin - 1, 0)):
                    self._check_gaps(answer.header)
                    has_told |= self._tells_of_queue(answer)
                    came = first_offset(body) if answer.code == ResponseCode.SUCCESS else None
                    if came is not None and came < begin:
                        return True
            except RemotingError as error:
                if self._wire is not None:  # its answer may still come
                    self._wire.close()
                    self._wire = None
                self._why = str(error)
        if has_told and begin is not None:
            log.warning(
                "%s: nothing came of %d offsets, and nothing is kept in front of them: they are "
                "taken for messages that were never there",
                self._range,
                self._gaps.count(owner),
            )
        return has_told or begin is None

    def _pulled_once(self, address: str, offset: int) -> Iterator[tuple[PullAnswer, Stretch]]:
        """What lies there, one message."""
        wire = self._connected_to(address)
        wire.send(self._requests.frame(next(self._opaques), offset, 1), self._answer_timeout_s)
        for form, header, body in wire.receive(self._answer_timeout_s):
            if (answer := read_answer(form, header)) is not None:
                yield answer, body

    def _tells_of_queue(self, answer: PullAnswer) -> bool:
        """A refusal does not say where the queue begins."""
        if answer.code == ResponseCode.SUCCESS or answer.code in _NOTHING_THERE:
            return True
        self._why = str(answer.error(self._wire_address))
        return False

    def _check_gaps(self, header: PullHeader) -> None:
        """Raises ``DataLossError`` where what did not come was deleted, unless that is allowed."""
        if count := self._gaps.deleted(self._wire_address, header.min_offset):
            what = f"{self._range}: the oldest message that is kept is {header.min_offset}"
            if self._options.fail_on_data_loss:
                raise DataLossError(what)
            log.warning("%s: %d offsets are left out (failOnDataLoss=false)", what, count)

    # --- what may be wrong
    # ------------------------------------------------------------------------------------------

    def _nothing_at(self, window: Window, offset: int, header: PullHeader) -> None:
        """There is no message at ``offset``, and none is known to follow."""
        low, high = header.min_offset, header.max_offset
        self._windows.wait(window)
        self._why = f"the broker has {low} to before {high}, and nothing at {offset}"
        if self._broker_id != MASTER_ID:
            self._ask_another()  # a slave may lag behind, and it deletes on its own
        elif offset < low:
            if self._is_still_there():
                self._lost(f"{self._range}: the oldest message that is kept is {low}", low)
        elif offset >= high:
            self._give_up = functools.partial(
                self._lost, f"{self._range}: the queue ends at {high}", self._range.until_offset
            )

    def _refused(self, window: Window, answer: PullAnswer) -> None:
        """An error of the broker. Raises it when trying again is no use."""
        self._windows.wait(window)
        error = answer.error(self._addresses.get(self._broker_id, ""))
        self._why = str(error)
        if answer.code in _BUSY:
            self._give_up = None  # it does not say that once more
            return
        if answer.code not in (ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST):
            raise error
        if self._broker_id != MASTER_ID:
            self._ask_another()
        else:
            self._give_up = functools.partial(self._gone, error)

    def _gone(self, error: BrokerError) -> None:
        """The broker knows no such topic or queue, or something else is wrong with it."""
        if error.code == ResponseCode.SYSTEM_ERROR and "queueId" not in (error.remark or ""):
            raise error
        self._lost(f"{self._range}: the queue is gone ({error})", self._range.until_offset)

    def _hold_on(self) -> None:
        """Nothing is under way, because all that was asked for was not there."""
        if self._give_up is not None:
            if self._in_vain < self._options.retries:
                self._in_vain += 1
            elif self._is_still_there():
                self._give_up()
                return
            else:
                self._give_up, self._in_vain = None, 0
        self._pause()
        self._windows.wake()

    def _lost(self, what: str, resume_at: int) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        skipped = self._windows.skip_to(resume_at)
        if skipped:
            log.warning("%s: %d offsets are left out (failOnDataLoss=false)", what, skipped)
        self._progressed()

    def _broken(self, error: RemotingError) -> None:
        self._why = str(error)
        log.warning("pull of %s interrupted, trying again: %s", self._range, error)
        if (address := self._addresses.get(self._broker_id)) is not None:
            self._outages[address] = self._clock.now() + _OUTAGE_S
        self._leave()
        self._ask_another()
        self._pause()

    def _leave(self) -> None:
        """Whatever is under way on this connection is not waited for."""
        if self._wire is not None:
            if self._under_way:
                self._wire.close()
            else:
                self._cluster.give_back(self._wire)
        self._wire = None
        self._under_way.clear()
        self._windows.lost()

    def _look_up(self) -> bool:
        """Where the replicas are now. Whether a name server could be asked."""
        try:
            self._addresses = dict(self._cluster.replicas(self._range.queue)) or self._addresses
        except (RemotingError, BrokerError) as error:
            log.warning("name server not asked: %s", error)
            return False
        return True

    def _is_still_there(self) -> bool:
        """Whether who was asked is the same replica at present, which a loss is believed only then:
        at the address of a master that was followed by another one there may be a slave by now,
        which lags behind, or has another disk."""
        return self._look_up() and self._addresses.get(self._broker_id) == self._wire_address

    def _ask_another(self) -> None:
        """The same replica where it is now, if it is somewhere else, or the next one in turn."""
        before = self._addresses.get(self._broker_id)
        self._look_up()
        if self._addresses.get(self._broker_id, before) == before:
            others = sorted(self._addresses)
            self._suggested = next(
                (each for each in others if each > self._broker_id), min(others, default=MASTER_ID)
            )

    def _pause(self) -> None:
        """Before something is tried again. Raises ``RangeTimeoutError`` when that has lasted too
        long."""
        idle_s = self._clock.now() - self._progressed_at
        if idle_s * 1000 >= self._options.poll_timeout_ms:
            raise RangeTimeoutError(
                f"{self._range}: nothing came for {idle_s:.0f} s at offset "
                f"{self._windows.position} "
                f"(rocketmqConsumer.pollTimeoutMs): {self._why}"
            )
        self._clock.sleep(self._pause_s)
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
