"""Which masters may have topics forgotten by no more than not having them (ours; 5.x has
``deleteTopicWithBrokerRegistration``, which believes every registration). Pure.

A broker of ours says of a registration that it is all that it has (``wholeTable``). A topic of its
name that is not in it was deleted, and the name server was not told, or was told of it again by a
registration that came late. It goes, unless something speaks against it:

* a registration that is older than one that came before it. What it lacks may have been made since;
* another broker that registered as master of this name is still there, and has not come back as
  something else: two brokers with one name by mistake, or a member of a group that has not noticed
  that somebody else leads. Nobody knows whose topics they are.

Where it may not go, or only some topics were registered since, the next whole registration is
looked at although its version is known: that is within 30 s.
"""

from __future__ import annotations

from typing import Final

from ..remoting.protocol.bodies.topic_config import DataVersion


class WholeTables:
    """Of one name server, by broker name."""

    def __init__(self) -> None:
        self._newest: Final[dict[str, DataVersion]] = {}
        """Of all that masters of this name have registered."""
        self._whole: Final[set[str]] = set()
        """Of these exactly that is known which the newest table has (and what an administrator has
        had forgotten is not missing: it comes with the next version, as always)."""

    def has_news(self, broker_name: str, version: DataVersion) -> bool:
        """Whether what is not in the whole table of that version may have been deleted."""
        newest = self._newest.get(broker_name)
        if newest is None or _age(version) > _age(newest):
            return True
        return version == newest and broker_name not in self._whole

    def told(self, broker_name: str, version: DataVersion, *, whole: bool) -> None:
        """Topics were registered. ``whole``: what else was known is gone."""
        newest = self._newest.get(broker_name)
        if newest is None or _age(version) > _age(newest):
            self._newest[broker_name] = version
        if whole:
            self._whole.add(broker_name)
        else:
            self._whole.discard(broker_name)

    def gone(self, broker_name: str) -> None:
        """Nothing is known of it any more."""
        self._newest.pop(broker_name, None)
        self._whole.discard(broker_name)


def _age(version: DataVersion) -> tuple[int, int]:
    """Greater where it is newer: each change counts on, and who leads a group next may have counted
    to the same number."""
    return version.counter, version.timestamp
