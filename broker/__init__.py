"""The broker: takes messages, keeps them, hands them out.

Here stands only life: ``assembly/`` puts the parts together, ``opening.py`` opens and closes them
in order, ``daemon.py`` is the process. Imports ``store``, ``client`` (for what a broker is a client
of) and what lies below; start with ``assembly/broker.py``, then ``processors/``.
"""
