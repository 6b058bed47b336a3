"""The worlds of the scenarios, one per area: a ``Driver`` whose methods are the steps of its files.

``simulated`` is what they share: time that passes from one due task to the next, and a network of
pipes. What runs in them is the real code.
"""
