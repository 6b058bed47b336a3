"""``format("rocketmq-store")``: the files of a store as a DataFrame, without a broker.

Imports ``decode``, ``access`` and ``store``. Start with ``store_source.py``.
"""
