"""Master and slave: sockets and services around what ``store/replica`` decides.

Imports ``state``, ``schedule`` and ``transactions`` (their progress is copied), ``sends`` and
``config``. Start with ``roles.py``; then ``master.py`` for one end of the stream and ``slave.py``
for the other.
"""
