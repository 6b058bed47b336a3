"""How a broker degrades, and that it comes back: ``python -m benchmarks.degradation`` (``make
degradation``).

Each step has a name server and a broker of its own, and the same load: 16 senders, one message each
on its way. It is measured before, during and after some trouble; at the end everything that was
acknowledged is read back. ``load.py`` is the load, ``steps.py`` has the troubles, ``peers.py`` who
makes them from a process of their own.

Imports the package, ``examples.demo`` and the harness. Start with ``steps.py``.
"""
