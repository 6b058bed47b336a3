"""Pure: what goes over the wire and onto the disk. Nothing here opens a socket or reads a clock."""
