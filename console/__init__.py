"""``mqconsole``: pages that show a cluster, and, where it is told to, change it.

Knows nothing that ``mqadmin`` could not ask: imports ``client`` (``client/admin`` above all),
``daemon`` and types of ``remoting``, of the brokers' side nothing. ``model/`` is pure and makes
what a page shows of what the cluster answers; ``pages/`` has the handlers; ``cluster.py`` asks.
Start with ``app.py``; what keeps others out is ``security.py`` and ``door.py``.
"""
