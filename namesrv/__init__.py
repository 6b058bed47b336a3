"""The name server: which broker has which topics, as they register and expire.

``route_table.py``, ``kv_config.py``, ``route_limits.py`` and ``registration_body.py`` are pure; the
rest is a daemon around them. Imports ``remoting``, ``daemon`` and, for ``product_environment.py``,
``client.cluster``. Start with ``route_table.py``.
"""
