"""Topics that are made or changed: who sends to one is told that a message is stored when the topic
is on the disk, too, and name servers, hence consumers, hear of it only then.

Otherwise a kill within the milliseconds that ``topics.json`` takes would leave messages that were
acknowledged or read, in a topic that nobody knows, or in a queue that it does not have. The
original writes the file inside the request, and every other request waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from ...remoting.dispatch import Context, Reply, reply_together
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.topic_names import dlq_topic, group_of_retry_topic
from ...store.model.errors import StoreFileError
from ..state.topics import Topic, TopicChange
from .durability import StoredSafely, with_code

Waiting = tuple[int, Context, Reply | bytes]
WhenSaved = Callable[[Callable[[StoreFileError | None], None]], None]
"""``ConfigFile.when_saved``"""
_SAFE: Final = 0
"""Where a message ends that there is nothing more to wait for."""
Answer = Callable[[int, Context, Reply | bytes], None]
"""``AnswersWait.answer``"""


class NewTopics:
    """In front of what answers wait for anyway, as long as there is a topic that is not in its file
    yet.

    When the file cannot be written the messages are kept, and their senders told that this is not
    safe (FLUSH_DISK_TIMEOUT), until it can.
    """

    def __init__(
        self, when_saved: WhenSaved, behind: StoredSafely, version: Callable[[], DataVersion]
    ) -> None:
        """``behind``: what comes after. ``version``: of the table of topics, now."""
        self._version: Final = version
        self._when_saved: Final = when_saved
        self._behind: Final = behind
        self.for_all: Final = behind.for_all
        self.waits: bool = behind.waits
        self.answer: Answer = behind.answer
        """See ``AnswersWait``. While there is no such topic nothing stands in between."""
        self.listeners: Final[list[Callable[[Topic, DataVersion], None]]] = []
        """Called with each topic that was made or changed, when it is on the disk, and the version
        that this made: meanwhile others may have changed, which nobody may hear of yet."""
        self._held: Final[dict[str, list[Waiting]]] = {}
        """For each of these topics the answers that wait."""
        self._failing: Final[set[str]] = set()
        """Those of them of which the file could not be written."""
        self._changes: Final[dict[str, int]] = {}
        """How many changes of each of them are not in the file yet: the last one counts."""

    def topic_changed(self, topic: Topic, change: TopicChange) -> None:
        """Listens to topics, after the file of their table, which is to be written then."""
        if change.is_for_name_servers:
            self.waits, self.answer = True, self._answer
            self._held.setdefault(topic.name, [])
            self._changes[topic.name] = self._changes.get(topic.name, 0) + 1
            self._when_saved(partial(self._written, topic, self._version()))

    def _answer(self, phy_offset: int, ctx: Context, answer: Reply | bytes) -> None:
        if self.for_all:
            self._behind.when_stored(phy_offset, partial(self._committed, ctx, answer))
        else:
            self._hold(phy_offset, ctx, answer)

    def _committed(self, ctx: Context, answer: Reply | bytes, code: int) -> None:
        """A group has the message, or not."""
        if code:
            self._behind.tell(ctx, answer, code)
        else:
            self._hold(_SAFE, ctx, answer)

    def lacks(self, topics: Collection[str]) -> bool:
        """One of these is not in the file yet."""
        return not self._held.keys().isdisjoint(topics)

    def when_saved(self, topics: Collection[str], done: Callable[[int], None]) -> None:
        """For answers of another kind: call ``done`` with SUCCESS when all of these topics are in
        the file, or with FLUSH_DISK_TIMEOUT."""
        if not self.lacks(topics):
            done(ResponseCode.SUCCESS)
        elif not self._failing.isdisjoint(topics):
            done(ResponseCode.FLUSH_DISK_TIMEOUT)
        else:
            self._when_saved(
                lambda error: done(
                    ResponseCode.SUCCESS if error is None else ResponseCode.FLUSH_DISK_TIMEOUT
                )
            )

    def _hold(self, phy_offset: int, ctx: Context, answer: Reply | bytes) -> None:
        topic = self._lacking(ctx.request.topic)
        if topic is None:
            self._pass_on([(phy_offset, ctx, answer)])
        elif topic in self._failing:
            _tell_not_safe([(phy_offset, ctx, answer)])
        else:
            self._held[topic].append((phy_offset, ctx, answer))

    def _lacking(self, topic: str) -> str | None:
        """What is not in the file of the topics that a message to this one may have gone to: after
        its last attempt one to a retry topic is a dead letter."""
        if topic in self._held:
            return topic
        group = group_of_retry_topic(topic)
        dead_letters = None if group is None else dlq_topic(group)
        return dead_letters if dead_letters in self._held else None

    def _written(self, topic: Topic, version: DataVersion, error: StoreFileError | None) -> None:
        name = topic.name
        if error is not None:
            self._failing.add(name)
            held, self._held[name] = self._held[name], []
            _tell_not_safe(held)
            self._when_saved(partial(self._written, topic, version))
            return
        self._changes[name] -= 1
        if self._changes[name]:
            return
        del self._changes[name]
        self._failing.discard(name)
        held = self._held.pop(name)
        if self._held:
            for each in held:
                self._hold(*each)
        else:
            self.waits, self.answer = self._behind.waits, self._behind.answer
            self._pass_on(held)
        for listener in self.listeners:
            listener(topic, version)

    def _pass_on(self, answers: list[Waiting]) -> None:
        if not self._behind.waits:
            reply_together((ctx, answer) for _, ctx, answer in answers)
            return
        for each in answers:
            self._behind.answer(*each)


def _tell_not_safe(answers: list[Waiting]) -> None:
    reply_together(
        (ctx, with_code(answer, ResponseCode.FLUSH_DISK_TIMEOUT)) for _, ctx, answer in answers
    )
