"""Parts of ``benchmarks.raft_faults``: a group of real brokers on links and disks that can be
broken, and clients that write down what they see. Imports the product's public clients and
``benchmarks.histories``; start with ``campaign.py``."""
