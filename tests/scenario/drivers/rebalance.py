"""How a division of queues among the members of a group comes out, strategy by strategy."""

from __future__ import annotations

from aiorocketmq.client.consumer.rebalance import (
    AllocateStrategy,
    averagely,
    by_circle,
    by_machine_room,
    by_nearby_room,
    changes,
    consistent_hash,
    sorted_client_ids,
    sorted_queues,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..language import Driver, step


class RebalanceDriver(Driver):
    """Each member computes its part alone, from the same two lists."""

    async def start(self) -> None:
        self.queues: list[MessageQueue] = []
        self.members: list[str] = []
        self.rooms: list[str] = []
        self.before: dict[str, list[MessageQueue]] = {}

    @step("queues {counts}")
    def have_queues(self, counts: list[str]) -> None:
        """``broker-a(4) broker-b(4)``."""
        pairs = [count.rstrip(")").split("(") for count in counts]
        self.queues = sorted_queues(
            MessageQueue("T", broker, number) for broker, n in pairs for number in range(int(n))
        )

    @step("members {names}")
    def have_members(self, names: list[str]) -> None:
        self.members = sorted_client_ids(names)

    @step("rooms {names}")
    def have_rooms(self, names: list[str]) -> None:
        """The machine rooms that MACHINE_ROOM is told."""
        self.rooms = names

    @step("divide {strategy}")
    def divide(self, strategy: str) -> list[str]:
        divided = {m: self._strategy(strategy)(m, self.queues, self.members) for m in self.members}
        self.before = divided
        return [f"{member}: {_text(queues)}" for member, queues in divided.items()]

    @step("divide {strategy} again")
    def divide_again(self, strategy: str) -> list[str]:
        """Who gives up what and takes what, compared with the division before."""
        said, before = [], self.before
        self.divide(strategy)
        for member in sorted_client_ids([*before, *self.before]):
            lost, gained = changes(before.get(member, []), self.before.get(member, []))
            said.append(f"{member}: gives up {_text(lost)}, takes {_text(gained)}")
        return said

    def _strategy(self, name: str) -> AllocateStrategy:
        return {
            "AVG": averagely,
            "AVG_BY_CIRCLE": by_circle,
            "CONSISTENT_HASH": consistent_hash,
            "MACHINE_ROOM": by_machine_room(*self.rooms),
            "MACHINE_ROOM_NEARBY": by_nearby_room(
                lambda queue: queue.broker_name.partition("@")[0],
                lambda member: member.partition("@")[0],
            ),
        }[name]


def _text(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues) or "nothing"
