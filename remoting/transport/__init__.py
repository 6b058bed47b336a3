"""Connections: listening, calling, TLS, limits, and the end of each of them.

Imports ``remoting`` and its protocol. Start with ``connection.py``, one class for both ends;
``flow.py``, ``budget.py`` and ``signs_of_life.py`` are pure.
"""
