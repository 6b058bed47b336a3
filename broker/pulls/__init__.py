"""What surrounds a pull: waiting for messages, offsets that are gone, groups that are too slow.

Imports ``state``, ``stats``, ``filter`` and ``config``. Start with ``long_polling.py``.
"""
