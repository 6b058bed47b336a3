"""What all rooms of the store speak in: errors, settings, answers, delay levels.

Imports the protocol only. Start with ``status.py``.
"""
