"""Transactions through everything that goes wrong: each ends as its producer's log says, silence is
given up.

``python -m benchmarks.transactions``. Half messages whose producers commit, roll back, say unknown,
answer when they are asked, speak late, say nothing, or are gone; meanwhile the broker is stopped or
killed and started again. The peer is small and speaks the wire protocol itself, so that nothing of
the client helps the broker.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import click

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.errors import BrokerError, ConnectError, RemotingError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import QueryConsumerOffsetRequest, QueueRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.commands.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.record import decode_record, read_messages
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient
from examples.demo.daemons import data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .broker_process import BrokerProcess, make_topic
from .command_line import HELP, SEED
from .transactions_ledger import ROLLBACK, UNKNOWN, Kind, Plan, Verdict, judge, plans

TOPIC: Final = "Transactions"
QUEUES: Final = 4
HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
PROGRESS: Final = "CID_RMQ_SYS_TRANS"
GROUP: Final = "transactions"
DEAD_GROUP: Final = "transactions-dead"
PREPARED: Final = 4
_PATIENCE_S: Final = 120.0


class Options(NamedTuple):
    """What can be asked for on the command line."""

    transactions: int
    restarts: int
    seed: int
    senders: int = 32
    check_interval_ms: int = 500
    timeout_ms: int = 300
    max_checks: int = 15


class Peer:
    """One process of a producer group, as a broker sees it: a connection, heartbeats, answers to
    checks."""

    def __init__(self, campaign: Campaign, group: str) -> None:
        self.group = group
        self._campaign = campaign
        self._client = RemotingClient(
            dispatcher=Dispatcher({RequestCode.CHECK_TRANSACTION_STATE: self._check}),
            clock=SystemClock(),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        async with self._client:
            heartbeats = asyncio.create_task(self._heartbeats())
            try:
                yield self
            finally:
                heartbeats.cancel()
                await asyncio.gather(heartbeats, return_exceptions=True)

    async def _heartbeats(self) -> None:
        """A broker that was started anew hears of this producer at once."""
        body = encode_body(
            HeartbeatData(
                client_id=f"{self.group}@{id(self)}",
                producer_data_set=(ProducerData(group_name=self.group),),
            )
        )
        known = None
        while True:
            connection = self._client.connected_to(self._campaign.broker.address)
            if connection is None or connection is not known:
                try:
                    await self._client.invoke(
                        self._campaign.broker.address, RequestCode.HEART_BEAT, None, body, timeout=2
                    )
                    known = self._client.connected_to(self._campaign.broker.address)
                except RemotingError:
                    known = None
            await asyncio.sleep(0.02)

    async def send_half(self, plan: Plan) -> EndTransactionRequest:
        """Store the half message; what is to be said about it. Raises ``RemotingError``,
        ``BrokerError``."""
        more = {
            Kind.DELAYED: "\x02DELAY\x011",
            Kind.IMMUNE: "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x011",
        }.get(plan.kind, "")
        key = f"{plan.number:032X}"
        header = SendMessageRequestV2(
            producer_group=self.group, topic=TOPIC, default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=plan.number % QUEUES, sys_flag=PREPARED,
            born_timestamp=time.time_ns() // 1_000_000, flag=0,
            properties=f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01{self.group}{more}",
        )  # fmt: skip
        body = str(plan.number).encode()
        answer = await self._client.invoke(
            self._campaign.broker.address, RequestCode.SEND_MESSAGE_V2, header, body, timeout=5
        )
        fields = answer.check().ext_fields
        return EndTransactionRequest(
            producer_group=self.group,
            tran_state_table_offset=int(fields["queueOffset"]),
            commit_log_offset=parse_offset_message_id(fields["msgId"]).phy_offset,
            commit_or_rollback=plan.decision,
            msg_id=key,
        )

    async def say(self, word: EndTransactionRequest, decision: int) -> None:
        """Oneway: when it is lost the broker asks."""
        header = EndTransactionRequest(
            **{
                **{n: getattr(word, n) for n in word.__struct_fields__},
                "commit_or_rollback": decision,
            }
        )
        try:
            await self._client.invoke_oneway(
                self._campaign.broker.address, RequestCode.END_TRANSACTION, header, timeout=1
            )
        except RemotingError:
            self._campaign.lost_words += 1

    def _check(
        self, request: CheckTransactionStateRequest, body: Body, ctx: Context
    ) -> Reply | None:
        """Answer by the log. One that this peer does not know (its send was never acknowledged) is
        rolled back."""
        number = int(decode_record(bytes(body)).body)
        decision = self._campaign.answer(number)
        if decision is None:
            return None
        ctx.connection.invoke_oneway(
            RequestCode.END_TRANSACTION,
            EndTransactionRequest(
                producer_group=self.group,
                tran_state_table_offset=request.tran_state_table_offset,
                commit_log_offset=request.commit_log_offset,
                commit_or_rollback=decision,
                from_transaction_check=True,
                msg_id=request.msg_id or "",
            ),
        )
        return None


class Campaign:
    """All transactions, the log of their producers, and the restarts of the broker."""

    def __init__(self, options: Options, broker: BrokerProcess) -> None:
        self.broker = broker
        self.lost_words = 0
        self.checks = 0
        self.kills = 0
        self.took_s = 0.0
        self._options = options
        self._dice = random.Random(options.seed)
        self._plans = plans(options.transactions, options.seed)
        self._made: dict[int, Plan] = {}
        self._uncertain: set[int] = set()
        self._asked: Counter[int] = Counter()
        self._words: dict[int, tuple[Peer, EndTransactionRequest]] = {}
        self._next = 0
        self._serving = asyncio.Event()
        self._progress = asyncio.Condition()

    def answer(self, number: int) -> int | None:
        """What the log says when a broker asks about a transaction; ``None``: nothing."""
        self.checks += 1
        self._asked[number] += 1
        plan = self._made.get(number)
        if plan is None:
            return (
                ROLLBACK if number in self._uncertain else UNKNOWN
            )  # perhaps its acknowledgement is on its way
        if plan.kind is Kind.SILENCE:
            return None if number % 2 else UNKNOWN
        if plan.kind is Kind.LATE and number in self._words:
            peer, word = self._words.pop(number)
            asyncio.get_running_loop().create_task(peer.say(word, plan.decision))
            return None
        return plan.decision if self._asked[number] >= plan.asked else UNKNOWN

    async def run(self) -> Verdict:
        """Everything; the broker has ended then."""
        started = time.monotonic()
        await self.broker.start()
        async with RemotingClient() as reader, Peer(self, GROUP).running() as peer:
            await make_topic(reader, self.broker.address, TOPIC, QUEUES)
            self._serving.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._restarts())
                group.create_task(self._dead_group())
                for _ in range(self._options.senders):
                    group.create_task(self._sender(peer))
            await self._until_all_decided(reader)
            await asyncio.sleep(1.6)  # the delay of those that have one
            delivered = Counter(
                int(message.body)
                for message in await _read(reader, self.broker.address, TOPIC, QUEUES)
            )
            given_up = Counter(
                int(message.body)
                for message in await _read(reader, self.broker.address, GIVEN_UP, 1)
            )
        await self.broker.end(signal.SIGTERM)
        self.took_s = time.monotonic() - started
        return judge(self._made.values(), self._uncertain, delivered, given_up)

    async def _sender(self, peer: Peer) -> None:
        mine = [plan for plan in self._plans if plan.kind is not Kind.DEAD]
        while self._next < len(mine):
            plan = mine[self._next]
            self._next += 1
            async with self._progress:
                self._progress.notify_all()
            await self._transaction(peer, plan)

    async def _transaction(self, peer: Peer, plan: Plan) -> None:
        word = await self._send_half(peer, plan)
        if word is None:
            return
        self._made[plan.number] = plan
        if plan.kind in (Kind.COMMIT, Kind.ROLLBACK, Kind.TWICE, Kind.DELAYED):
            await peer.say(word, plan.decision)
            if plan.kind is Kind.TWICE:
                await peer.say(word, plan.decision)
        elif plan.kind is Kind.UNKNOWN:
            await peer.say(word, UNKNOWN)
        elif plan.kind is Kind.LATE:
            self._words[plan.number] = peer, word
        elif plan.kind is Kind.IMMUNE:
            await asyncio.sleep(0.7)
            await peer.say(word, plan.decision)

    async def _send_half(self, peer: Peer, plan: Plan) -> EndTransactionRequest | None:
        while True:
            await self._serving.wait()
            try:
                return await peer.send_half(plan)
            except ConnectError:
                await asyncio.sleep(0.02)  # not sent
            except (RemotingError, BrokerError):
                self._uncertain.add(
                    plan.number
                )  # the broker is gone: whether it has the message nobody knows
                return None

    async def _dead_group(self) -> None:
        """A producer sends half messages and is gone; some rounds later another one of its group
        comes."""
        async with Peer(self, DEAD_GROUP).running() as peer:
            for plan in self._plans:
                if plan.kind is Kind.DEAD:
                    await self._transaction(peer, plan)
        await asyncio.sleep(3 * self._options.check_interval_ms / 1000)
        self._heir = asyncio.create_task(self._heir_works())

    async def _heir_works(self) -> None:
        async with Peer(self, DEAD_GROUP).running():
            await asyncio.Event().wait()

    async def _restarts(self) -> None:
        """At random moments: half of them in good order, half of them not."""
        for number in range(self._options.restarts):
            wanted = (
                0.9
                * (number + self._dice.uniform(0.3, 0.9))
                * len(self._plans)
                / (self._options.restarts + 1)
            )
            async with self._progress:
                await self._progress.wait_for(lambda wanted=wanted: self._next >= wanted)  # type: ignore[misc]
            kill = number % 2 == 0
            self.kills += kill
            self._serving.clear()
            await self.broker.end(signal.SIGKILL if kill else signal.SIGTERM)
            await self.broker.start()
            self._serving.set()

    async def _until_all_decided(self, reader: RemotingClient) -> None:
        """Until the broker's own progress says that no half message is left. Raises
        ``DemoError``."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            ended = await _offset(
                reader,
                self.broker.address,
                RequestCode.GET_MAX_OFFSET,
                QueueRequest(topic=HALF, queue_id=0),
            )
            progress = QueryConsumerOffsetRequest(consumer_group=PROGRESS, topic=HALF, queue_id=0)
            if (
                await _offset(
                    reader, self.broker.address, RequestCode.QUERY_CONSUMER_OFFSET, progress
                )
                == ended
            ):
                self._heir.cancel()
                await asyncio.gather(self._heir, return_exceptions=True)
                return
            await asyncio.sleep(0.1)
        raise DemoError("half messages are left undecided", "")


async def _offset(client: RemotingClient, address: str, code: RequestCode, request: object) -> int:
    answer = await client.invoke(address, code, request, timeout=10)  # type: ignore[arg-type]
    return int(answer.check().ext_fields["offset"])


async def _read(client: RemotingClient, address: str, topic: str, queues: int) -> list[MessageExt]:
    """Everything that lies in a topic."""
    found: list[MessageExt] = []
    for queue_id in range(queues):
        offset = 0
        while True:
            request = PullMessageRequest(
                consumer_group="transactions-reader", topic=topic, queue_id=queue_id,
                queue_offset=offset, max_msg_nums=32,
                sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0,
                subscription="*",
                sub_version=0, expression_type="TAG",
            )  # fmt: skip
            answer = await client.invoke(address, RequestCode.PULL_MESSAGE, request, timeout=10)
            messages = (
                read_messages(answer.body, "")[0] if answer.code == ResponseCode.SUCCESS else []
            )
            if not messages:
                break
            found += messages
            offset = messages[-1].queue_offset + 1
    return found


async def transactions(options: Options) -> int:
    """The whole campaign; returns the exit code."""
    with data_folder(None) as folder:
        broker = BrokerProcess(
            folder,
            transactionCheckInterval=options.check_interval_ms,
            transactionTimeOut=options.timeout_ms,
            transactionCheckMax=options.max_checks,
            messageDelayLevel="1s 2s",
        )
        campaign = Campaign(options, broker)
        try:
            verdict = await campaign.run()
        finally:
            await broker.end(signal.SIGKILL)
    problems = broker.problems + verdict.problems
    repeated = verdict.repeated.total()
    if (
        repeated != verdict.repeated[Kind.DELAYED.value]
    ):  # a kill may repeat what the schedule has delivered
        problems.append(f"messages came more than once: {dict(verdict.repeated)}")
    print(f"{sum(verdict.kinds.values()):,} transactions in {campaign.took_s:.1f} s, seed "
          f"{options.seed}, "
          f"{options.restarts} restarts, {campaign.kills} of them kills")  # fmt: skip
    for name, count in sorted(verdict.kinds.items()):
        print(f"  {count:>6,} {name}")
    print(
        f"  delivered {verdict.delivered:,}, {repeated} of them repeated, given up "
        f"{verdict.given_up:,}"
    )
    print(f"  checks {campaign.checks:,}, words lost on their way {campaign.lost_words:,}")
    print(f"  CPU of the broker {broker.cpu_s:.1f} s")
    for problem in problems[:20]:
        print(f"NOT GOOD: {problem}")
    if not problems:
        print(
            "GOOD: every transaction ended as its producer's log says, those of silent producers "
            "were given up"
        )
    return 1 if problems else 0


@click.command(context_settings=HELP)
@click.option("--transactions", "count", type=click.IntRange(1), default=10_000, help="How many.")
@click.option(
    "--restarts", type=click.IntRange(0), default=6, help="Of the broker, every other one a kill."
)
@SEED
@click.option(
    "--check-interval-ms", type=click.IntRange(50), default=500, help="transactionCheckInterval."
)
@click.option("--max-checks", type=click.IntRange(4), default=15, help="transactionCheckMax.")
def main(count: int, restarts: int, seed: int, check_interval_ms: int, max_checks: int) -> None:
    """Transactions through restarts, kills, silence and a producer that is gone."""
    options = Options(
        count, restarts, seed, check_interval_ms=check_interval_ms, max_checks=max_checks
    )
    sys.exit(run_program("transactions", transactions(options)))


if __name__ == "__main__":
    main()
