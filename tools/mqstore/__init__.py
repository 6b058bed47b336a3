"""``mqstore``: a store directory of either implementation, looked at from outside (``docs/mqstore.md``)."""
