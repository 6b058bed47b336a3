"""The demo: a real cluster in processes of its own takes a real data set through a topic (``make
demo``)."""
