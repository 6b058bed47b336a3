"""Whether a master's tables have changed, in one word: a slave that has taken them all over asks
for them again when the word is another one.

It goes along with the question that a slave asks first in any case (``slave_sync``).
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Final

from ..schedule.schedule_offsets import DelayOffsets
from ..state.state import State

_BYTES: Final = 16


class TableStates:
    """Of the tables that slaves take over."""

    def __init__(self, state: State, delay_offsets: DelayOffsets) -> None:
        self._process: Final = os.urandom(_BYTES)
        """Another one counts changes from 0 again."""
        self._state = state
        self._delay_offsets = delay_offsets

    def word(self) -> str | None:
        """The same as long as nothing changes in this process. None: what was delivered of delayed
        messages is not safe yet, and who asks for it waits until it is."""
        delivered = self._delay_offsets.safe_text
        if delivered is None:
            return None
        state = self._state
        topics, groups = state.topics.data_version.text, state.groups.data_version.text
        versions = f"{topics} {groups} {state.offsets.recent.number} {delivered}"
        return blake2b(versions.encode(), digest_size=_BYTES, key=self._process).hexdigest()
