"""The cluster after an event, as plain values.

- `views`: the values; `selecting`: those about one topic or partition
- `from_context` makes them from the state of refold's fold, `from_znodes` from an imported
  ZooKeeper
"""
