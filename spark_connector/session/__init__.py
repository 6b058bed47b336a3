"""Spark's own processes: whether there is a Java, workers that start quickly, an archive of
classes.

Imports nothing of the connector. Start with ``java.py``.
"""
