"""What people and machines look at: runtime information, metrics for Prometheus, progress of
groups, health.

Only reads; imports ``stats``, ``state`` and the gauges of other rooms. Start with
``runtime_info.py``, the table that request 28 answers.
"""
