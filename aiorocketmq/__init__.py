"""RocketMQ in Python: the public face of the name server, broker, client and tools."""
