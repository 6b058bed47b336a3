"""What clients and observers of a cluster saw, and whether a correct one could have shown it to
them. Pure: imports nothing of the product, no sockets, files or clocks. ``events.py`` says what a
history is made of, ``judge.py`` finds what must not be."""
