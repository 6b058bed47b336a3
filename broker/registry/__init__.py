"""How a broker is known to its name servers: what it tells them, when, and where they are.

Imports ``state`` and ``config``, and the client's HTTP address server. Start with
``registration.py``, which decides without I/O; ``name_servers.py`` does it.
"""
