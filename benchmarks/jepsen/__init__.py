"""A checker of histories for real processes (``make jepsen``): clients write down each call with
its begin and its end, the machines of the cluster are killed, stopped, cut off, slowed down and
filled up, and ``histories/judge.py`` holds what was seen against what is stored.

Start with ``campaign.py``: a run on one cluster (``cluster.py``) in one network (``network.py``),
with ``clients.py`` and ``faults.py``. What comes of it are figures (``figures.py``), of which
``picture.py`` and ``page.py`` make a timeline and a page.
"""
