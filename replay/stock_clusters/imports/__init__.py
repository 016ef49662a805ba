"""`refold import`: from what a stock cluster's ZooKeeper and brokers left to a world-backed log.

- `importing` does it, `kafka_root` finds the cluster in the tree
- `terms` says whose session is controller, `decisions` what it decided and what it was asked for;
  docs/import.md states their rules
- `asked` knows what the brokers' request logs say was asked for
- `clocks` finds brokers' logs of another time zone; `counting` is what is told at the end
"""
