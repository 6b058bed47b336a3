"""Remoting: frames over TCP, one dispatch mechanism, the same connection class on both ends.

Here stands what is above the protocol and below sockets: dispatch, errors, signatures, clock, owned
tasks. Imports ``remoting.protocol`` only. Start with ``dispatch.py``, then ``transport/``.
"""
