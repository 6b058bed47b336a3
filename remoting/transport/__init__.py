"""Connections: listening, calling, TLS, limits, and the end of each of them.

Imports ``remoting`` and its protocol. Start with ``connection.py``, one class for both ends;
its life is ``connection_state.py``, pure as are ``flow.py``, ``budget.py``, ``spin_wait.py`` and
``signs_of_life.py``.
"""
