"""Brokers of the 0.8 design (docs/design-0.8.md) in a simulated cluster with virtual time.

- `cluster`: the brokers, their network, clients and administrators, on a simulated ZooKeeper
- `broker_process`: one broker over all its runs, with its disk
"""
