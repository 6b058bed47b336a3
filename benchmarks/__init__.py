"""Measurements of the daemons and the client, from outside their processes."""
