"""Messages: body, property string, ids, flags, names (message-encoding.md §4).

Pure; imports nothing but the standard library. Start with ``message.py``; the bytes that are stored
of a message live in ``record/``.
"""
