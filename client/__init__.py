"""Producers, consumers and the administration client, all asyncio.

Here stands what every client has: errors, options, credentials, names. Imports ``remoting`` and
``daemon``. Start with ``options.py``, then ``producer/``, ``consumer/`` or ``admin/``.
"""
