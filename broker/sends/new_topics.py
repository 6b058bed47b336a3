"""Topics that messages make: who sent the first ones is told that they are stored when the topic is
on the disk, too.

Otherwise a kill within the milliseconds that ``topics.json`` takes would leave messages that were
acknowledged, in a topic that nobody knows. The original writes the file inside the request, and
every other request waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ...remoting.dispatch import Context, Reply, reply_together
from ...remoting.protocol.codes import ResponseCode
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

    def __init__(self, when_saved: WhenSaved, behind: StoredSafely) -> None:
        """``behind``: what comes after."""
        self._when_saved: Final = when_saved
        self._behind: Final = behind
        self.for_all: Final = behind.for_all
        self.waits: bool = behind.waits
        self.answer: Answer = behind.answer
        """See ``AnswersWait``. While there is no such topic nothing stands in between."""
        self._held: Final[dict[str, list[Waiting]]] = {}
        """For each of these topics the answers that wait."""
        self._failing: Final[set[str]] = set()
        """Those of them of which the file could not be written."""

    def topic_changed(self, topic: Topic, change: TopicChange) -> None:
        """Listens to topics, after the file of their table, which is to be written then."""
        if change is TopicChange.MADE:
            self._made(topic.name)

    def _made(self, topic: str) -> None:
        self.waits, self.answer = True, self._answer
        self._held.setdefault(topic, [])
        self._when_saved(partial(self._written, topic))

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

    def _hold(self, phy_offset: int, ctx: Context, answer: Reply | bytes) -> None:
        topic = ctx.request.topic
        if topic in self._failing:
            _tell_not_safe([(phy_offset, ctx, answer)])
        elif topic in self._held:
            self._held[topic].append((phy_offset, ctx, answer))
        else:
            self._pass_on([(phy_offset, ctx, answer)])

    def _written(self, topic: str, error: StoreFileError | None) -> None:
        held = self._held.pop(topic, [])
        if error is None:
            self._failing.discard(topic)
            if not self._held:
                self.waits, self.answer = self._behind.waits, self._behind.answer
            self._pass_on(held)
            return
        self._held[topic] = []
        self._failing.add(topic)
        _tell_not_safe(held)
        self._when_saved(partial(self._written, topic))

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
