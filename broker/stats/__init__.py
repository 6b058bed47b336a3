"""What a broker counts, and sums and rates over the last minute, hour and day.

Imports ``state`` (which topics there are). Start with ``broker_stats.py``.
"""
