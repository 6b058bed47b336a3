"""A group of pure members (``store/raft``) on a network that delivers at once: who leads, in which
term, and what of each log is committed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.store.raft.lab import Group
from tests.store.raft.list_log import ListLog

from ..language import Driver, Said, step


class ElectionDriver(Driver):
    """Time passes in the group only."""

    async def start(self) -> None:
        self.group = Group({})

    @step("group of {names}")
    def group_of(self, names: list[str]) -> None:
        """New members, started together."""
        self.group = Group({name: ListLog() for name in names})

    @step("advance {seconds} s")
    def advance(self, seconds: float) -> None:
        self.group.wait(int(seconds * 1000))

    @step("elect")
    def elect(self) -> Said:
        """As long as it takes."""
        begin = self.group.now
        self.group.elect()
        within = "within 2 s" if self.group.now - begin <= 2000 else "later"
        return f"{within}: {self._led()}"

    @step("who leads")
    def who_leads(self) -> Said:
        return self._led()

    def _led(self) -> str:
        up = [name for name in self.group.leaders() if name not in self.group.down]
        led = [f"{name} leads term {self.group.members[name].term}" for name in up]
        return ", ".join(led) or "nobody"

    @step("put {count} at {name}")
    def put(self, count: int, name: str) -> None:
        for number in range(count):
            self.group.put(name, b"%d" % number)
        self.group.settle()

    @step("logs")
    def logs(self) -> Iterator[str]:
        """Terms of all entries, with a stroke behind what is committed."""
        for name, log in self.group.logs.items():
            terms = [str(entry.term) for entry in log.stored]
            terms.insert(self.group.members[name].committed_index + 1, "|")
            yield f"{name}: {' '.join(terms)}"

    @step("kill {names}")
    def kill(self, names: list[str]) -> None:
        """What they have stays."""
        self.group.down.update(names)

    @step("start {names}")
    def restart(self, names: list[str]) -> None:
        for name in names:
            committed = self.group.members[name].committed_index
            self.group.start(name, committed=committed, votes=self.group.members[name].votes)

    @step("lose the log of {name}")
    def lose(self, name: str) -> None:
        """It is killed, its log is gone, and its marker says so when it is started."""
        self.group.down.add(name)
        self.group.logs[name] = ListLog()
        self.group.start(name, votes=False)
        self.group.down.add(name)

    @step("votes {name}")
    def votes(self, name: str) -> Said:
        return "yes" if self.group.members[name].votes else "no"

    @step("cut {a} from {b}")
    def cut(self, a: str, b: str) -> None:
        """Both ways; ``all`` is all others."""
        for other in self.group.logs if b == "all" else [b]:
            self.group.cut |= {(a, other), (other, a)}

    @step("heal")
    def heal(self) -> None:
        self.group.cut.clear()

    @step("hand over from {name} to {to}")
    def hand_over(self, name: str, to: str) -> Said:
        self.group.members[name].transfer(self.group.now, to, "order")
        self.group.wait(0)
        self.group.wait(2000)
        return str(int(self.group.answers.pop("order").code))
