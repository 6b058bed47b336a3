"""Remoting: frames over TCP, one dispatch mechanism, the same connection class on both ends."""
