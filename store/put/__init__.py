"""Writing: a message or a batch goes into the commit log and its queues.

Imports ``log``, ``queues``, ``index`` and ``services`` (why nothing may be written just now). Start
with ``message_writer.py``.
"""
