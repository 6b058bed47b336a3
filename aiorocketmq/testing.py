"""pytest plugin of aiorocketmq (entry point ``pytest11``): fixtures that start a small cluster."""
