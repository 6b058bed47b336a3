"""A real pipeline: two topics joined as streams, windowed, into a topic and Parquet, killed and
restarted in the middle, checked at the end (``make pipeline``). ``README.md`` explains it; start
with ``job.py``."""
